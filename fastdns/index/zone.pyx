"""Versions of zones: adding records, publishing, and sets of zones. The contract is in index/zone.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy
from fastdns.system.atomic cimport atomic_peek8, atomic_peek_ns, atomic_poke8, atomic_poke_ns, atomic_store_pointer
from fastdns.index.conflict cimport conflict_count, conflict_occluded
from fastdns.index.denial cimport denial_build
from fastdns.system.socket cimport socket_clock
from fastdns.system.epoch cimport EpochMark, epoch_passed, epoch_mark
from fastdns.index.group cimport Group, group_add, group_clear, group_free, group_read, group_seal
from fastdns.index.index cimport Index, table_exact
from fastdns.index.nodes cimport INDEX_BUSY, INDEX_MEMORY, INDEX_OK, INDEX_RECORDS, INDEX_TYPES, INDEX_TYPES_MAX, IndexCore, IndexNode, IndexRecord, IndexTable
from fastdns.index.node_file cimport NodeFile, node_file_make, node_file_seal
from fastdns.index.publish cimport index_holds, index_lock, index_release, index_swap, index_table, index_table_put, index_unlock
from fastdns.index.table cimport table_file_slots, table_free
from fastdns.index.version cimport (NSEC3_ITERATIONS, ZONE_ABSENT, ZONE_BAD_RDATA, ZONE_DENIAL, ZONE_ITERATIONS, ZONE_NO_SHA1, ZONE_NO_SOA,
                                    ZONE_OK, ZONE_OUTDATED, ZONE_PRESENT, ZONE_STRAY_SOA, ZONE_UNCHANGED, ZoneVersion, version_free, version_make,
                                    zone_version)
from fastdns._wire cimport CLASS_IN, TYPE_RRSIG, TYPE_SOA, Name, load16, load32, wire_name_copy, wire_read_name

from fastdns.zonefile.parser cimport ZoneParser, ZoneRecord, zonefile_begin, zonefile_end, zonefile_error, zonefile_read
from fastdns.protocol.rrtypes cimport RR_ZONE_LOWER, rrtype_get, rrtype_lower, rrtype_names

import os

from fastdns._wire import name_text, name_wire

cdef enum:
    RECORD_HEAD = 8             # octets of a deferred record before its rdata: type, TTL, rdlength
    SWAP_WAIT = 1000            # milliseconds that zone_publish waits for readers of the former version


# ---- groups ----

cdef int group_put(ZoneBuilder *builder, Group *group, const Name *owner) noexcept nogil:
    """Puts the records of a group into the table."""
    cdef int status
    group_seal(group)
    status = index_table_put(builder.index, &builder.table, owner, group.records, group.count)
    if status != INDEX_OK:
        wire_name_copy(&builder.at, owner.lower, owner.length)
    group_clear(group)
    return status


# ---- adding records ----

cdef int zone_add(ZoneBuilder *builder, const Name *owner, uint16_t type, uint16_t klass, uint32_t ttl, const uint8_t *rdata,
                  uint16_t rdlength) noexcept nogil:
    cdef const Name *origin = &builder.index.origin
    cdef Group *group = &builder.group
    cdef uint32_t start
    cdef int status, end = rrtype_names(type, rdata, rdlength, &start)
    if end < 0:
        wire_name_copy(&builder.at, owner.lower, owner.length)
        return ZONE_BAD_RDATA
    if klass != CLASS_IN:
        return ignore(builder, owner)
    # SOA records and their signatures go to the apex, whatever their owner.
    if type == TYPE_SOA or type == TYPE_RRSIG and load16(rdata) == TYPE_SOA or (
            owner.length == origin.length and memcmp(owner.lower, origin.lower, origin.length) == 0):
        group = &builder.apex
        if type == TYPE_SOA:
            if builder.soas == 0 and builder.unless >= 0 and load32(rdata + rdlength - 20) == <uint32_t>builder.unless:
                return ZONE_UNCHANGED
            builder.soas += builder.soas < 255
    elif owner.length != builder.owner.length or owner.hash[0] != builder.owner.hash[0] or (
            memcmp(owner.lower, builder.owner.lower, owner.length) != 0):
        if not index_holds(builder.index, owner):
            return ignore(builder, owner)
        status = flush(builder)
        if status != ZONE_OK:
            return status
        wire_name_copy(&builder.owner, owner.lower, owner.length)
    builder.records += 1
    status = group_add(group, type, ttl, rdata, rdlength)
    if status == ZONE_OK and rrtype_get(type).flags & RR_ZONE_LOWER:
        rrtype_lower(group.octets + group.used - rdlength, start, <uint32_t>end)
    return status


cdef int zone_take(void *builder, ZoneRecord *record) noexcept nogil:
    cdef ZoneBuilder *self = <ZoneBuilder *>builder
    self.taken = zone_add(self, record.owner, record.type, record.klass, record.ttl, record.rdata, record.rdlength)
    return self.taken != ZONE_OK


cdef int ignore(ZoneBuilder *builder, const Name *owner) noexcept nogil:
    if builder.ignored == 0:
        wire_name_copy(&builder.stray, owner.wire, owner.length)
    builder.ignored += 1
    return ZONE_OK


cdef int flush(ZoneBuilder *builder) noexcept nogil:
    """Ends the group that is being read: puts its records, or defers them when the table has records of the name already."""
    cdef const IndexNode *node
    if builder.group.count == 0:
        return ZONE_OK
    node = table_exact(builder.table, builder.owner.lower, builder.owner.length, builder.owner.hash[0])
    if node == NULL or node.rrsets == 0:
        return group_put(builder, &builder.group, &builder.owner)
    return defer_group(builder)


cdef int defer_group(ZoneBuilder *builder) noexcept nogil:
    cdef Group *group = &builder.group
    cdef const Name *owner = &builder.owner
    cdef uint64_t size = group.used + <uint64_t>group.count * RECORD_HEAD
    cdef DeferredRecords *deferred
    cdef uint8_t *p
    cdef void *grown
    cdef uint32_t i
    if builder.deferred_count == builder.deferred_capacity:
        grown = realloc(builder.deferred, (<uint64_t>builder.deferred_capacity * 2 + 64) * sizeof(void *))
        if grown == NULL:
            return INDEX_MEMORY
        builder.deferred = <DeferredRecords **>grown
        builder.deferred_capacity = builder.deferred_capacity * 2 + 64
    if size > 0x7FFFFFFF:
        return INDEX_MEMORY
    deferred = <DeferredRecords *>malloc(sizeof(DeferredRecords) + owner.length + size)
    if deferred == NULL:
        return INDEX_MEMORY
    deferred.hash = owner.hash[0]
    deferred.sequence = builder.deferred_count
    deferred.size = <uint32_t>size
    deferred.length = owner.length
    memcpy(deferred.octets, owner.lower, owner.length)
    p = deferred.octets + owner.length
    for i in range(group.count):
        memcpy(p, &group.records[i].type, 2)
        memcpy(p + 2, &group.records[i].ttl, 4)
        memcpy(p + 6, &group.records[i].rdlength, 2)
        memcpy(p + RECORD_HEAD, group.octets + <uint64_t>group.records[i].rdata, group.records[i].rdlength)
        p += RECORD_HEAD + group.records[i].rdlength
    builder.deferred[builder.deferred_count] = deferred
    builder.deferred_count += 1
    group_clear(group)
    return ZONE_OK


# ---- finishing ----

cdef int compare_deferred(const void *a, const void *b) noexcept nogil:
    cdef const DeferredRecords *x = (<DeferredRecords **>a)[0]
    cdef const DeferredRecords *y = (<DeferredRecords **>b)[0]
    cdef int order
    if x.hash != y.hash:
        return -1 if x.hash < y.hash else 1
    if x.length != y.length:
        return <int>x.length - <int>y.length
    order = memcmp(x.octets, y.octets, x.length)
    if order == 0:
        order = -1 if x.sequence < y.sequence else 1
    return order


cdef int put_late(ZoneBuilder *builder) noexcept nogil:
    """Puts each name that has deferred records again, with all its records in the order in which they were added."""
    cdef uint32_t i = 0
    cdef const DeferredRecords *deferred
    cdef const DeferredRecords *first
    cdef const IndexNode *node
    cdef int status
    if builder.deferred_count == 0:
        return ZONE_OK
    qsort(builder.deferred, builder.deferred_count, sizeof(void *), compare_deferred)
    while i < builder.deferred_count:
        first = builder.deferred[i]
        wire_name_copy(&builder.owner, first.octets, first.length)
        node = table_exact(builder.table, builder.owner.lower, builder.owner.length, builder.owner.hash[0])
        status = group_read(&builder.group, node)
        while status == ZONE_OK and i < builder.deferred_count:
            deferred = builder.deferred[i]
            if deferred.length != first.length or memcmp(deferred.octets, first.octets, first.length) != 0:
                break
            status = add_deferred(&builder.group, deferred)
            i += 1
        if status == ZONE_OK:
            status = group_put(builder, &builder.group, &builder.owner)
        if status != ZONE_OK:
            return status
    return ZONE_OK


cdef int add_deferred(Group *group, const DeferredRecords *deferred) noexcept nogil:
    cdef const uint8_t *p = deferred.octets + deferred.length
    cdef const uint8_t *end = p + deferred.size
    cdef uint16_t type, rdlength
    cdef uint32_t ttl
    cdef int status
    while p < end:
        memcpy(&type, p, 2)
        memcpy(&ttl, p + 2, 4)
        memcpy(&rdlength, p + 6, 2)
        status = group_add(group, type, ttl, p + RECORD_HEAD, rdlength)
        if status != ZONE_OK:
            return status
        p += RECORD_HEAD + rdlength
    return ZONE_OK


cdef int compare_soas(const Group *apex, uint32_t a, uint32_t b) noexcept nogil:
    """Order of two SOA records: by serial, then by octets and TTL."""
    cdef const IndexRecord *x = &apex.records[a]
    cdef const IndexRecord *y = &apex.records[b]
    cdef const uint8_t *x_rdata = apex.octets + <uint64_t>x.rdata
    cdef const uint8_t *y_rdata = apex.octets + <uint64_t>y.rdata
    cdef uint32_t x_serial = load32(x_rdata + x.rdlength - 20), y_serial = load32(y_rdata + y.rdlength - 20)
    cdef int order
    if x_serial != y_serial:
        return 1 if x_serial > y_serial else -1
    order = memcmp(x_rdata, y_rdata, min(x.rdlength, y.rdlength))
    if order == 0:
        order = <int>x.rdlength - <int>y.rdlength
    return order if order != 0 else -1 if x.ttl < y.ttl else 1 if x.ttl > y.ttl else 0


cdef int put_apex(ZoneBuilder *builder) noexcept nogil:
    """Keeps one SOA, that with the highest serial, so that the order of the records does not matter."""
    cdef Group *apex = &builder.apex
    cdef const IndexRecord *other
    cdef uint32_t i, kept = 0, soa = apex.count
    for i in range(apex.count):
        if apex.records[i].type == TYPE_SOA and (soa == apex.count or compare_soas(apex, i, soa) > 0):
            soa = i
    for i in range(apex.count if builder.soas > 1 else 0):
        other = &apex.records[i]
        if other.type == TYPE_SOA and (other.rdlength != apex.records[soa].rdlength or
                                       memcmp(apex.octets + <uint64_t>other.rdata, apex.octets + <uint64_t>apex.records[soa].rdata, other.rdlength) != 0):
            builder.other_soas = 1
    for i in range(apex.count):
        if apex.records[i].type != TYPE_SOA or i == soa:
            apex.records[kept] = apex.records[i]
            kept += 1
    apex.count = kept
    return group_put(builder, apex, &builder.index.origin)


cdef int describe(ZoneBuilder *builder) noexcept nogil:
    """Builds the ZoneVersion: apex, SOA, NS, conflicts, and the sorted NSEC and NSEC3 records."""
    cdef IndexTable *table = builder.table
    cdef const Name *origin = &builder.index.origin
    cdef ZoneVersion *version = version_make(table, table_exact(table, origin.lower, origin.length, origin.hash[0]))
    if version == NULL:
        return INDEX_MEMORY
    table.attachment = version
    table.attachment_free = version_free
    builder.version = version
    version.other_soas = builder.other_soas
    version.occluded = conflict_occluded(table, origin.labels)
    return denial_build(version, table)


cdef int zone_finish(ZoneBuilder *builder) noexcept nogil:
    cdef int status = flush(builder)
    if status == ZONE_OK:
        status = put_late(builder)
    if status == ZONE_OK and builder.soas == 0:
        status = ZONE_NO_SOA
    if status == ZONE_OK:
        status = put_apex(builder)
    if status == ZONE_OK:
        status = describe(builder)
    builder.finished = status == ZONE_OK
    return status


cdef void zone_publish(ZoneState *zone, ZoneBuilder *builder) noexcept nogil:
    cdef IndexCore *index = builder.index
    if not builder.finished:
        return
    if builder.table.file != NULL:
        node_file_seal(<NodeFile *>builder.table.file)
        table_file_slots(builder.table)
    index_lock(index)
    index_swap(index, builder.table)
    builder.table = NULL
    atomic_poke8(&zone.expired, 0)
    index_unlock(index, SWAP_WAIT)


cdef ZoneBuilder *zone_builder(const ZoneState *zone) noexcept nogil:
    cdef ZoneBuilder *builder = <ZoneBuilder *>calloc(1, sizeof(ZoneBuilder))
    if builder == NULL:
        return NULL
    builder.index = zone.index
    builder.unless = -1
    builder.table = index_table(zone.index)
    if builder.table == NULL:
        free(builder)
        return NULL
    return builder


cdef void zone_builder_free(ZoneBuilder *builder) noexcept nogil:
    cdef uint32_t i
    if builder.table != NULL:
        table_free(builder.table)
    for i in range(builder.deferred_count):
        free(builder.deferred[i])
    free(builder.deferred)
    group_free(&builder.group)
    group_free(&builder.apex)
    free(builder)


# ---- Python ----

class ZoneError(ValueError):
    """The records do not form a zone."""


cdef dict REASONS = {
    ZONE_ABSENT: "the differences delete what is not there",
    ZONE_PRESENT: "the differences add what is there",
    ZONE_DENIAL: "the differences replace the chain of NSEC or NSEC3 records",
    ZONE_OUTDATED: "the differences are not from the version that is served",
    ZONE_STRAY_SOA: "the differences have an SOA record of another name",
    INDEX_BUSY: "a worker does not end its batch",
}


cdef object zone_failure(int status, const Name *at, origin):
    where = name_text((<const char *>at.wire)[:at.length]) if at.length else origin
    if status == INDEX_MEMORY:
        return MemoryError()
    if status == ZONE_NO_SOA:
        return ZoneError(f"no SOA record for origin {origin}")
    if status == ZONE_BAD_RDATA:
        return ZoneError(f"malformed rdata at {where}")
    if status == INDEX_TYPES:
        return ZoneError(f"more than {INDEX_TYPES_MAX} types at {where}")
    if status == INDEX_RECORDS:
        return ZoneError(f"more than 65535 records of one type at {where}")
    if status == ZONE_ITERATIONS:
        return ZoneError(f"NSEC3 records of more than {NSEC3_ITERATIONS} iterations for origin {origin}")
    if status == ZONE_NO_SHA1:
        return ZoneError(f"NSEC3 records for origin {origin} need SHA-1, which libcrypto does not offer")
    return ZoneError(REASONS.get(status, f"cannot be served (status {status})"))


cdef object failure(const ZoneBuilder *builder, int status, origin):
    return zone_failure(status, &builder.at, origin)


cdef class ZoneDraft:

    def __init__(self):
        raise TypeError("made by Zone.draft")

    def __dealloc__(self):
        if self.builder != NULL:
            with nogil:
                zone_builder_free(self.builder)

    def add(self, bytes owner not None, uint16_t kind, uint32_t ttl, bytes rdata not None, uint16_t klass=CLASS_IN):
        cdef Name name
        cdef uint32_t at = 0
        cdef int status
        if self.builder.finished:
            raise ValueError("the draft is finished")
        if wire_read_name(owner, <uint32_t>len(owner), &at, &name) < 0 or at != <uint32_t>len(owner) or len(rdata) > 65535:
            raise ValueError(f"not a record: {owner!r}")
        status = zone_add(self.builder, &name, kind, klass, ttl, rdata, <uint16_t>len(rdata))
        if status < 0:
            raise failure(self.builder, status, self.zone.origin)
        return status == ZONE_OK

    def read(self, path):
        cdef ZoneBuilder *builder = self.builder
        cdef bytes name = os.fsencode(path)
        cdef const char *c_name = name
        cdef ZoneParser *parser
        cdef int status
        if builder.finished:
            raise ValueError("the draft is finished")
        parser = zonefile_begin(&builder.index.origin)
        if parser == NULL:
            raise MemoryError
        try:
            with nogil:
                status = zonefile_read(parser, c_name, zone_take, builder)
            if status < 0:
                raise zonefile_error(parser)
        finally:
            zonefile_end(parser)
        if status > 0 and builder.taken < 0:
            raise failure(builder, builder.taken, self.zone.origin)
        return status == 0

    def finish(self):
        cdef int status
        with nogil:
            status = zone_finish(self.builder)
        if status < 0:
            raise failure(self.builder, status, self.zone.origin)

    @property
    def origin(self):
        return self.zone.origin

    @property
    def serial(self):
        return self.builder.version.serial if self.builder.version != NULL else None

    @property
    def records(self):
        return self.builder.records

    @property
    def conflicts(self):
        return conflict_count(self.builder.table) if self.builder.finished and self.builder.table != NULL else 0

    @property
    def ignored(self):
        if self.builder.ignored == 0:
            return 0, None
        return self.builder.ignored, name_text((<const char *>self.builder.stray.wire)[:self.builder.stray.length])


cdef class Zone:

    def __cinit__(self, origin):
        self.index = Index(origin)
        self.origin = self.index.origin
        self.wire = name_wire(self.origin.lower())
        self.state.index = self.index.core

    def draft(self, unless=None):
        cdef ZoneDraft draft = ZoneDraft.__new__(ZoneDraft)
        draft.zone = self
        draft.builder = zone_builder(&self.state)
        if draft.builder == NULL:
            raise MemoryError
        if self.nodes_folder is not None:
            draft.builder.table.file = node_file_make(self.nodes_folder)
        if unless is not None:
            draft.builder.unless = <uint32_t>unless
        return draft

    def publish(self, ZoneDraft draft not None):
        if draft.zone is not self or not draft.builder.finished or draft.builder.table == NULL:
            raise ValueError("not a finished draft of this zone")
        with nogil:
            zone_publish(&self.state, draft.builder)

    @property
    def folder(self):
        return None if self.nodes_folder is None else os.fsdecode(self.nodes_folder)

    @folder.setter
    def folder(self, value):
        self.nodes_folder = None if value is None else os.fsencode(value)

    @property
    def serial(self):
        cdef const ZoneVersion *version
        with nogil:
            index_lock(self.state.index)
        version = zone_version(self.state.index.table)
        found = version.serial if version != NULL else None
        index_release(self.state.index)
        return found

    @property
    def conflicts(self):
        cdef uint32_t found
        with nogil:
            index_lock(self.state.index)
            found = conflict_count(self.state.index.table)
            index_release(self.state.index)
        return found

    @property
    def expired(self):
        return bool(atomic_peek8(&self.state.expired))

    @expired.setter
    def expired(self, bint value):
        atomic_poke8(&self.state.expired, value)

    def confirm(self, double age):
        cdef int64_t confirmed = socket_clock() - <int64_t>(age * 1e9)
        atomic_poke_ns(&self.state.confirmed, confirmed if confirmed else 1)

    @property
    def age(self):
        return zone_age(&self.state, socket_clock()) / 1e9 if atomic_peek_ns(&self.state.confirmed) else None

    @property
    def stale_fails(self):
        return bool(atomic_peek8(&self.state.stale_fails))

    @stale_fails.setter
    def stale_fails(self, bint value):
        atomic_poke8(&self.state.stale_fails, value)

    @property
    def stale_after(self):
        cdef int64_t after = atomic_peek_ns(&self.state.stale_after)
        return after / 1e9 if after else None

    @stale_after.setter
    def stale_after(self, value):
        atomic_poke_ns(&self.state.stale_after, 0 if value is None else max(<int64_t>1, <int64_t>(<double>value * 1e9)))


# ---- sets of zones ----

cdef class RetiredSlots:
    """A replaced hash table that workers may still read; holds references to its zones."""
    cdef void *slots
    cdef tuple zones
    cdef EpochMark mark

    def __dealloc__(self):
        free(self.slots)


cdef class ZoneSet:

    def __cinit__(self, zones=()):
        self.retired = []
        self.replace(zones)

    def __dealloc__(self):
        free(self.slots)

    def replace(self, zones):
        cdef tuple wanted = tuple({zone.wire: zone for zone in zones}.values())
        cdef RetiredSlots old
        cdef ZoneSlots *slots
        cdef Zone zone
        cdef uint32_t capacity = 4, i
        while capacity < 2 * <uint32_t>len(wanted):
            capacity *= 2
        slots = <ZoneSlots *>calloc(1, sizeof(ZoneSlots) + capacity * sizeof(void *))
        if slots == NULL:
            raise MemoryError
        slots.mask = capacity - 1
        slots.count = <uint32_t>len(wanted)
        slots.least = 255
        for zone in wanted:
            i = zone.state.index.origin.hash[0] & slots.mask
            while slots.slots[i] != NULL:
                i = (i + 1) & slots.mask
            slots.slots[i] = &zone.state
            slots.least = min(slots.least, zone.state.index.origin.labels)
            slots.most = max(slots.most, zone.state.index.origin.labels)
        old = RetiredSlots()
        old.slots = self.slots
        old.zones = self.zones
        atomic_store_pointer(&self.slots, slots)
        self.zones = wanted
        if old.slots != NULL:
            epoch_mark(&old.mark)
            self.retired.append(old)
        self.collect()

    def collect(self):
        self.retired = [one for one in self.retired if not has_passed(one)]
        return len(self.retired)


cdef bint has_passed(RetiredSlots slots):
    return epoch_passed(&slots.mark)
