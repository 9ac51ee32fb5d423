"""Zone lists. The contract is in index/zone_list.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns._wire cimport Name, octets_equal, wire_name_copy
from fastdns._wire import name_wire


cdef const ZoneName *zones_look_up(const Zones *zones, const Name *name) noexcept nogil:
    """The root has no slot: it is what is left."""
    cdef uint32_t label, i, at, length, least = zones.labels_least + zones.all
    cdef const ZoneName *zone
    label = name.labels - zones.labels_most if name.labels > zones.labels_most else 0
    while label + least <= name.labels:
        i = name.hash[label]
        at = zones.slots[i & zones.mask]
        while at:
            zone = &zones.names[at - 1]
            length = name.length - name.offset[label]
            if zone.hash == name.hash[label] and zone.length == length and octets_equal(name.lower + name.offset[label], zone.wire, length):
                return zone
            i += 1
            at = zones.slots[i & zones.mask]
        label += 1
    return &zones.names[zones.count - 1] if zones.all else NULL


cdef class ZoneList:
    def __cinit__(self, zones):
        cdef Name name
        cdef ZoneName *zone
        texts = tuple(zones)
        wires = sorted({name_wire(text.lower()) for text in texts}, key=labels_first)
        self.names = texts
        self.zones.names = <ZoneName *>calloc(len(wires) + 1, sizeof(ZoneName))
        if self.zones.names == NULL:
            raise MemoryError
        for wire in wires:
            wire_name_copy(&name, wire, <int>len(wire))
            zone = &self.zones.names[self.zones.count]
            self.zones.count += 1
            zone.hash = name.hash[0]
            zone.length = name.length
            zone.labels = name.labels
            memcpy(zone.wire, name.lower, name.length)
            if name.labels == 0:
                self.zones.all = 1
        if self.zones.count > ZONES_FEW:
            self.hash_zones()

    cdef int hash_zones(self) except -1:
        """At most a quarter of the slots are used: most look-ups are for suffixes that are no zones, and end at the first free one."""
        cdef Zones *zones = &self.zones
        cdef uint32_t i, at, size = 4 * ZONES_FEW
        while size < 4 * zones.count:
            size *= 2
        zones.slots = <uint32_t *>calloc(size, sizeof(uint32_t))
        if zones.slots == NULL:
            raise MemoryError
        zones.mask = size - 1
        zones.labels_most = zones.names[0].labels
        zones.labels_least = zones.names[zones.count - 1].labels
        for i in range(zones.count - zones.all):
            at = zones.names[i].hash
            while zones.slots[at & zones.mask]:
                at += 1
            zones.slots[at & zones.mask] = i + 1
        return 0

    def __dealloc__(self):
        free(self.zones.names)
        free(self.zones.slots)

    def match(self, str text not None):
        cdef Name name
        cdef const ZoneName *zone
        wire = name_wire(text)
        wire_name_copy(&name, wire, <int>len(wire))
        zone = zones_find(&self.zones, &name)
        return None if zone == NULL else zone.wire[:zone.length]


def labels_first(bytes wire not None):
    """Sort key: names with more labels come first."""
    cdef int count = 0, at = 0
    cdef const uint8_t *octets = wire
    while octets[at] != 0:
        count += 1
        at += octets[at] + 1
    return -count, wire
