"""Zones of the authoritative plugins (file, auto, secondary). A new version is built in a private index table and published at once.

    builder = zone_builder(&zone.state)             # any thread except a worker; NULL: out of memory
    zone_add(builder, &name, type, klass, ttl, rdata, rdlength), or zone_take as the sink of zonefile/parser.pxd
    status = zone_finish(builder)                   # ZONE_OK: builder.version has the serial and so on
    zone_publish(&zone.state, builder)              # workers read the new version from here on
    zone_builder_free(builder)                      # always; frees a version that was not published

From Python: `Zone.draft()`, `ZoneDraft.add`/`read`, `Zone.publish(draft)`. index/change.pxd makes a version of a few differences.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.system.atomic cimport atomic_load_pointer, atomic_peek_ns
from fastdns.index.group cimport Group
from fastdns.index.index cimport Index
from fastdns.index.nodes cimport IndexCore, IndexTable
from fastdns.index.version cimport ZoneVersion
from fastdns._wire cimport Name, NAME_MAX, octets_equal
from fastdns.zonefile.parser cimport ZoneRecord

cdef struct ZoneState:          # the part of a Zone that workers read
    IndexCore *index            # owned by Zone.index
    uint8_t expired             # atomic: a secondary's copy has expired (RFC 1035 3.3.13); queries get SERVFAIL
    uint32_t label              # the zone's label number in *prometheus*; 0: none. Set before the zone enters a ZoneSet
    int64_t confirmed           # atomic; ns, monotonic: when a secondary's copy was last known to be that of the primary. 0: this server is the primary
    int64_t stale_after         # atomic; ns from then on after which the copy is stale. 0: never
    uint8_t stale_fails         # atomic; a stale copy is not served: queries get SERVFAIL

cdef inline int64_t zone_age(const ZoneState *zone, int64_t now) noexcept nogil:
    """ns, monotonic time and age, since when the zone may have changed at its primary."""
    cdef int64_t confirmed = atomic_peek_ns(&zone.confirmed)
    return max(<int64_t>0, now - confirmed) if confirmed else 0

cdef inline bint zone_is_stale(const ZoneState *zone, int64_t now) noexcept nogil:
    cdef int64_t after = atomic_peek_ns(&zone.stale_after)
    return after > 0 and zone_age(zone, now) > after

# ---- building ----

cdef struct DeferredRecords:    # further records of a name whose first group is in the table already; zone_finish adds them
    uint32_t hash               # of the name
    uint32_t sequence
    uint32_t size               # octets of the records behind the name
    uint8_t length              # of the name
    uint8_t octets[1]           # name in lower case, then type, TTL, rdlength and rdata of each record

cdef struct ZoneBuilder:
    IndexCore *index
    IndexTable *table
    ZoneVersion *version        # made by zone_finish
    int64_t unless              # a version with this serial is not loaded; -1: any version is
    int taken                   # result of the last zone_take
    uint8_t finished            # zone_finish was called
    uint8_t soas                # SOA records read, at most 255
    uint8_t other_soas          # one of them differs from that which is kept
    uint64_t records            # accepted
    uint64_t ignored            # records outside the origin, or not of class IN
    Name stray                  # owner of the first ignored record
    Name owner                  # of `group`
    Group group                 # records of the owner that is being read
    Group apex                  # records of the origin
    DeferredRecords **deferred
    uint32_t deferred_count
    uint32_t deferred_capacity
    Name at                     # owner of the record that failed

cdef ZoneBuilder *zone_builder(const ZoneState *zone) noexcept nogil
# Adds a record. owner has all its fields set; rdata is uncompressed and is copied. ttl: seconds. ZONE_OK, ZONE_UNCHANGED or an error.
cdef int zone_add(ZoneBuilder *builder, const Name *owner, uint16_t type, uint16_t klass, uint32_t ttl, const uint8_t *rdata,
                  uint16_t rdlength) noexcept nogil
# The zone_sink of a builder (zonefile/parser.pxd). A result other than ZONE_OK ends the parsing; builder.taken has it.
cdef int zone_take(void *builder, ZoneRecord *record) noexcept nogil
# Completes the version: checks the SOA, adds the deferred records, sorts NSEC and NSEC3. ZONE_OK or an error.
cdef int zone_finish(ZoneBuilder *builder) noexcept nogil
# Replaces the zone's table by the builder's. Waits for the readers of the former one for up to a second.
cdef void zone_publish(ZoneState *zone, ZoneBuilder *builder) noexcept nogil
cdef void zone_builder_free(ZoneBuilder *builder) noexcept nogil

# The exception for a status below 0; at is the owner that it is about, or has length 0.
cdef object zone_failure(int status, const Name *at, origin)

cdef class ZoneDraft:
    cdef ZoneBuilder *builder
    cdef Zone zone

cdef class Zone:
    cdef ZoneState state
    cdef readonly Index index
    cdef readonly str origin
    cdef readonly bytes wire
    cdef bytes nodes_folder     # None: nodes are memory
    cdef object __weakref__

# ---- sets of zones ----

cdef struct ZoneSlots:          # a hash table of zones by origin; constant
    uint32_t mask
    uint8_t least               # least and greatest number of labels of the origins
    uint8_t most
    uint32_t count
    ZoneState *slots[1]

cdef inline const ZoneState *zone_match(const ZoneSlots *zones, const Name *name) noexcept nogil:
    """The zone with the longest origin at or above the name, or NULL."""
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

cdef class ZoneSet:             # ZoneSet(zones); `replace` is safe while workers read the set
    cdef void *slots            # ZoneSlots, atomic
    cdef readonly tuple zones
    cdef list retired

cdef inline const ZoneSlots *zone_slots(void **slots) noexcept nogil:
    return <const ZoneSlots *>atomic_load_pointer(slots)
