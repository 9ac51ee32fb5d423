"""Zone lists. The contract is in index/zone_list.pxd."""
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns._wire cimport Name, wire_name_copy
from fastdns._wire import name_wire


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

    def __dealloc__(self):
        free(self.zones.names)

    def match(self, str text not None):
        cdef Name name
        cdef const ZoneName *zone
        wire = name_wire(text)
        wire_name_copy(&name, wire, <int>len(wire))
        zone = zones_match(&self.zones, &name)
        return None if zone == NULL else zone.wire[:zone.length]


def labels_first(bytes wire not None):
    """Sort key: names with more labels come first."""
    cdef int count = 0, at = 0
    cdef const uint8_t *octets = wire
    while octets[at] != 0:
        count += 1
        at += octets[at] + 1
    return -count, wire
