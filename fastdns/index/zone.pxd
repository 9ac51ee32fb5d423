"""Zones for authoritative plugins (file, auto, secondary): versions in an index, built beside the one that serves and swapped whole.

    builder = zone_builder(&zone.state)             # any thread; NULL: no memory
    zone_add(builder, &name, type, klass, ttl, rdata, rdlength), or zone_take as the sink of _zonefile
    status = zone_finish(builder)                   # ZONE_OK: builder.version tells serial and so on
    zone_publish(&zone.state, builder)              # readers have the new version from now on
    zone_builder_free(builder)                      # always; what was not published goes with it

From Python: `Zone.draft()`, `ZoneDraft.add`/`read`, `Zone.publish(draft)`.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.system.atomic cimport atomic_load_pointer
from fastdns.index.index cimport Index
from fastdns.index.nodes cimport IndexCore, IndexRecord, IndexTable
from fastdns.index.version cimport ZoneVersion
from fastdns._wire cimport Name, NAME_MAX, octets_equal
from fastdns.zonefile.parser cimport ZoneRecord

cdef struct ZoneState:          # what workers see of a zone; part of its Zone
    IndexCore *index
    uint8_t expired             # atomic: a secondary's data are too old (RFC 1035 3.3.13); SERVFAIL
    uint32_t label              # by which *prometheus* knows the zone; 0: it does not. Written before the zone enters a set

# ---- building ----

cdef struct Group:              # records of one name
    IndexRecord *records        # rdata is an offset into octets until they are put
    uint32_t count
    uint32_t capacity
    uint8_t *octets
    uint64_t used
    uint64_t size

cdef struct Late:               # records of a name that had come before: put with the others at the end
    uint32_t hash
    uint32_t sequence
    uint32_t size               # of the records behind the name
    uint8_t length
    uint8_t octets[1]           # name (lower case), then type, TTL, rdlength, rdata of each

cdef struct ZoneBuilder:
    IndexCore *index
    IndexTable *table
    ZoneVersion *version        # made by zone_finish
    int64_t unless        # serial that need not be loaded; -1: none
    int taken                   # what zone_take's last record came to
    uint8_t finished
    uint8_t soas                # SOA records met, at most 255
    uint64_t records            # taken
    uint64_t ignored            # records outside the origin, or not of class IN
    Name stray                  # owner of the first of them
    Name owner                  # of `group`
    Group group
    Group apex
    Late **late
    uint32_t late_count
    uint32_t late_capacity
    Name at                     # where a failure was

cdef ZoneBuilder *zone_builder(const ZoneState *zone) noexcept nogil
# rdata is uncompressed; lower-cased in a copy where the zone keeps it so. owner is indexed.
cdef int zone_add(ZoneBuilder *builder, const Name *owner, uint16_t type, uint16_t klass, uint32_t ttl, const uint8_t *rdata,
                  uint16_t rdlength) noexcept nogil
# A zone_sink of _zonefile: self is the builder. Anything but ZONE_OK ends the parsing, and stands in builder.taken.
cdef int zone_take(void *builder, ZoneRecord *record) noexcept nogil
cdef int zone_finish(ZoneBuilder *builder) noexcept nogil
cdef void zone_publish(ZoneState *zone, ZoneBuilder *builder) noexcept nogil
cdef void zone_builder_free(ZoneBuilder *builder) noexcept nogil

cdef class ZoneDraft:
    cdef ZoneBuilder *builder
    cdef Zone zone

cdef class Zone:
    cdef ZoneState state
    cdef readonly Index index
    cdef readonly str origin
    cdef readonly bytes wire

# ---- which zone a name is in ----

cdef struct ZoneSlots:          # a hash table of zones by origin
    uint32_t mask
    uint8_t least               # labels that origins have, at least and at most
    uint8_t most
    uint32_t count
    ZoneState *slots[1]

cdef inline const ZoneState *zone_match(const ZoneSlots *zones, const Name *name) noexcept nogil:
    """The longest zone that is the name or above it, or NULL."""
    cdef uint32_t label = 0, offset, slot
    cdef const ZoneState *zone
    if zones.count == 0 or name.labels < zones.least:
        return NULL
    if name.labels > zones.most:
        label = name.labels - zones.most
    while label <= <uint32_t>(name.labels - zones.least):
        slot = name.hash[label] & zones.mask
        offset = name.offset[label]
        while zones.slots[slot] != NULL:
            zone = zones.slots[slot]
            if zone.index.origin.hash[0] == name.hash[label] and zone.index.origin.length == name.length - offset and (
                    octets_equal(zone.index.origin.lower, name.lower + offset, name.length - offset)):
                return zone
            slot = (slot + 1) & zones.mask
        label += 1
    return NULL

cdef class ZoneSet:             # ZoneSet(zones); `replace` while workers look into it
    cdef void *slots            # ZoneSlots, atomic
    cdef readonly tuple zones
    cdef list retired

cdef inline const ZoneSlots *zone_slots(void **slots) noexcept nogil:
    return <const ZoneSlots *>atomic_load_pointer(slots)
