"""A plugin's list of zones, matched on label boundaries without regard to case (spec: Zones.Matches)."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from fastdns._wire cimport Name

cdef struct ZoneName:
    uint32_t hash
    uint8_t length              # octets, root included
    uint8_t labels              # without the root
    uint8_t wire[255]           # lower case

cdef struct Zones:              # owned by a ZoneList; never changed
    uint32_t count
    uint32_t all                # the root is in it: every name matches
    ZoneName *names             # most labels first

cdef inline const ZoneName *zones_match(const Zones *zones, const Name *name) noexcept nogil:
    """The longest zone that is the name or above it, or NULL."""
    cdef uint32_t i, label
    cdef const ZoneName *zone
    for i in range(zones.count):
        zone = &zones.names[i]
        if zone.labels > name.labels:
            continue
        label = name.labels - zone.labels
        if name.hash[label] == zone.hash and name.length - name.offset[label] == zone.length and (
                memcmp(name.lower + name.offset[label], zone.wire, zone.length) == 0):
            return zone
    return NULL

cdef inline bint zones_hold(const Zones *zones, const Name *name) noexcept nogil:
    """Is the name in one of the zones?"""
    return zones.all or zones_match(zones, name) != NULL

cdef class ZoneList:            # ZoneList(texts); keep it as long as a handler uses `zones`
    cdef Zones zones
    cdef readonly tuple names
