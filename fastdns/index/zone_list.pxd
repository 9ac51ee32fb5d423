"""A plugin's list of zones, matched on label boundaries without regard to case (CoreDNS's plugin.Zones.Matches)."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from fastdns._wire cimport Name, octets_equal, wire_name_equal

cdef inline bint name_is_below(const Name *name, const uint8_t *zone, uint32_t length) noexcept nogil:
    """Whether the name is at or below a zone, which is in lower-case wire form."""
    cdef uint32_t label
    for label in range(name.labels + 1):
        if <uint32_t>name.length - name.offset[label] <= length:
            return <uint32_t>name.length - name.offset[label] == length and memcmp(name.lower + name.offset[label], zone, length) == 0
    return False

cdef inline bint wire_is_below(const uint8_t *name, uint32_t length, const uint8_t *zone, uint32_t zone_length) noexcept nogil:
    """Whether a name is at or below a zone; both are in wire form, in any case."""
    cdef uint32_t at = 0
    if length < zone_length:
        return False
    while at < length - zone_length:
        at += name[at] + 1u
    return at == length - zone_length and wire_name_equal(name + at, zone, <int>zone_length)

cdef struct ZoneName:
    uint32_t hash
    uint8_t length              # octets, root included
    uint8_t labels              # without the root
    uint8_t wire[255]           # lower case

cdef enum:
    ZONES_FEW = 8               # a longer list has a table

cdef struct Zones:              # owned by a ZoneList; constant
    uint32_t count
    uint32_t all                # the list contains the root: every name matches
    ZoneName *names             # most labels first
    uint32_t *slots             # of more than ZONES_FEW, by hash: position in `names` + 1, or 0; open addressing
    uint32_t mask               # slots - 1
    uint8_t labels_least        # of all zones: other suffixes of a name are not looked up
    uint8_t labels_most

# zones_find in a list with a table.
cdef const ZoneName *zones_look_up(const Zones *zones, const Name *name) noexcept nogil

cdef inline const ZoneName *zones_match(const Zones *zones, const Name *name) noexcept nogil:
    """The longest zone at or above the name, or NULL."""
    cdef uint32_t i, label
    cdef const ZoneName *zone
    for i in range(zones.count):
        zone = &zones.names[i]
        if zone.labels > name.labels:
            continue
        label = name.labels - zone.labels
        if name.hash[label] == zone.hash and name.length - name.offset[label] == zone.length and (
                octets_equal(name.lower + name.offset[label], zone.wire, zone.length)):
            return zone
    return NULL

cdef inline const ZoneName *zones_find(const Zones *zones, const Name *name) noexcept nogil:
    """zones_match for lists that may be long, where it takes no more time than for short ones."""
    return zones_match(zones, name) if zones.slots == NULL else zones_look_up(zones, name)

cdef inline bint zones_hold(const Zones *zones, const Name *name) noexcept nogil:
    """Whether the name is at or below one of the zones."""
    return zones.all or zones_match(zones, name) != NULL

cdef class ZoneList:            # ZoneList(texts); a handler that uses `zones` holds a reference
    cdef Zones zones
    cdef readonly tuple names
    cdef int hash_zones(self) except -1
