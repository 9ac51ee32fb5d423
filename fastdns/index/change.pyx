"""The next version of a zone from differences. The contract is in index/change.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy
from fastdns.system.atomic cimport atomic_poke8
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns.index.conflict cimport conflict_change
from fastdns.index.denial cimport denial_change
from fastdns.index.edits cimport IndexEdit, edits_apply, edits_begin, edits_find, edits_fit, edits_free, edits_prepare, edits_put
from fastdns.index.group cimport group_add, group_clear, group_free, group_seal
from fastdns.index.nodes cimport INDEX_MEMORY, IndexNode, IndexRecord, RRset, node_rrsets, rrset_record
from fastdns.index.publish cimport index_holds, index_lock, index_release, index_unlock
from fastdns.index.version cimport (ZONE_ABSENT, ZONE_BAD_RDATA, ZONE_OK, ZONE_OUTDATED, ZONE_PRESENT, ZONE_STRAY_SOA, ZoneVersion, version_free,
                                    version_make, zone_version)
from fastdns.index.zone cimport zone_failure
from fastdns.protocol.rrtypes cimport RR_ZONE_LOWER, rrtype_get, rrtype_lower, rrtype_names
from fastdns.zonefile.rdata cimport rdata_lower, rdata_valid
from fastdns._wire cimport TYPE_RRSIG, TYPE_SOA, Name, load16, wire_name_copy, wire_read_name

cdef enum:
    RDATA_MAX = 65535
    LEAST_BUCKETS = 64
    PUBLISH_WAIT = 1000         # milliseconds that a change waits for readers of the former version


# ---- sets of differences ----

cdef inline uint32_t record_hash(uint32_t owner_hash, uint16_t type, const uint8_t *canonical, uint32_t rdlength) noexcept nogil:
    return <uint32_t>hash_octets(canonical, rdlength, hash_seed) ^ (owner_hash + type) * <uint32_t>2654435761u


cdef int set_grow(DifferenceSet *known) noexcept nogil:
    cdef uint32_t capacity = known.capacity * 2 if known.capacity else LEAST_BUCKETS
    cdef Difference **buckets = <Difference **>calloc(capacity, sizeof(void *))
    cdef Difference *one = known.first
    if buckets == NULL:
        return INDEX_MEMORY
    while one != NULL:
        if not one.dead:
            one.next = buckets[one.hash & (capacity - 1)]
            buckets[one.hash & (capacity - 1)] = one
        one = one.following
    free(known.buckets)
    known.buckets = buckets
    known.capacity = capacity
    return ZONE_OK


cdef Difference **set_find(Differences *self, DifferenceSet *known, uint32_t hash, const uint8_t *owner, uint32_t owner_length, uint16_t type,
                           uint32_t rdlength) noexcept nogil:
    """Where the living difference of the record in self.canonical hangs, whatever its TTL, or NULL."""
    cdef Difference **at
    cdef Difference *one
    if known.capacity == 0:
        return NULL
    at = &known.buckets[hash & (known.capacity - 1)]
    while at[0] != NULL:
        one = at[0]
        self.compared += 1
        if one.hash == hash and one.type == type and one.owner_length == owner_length and one.rdlength == rdlength and (
                memcmp(one.octets, owner, owner_length) == 0 and memcmp(one.octets + owner_length, self.canonical, rdlength) == 0):
            return at
        at = &one.next
    return NULL


cdef int set_add(Differences *self, DifferenceSet *known, uint32_t hash, const Name *owner, uint16_t type, uint32_t ttl, const uint8_t *rdata,
                 uint16_t rdlength) noexcept nogil:
    cdef Difference *one
    cdef uint8_t *copy
    cdef uint32_t start
    cdef int end = rrtype_names(type, rdata, rdlength, &start)
    if end < 0:
        wire_name_copy(&self.at, owner.lower, owner.length)
        return ZONE_BAD_RDATA
    if known.count >= known.capacity and set_grow(known) < 0:
        return INDEX_MEMORY
    one = <Difference *>calloc(1, sizeof(Difference) + owner.length + 2 * <uint64_t>rdlength)
    if one == NULL:
        return INDEX_MEMORY
    one.hash = hash
    one.ttl = ttl
    one.type = type
    one.rdlength = rdlength
    one.owner_length = owner.length
    one.added = known == &self.added
    memcpy(one.octets, owner.lower, owner.length)
    memcpy(one.octets + owner.length, self.canonical, rdlength)
    copy = one.octets + owner.length + rdlength
    memcpy(copy, rdata, rdlength)
    if rrtype_get(type).flags & RR_ZONE_LOWER:
        rrtype_lower(copy, start, <uint32_t>end)
    one.next = known.buckets[hash & (known.capacity - 1)]
    known.buckets[hash & (known.capacity - 1)] = one
    if known.last != NULL:
        known.last.following = one
    else:
        known.first = one
    known.last = one
    known.count += 1
    return ZONE_OK


cdef void set_free(DifferenceSet *known) noexcept nogil:
    cdef Difference *one
    while known.first != NULL:
        one = known.first
        known.first = one.following
        free(one)
    free(known.buckets)


# ---- differences as they come ----

cdef int begin_record(Differences *self, const Name **owner, uint16_t type, const uint8_t *rdata, uint16_t rdlength, uint32_t *hash) noexcept nogil:
    """1: the record is of the zone, whose owner, hash and canonical form are set; 0: it is not; or an error below 0."""
    if type == TYPE_SOA:
        wire_name_copy(&self.at, owner[0].lower, owner[0].length)
        return ZONE_STRAY_SOA
    if type == TYPE_RRSIG and rdlength >= 2 and load16(rdata) == TYPE_SOA:
        owner[0] = &self.index.origin           # as in a whole zone
    if not index_holds(self.index, owner[0]):
        return 0
    memcpy(self.canonical, rdata, rdlength)
    rdata_lower(type, self.canonical, rdlength)
    hash[0] = record_hash(owner[0].hash[0], type, self.canonical, rdlength)
    return 1


cdef int differences_delete(Differences *self, const Name *owner, uint16_t type, uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil:
    cdef uint32_t hash
    cdef Difference **found
    cdef Difference *one
    cdef int status = begin_record(self, &owner, type, rdata, rdlength, &hash)
    if status <= 0:
        return status
    found = set_find(self, &self.added, hash, owner.lower, owner.length, type, rdlength)
    if found == NULL:
        return set_add(self, &self.deleted, hash, owner, type, ttl, rdata, rdlength)
    one = found[0]
    one.dead = 1
    found[0] = one.next
    return ZONE_OK


cdef int differences_add(Differences *self, const Name *owner, uint16_t type, uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil:
    cdef uint32_t hash
    cdef int status = begin_record(self, &owner, type, rdata, rdlength, &hash)
    if status <= 0:
        return status
    if set_find(self, &self.added, hash, owner.lower, owner.length, type, rdlength) != NULL:
        wire_name_copy(&self.at, owner.lower, owner.length)
        return ZONE_PRESENT
    return set_add(self, &self.added, hash, owner, type, ttl, rdata, rdlength)


cdef int differences_soa(Differences *self, uint32_t ttl, const uint8_t *rdata, uint32_t rdlength) noexcept nogil:
    cdef uint32_t start
    cdef int end
    if rdlength > sizeof(self.soa) or rdlength < 22:
        return ZONE_BAD_RDATA
    end = rrtype_names(TYPE_SOA, rdata, <uint16_t>rdlength, &start)
    if end < 0:
        return ZONE_BAD_RDATA
    memcpy(self.soa, rdata, rdlength)
    if rrtype_get(TYPE_SOA).flags & RR_ZONE_LOWER:
        rrtype_lower(self.soa, start, <uint32_t>end)
    self.soa_length = rdlength
    self.soa_ttl = ttl
    return ZONE_OK


# ---- the new version ----

cdef int assign(Differences *self, DifferenceSet *known) noexcept nogil:
    """Gives each difference its owner's edit, and the edit's differences a list."""
    cdef Difference *one = known.first
    cdef Difference *first
    cdef Name name
    while one != NULL:
        wire_name_copy(&name, one.octets, one.owner_length)
        one.edit = edits_find(self.edits, &name, 0)
        if one.edit == NULL:
            return INDEX_MEMORY
        first = <Difference *>one.edit.context
        if first == NULL:
            one.edit.context = one
            one.last = one
        else:
            first.last.sibling = one
            first.last = one
        one = one.following
    return ZONE_OK


cdef int keep_records(Differences *self, const IndexNode *node, uint32_t hash) noexcept nogil:
    """Adds the records of a node that are not deleted to the group; an SOA is deleted always."""
    cdef const RRset *rrset = node_rrsets(node)
    cdef const uint8_t *entry
    cdef IndexRecord record
    cdef Difference **found
    cdef uint32_t i, _j, whole
    for i in range(node.rrsets):
        if rrset[i].type == TYPE_SOA:
            continue
        entry = NULL
        for _j in range(rrset[i].count):
            entry = rrset_record(node, &rrset[i], entry, &record)
            memcpy(self.canonical, record.rdata, record.rdlength)
            rdata_lower(record.type, self.canonical, record.rdlength)
            whole = record_hash(hash, record.type, self.canonical, record.rdlength)
            found = set_find(self, &self.deleted, whole, node.name, node.length, record.type, record.rdlength)
            if found != NULL:
                found[0].used = 1
                found[0].ttl = record.ttl
                continue
            if set_find(self, &self.added, whole, node.name, node.length, record.type, record.rdlength) != NULL:
                return ZONE_PRESENT
            if group_add(&self.group, record.type, record.ttl, record.rdata, record.rdlength) < 0:
                return INDEX_MEMORY
    return ZONE_OK


cdef int put_owner(Differences *self, const Name *owner, IndexEdit *edit) noexcept nogil:
    """Puts the records that a name has in the new version."""
    cdef Difference *one = <Difference *>edit.context
    cdef int status = ZONE_OK
    group_clear(&self.group)
    if edit.before != NULL:
        status = keep_records(self, edit.before, edit.hash)
    while one != NULL and status == ZONE_OK:
        if one.added and not one.dead:
            status = group_add(&self.group, one.type, one.ttl, one.octets + one.owner_length + one.rdlength, one.rdlength)
        one = one.sibling
    if status == ZONE_OK and owner.length == self.index.origin.length:
        status = group_add(&self.group, TYPE_SOA, self.soa_ttl, self.soa, <uint16_t>self.soa_length)
    if status == ZONE_OK:
        group_seal(&self.group)
        status = edits_put(self.edits, owner, self.group.records, self.group.count)
    if status != ZONE_OK:
        wire_name_copy(&self.at, owner.lower, owner.length)
    return status


cdef int put_owners(Differences *self, DifferenceSet *known) noexcept nogil:
    cdef Difference *one = known.first
    cdef Name name
    cdef int status
    while one != NULL:
        if one.edit.context == one and one.owner_length != self.index.origin.length:
            wire_name_copy(&name, one.octets, one.owner_length)
            status = put_owner(self, &name, one.edit)
            if status != ZONE_OK:
                return status
        one = one.following
    return ZONE_OK


cdef int check_deleted(Differences *self) noexcept nogil:
    cdef const Difference *one = self.deleted.first
    while one != NULL:
        if not one.used:
            wire_name_copy(&self.at, one.octets, one.owner_length)
            return ZONE_ABSENT
        one = one.following
    return ZONE_OK


cdef int plan(Differences *self) noexcept nogil:
    """The edits of all owners."""
    cdef IndexEdit *apex
    cdef int status
    if assign(self, &self.deleted) < 0 or assign(self, &self.added) < 0:
        return INDEX_MEMORY
    apex = edits_find(self.edits, &self.index.origin, 0)
    if apex == NULL:
        return INDEX_MEMORY
    status = put_owner(self, &self.index.origin, apex)
    if status == ZONE_OK:
        status = put_owners(self, &self.deleted)
    if status == ZONE_OK:
        status = put_owners(self, &self.added)
    return check_deleted(self) if status == ZONE_OK else status


cdef int describe(Differences *self, const ZoneVersion *former) noexcept nogil:
    cdef const IndexEdit *apex = edits_find(self.edits, &self.index.origin, 0)
    cdef int status
    self.version = version_make(self.edits.table, apex.after)
    if self.version == NULL:
        return INDEX_MEMORY
    self.edits.table.attachment = self.version
    self.edits.table.attachment_free = version_free
    self.version.occluded = conflict_change(self.edits, former.occluded)
    status = denial_change(self.version, former, self.edits)
    self.edits.table.work += self.compared + self.version.nsec.copied + self.version.nsec3.copied
    return status


cdef int finish(Differences *self) noexcept nogil:
    cdef const ZoneVersion *former = zone_version(self.index.table)
    cdef int status
    if former == NULL or former.serial != self.former or self.soa_length == 0:
        return ZONE_OUTDATED
    self.edits = edits_begin(self.index)
    if self.edits == NULL:
        return INDEX_MEMORY
    status = plan(self)
    if status == ZONE_OK:
        status = edits_prepare(self.edits)
    return describe(self, former) if status == ZONE_OK else status


cdef int differences_finish(Differences *self) noexcept nogil:
    cdef int status
    index_lock(self.index)
    status = finish(self)
    if status != ZONE_OK and self.edits != NULL:
        edits_free(self.edits)
        self.edits = NULL
        self.version = NULL
    index_release(self.index)
    return status


# ---- Python ----

cdef list read_rows(const DifferenceSet *known):
    cdef const Difference *one = known.first
    cdef const uint8_t *rdata
    rows = []
    while one != NULL:
        if not one.dead:
            rdata = one.octets + one.owner_length + one.rdlength
            rows.append(((<const char *>one.octets)[:one.owner_length], one.type, one.ttl, (<const char *>rdata)[:one.rdlength]))
        one = one.following
    return rows


cdef class ZoneChange:

    def __cinit__(self, Zone zone not None, uint32_t serial):
        self.zone = zone
        self.differences.index = zone.state.index
        self.differences.former = serial
        self.differences.canonical = <uint8_t *>malloc(RDATA_MAX + 1)
        if self.differences.canonical == NULL:
            raise MemoryError

    def __dealloc__(self):
        with nogil:
            if self.differences.edits != NULL:
                edits_free(self.differences.edits)
            set_free(&self.differences.deleted)
            set_free(&self.differences.added)
            group_free(&self.differences.group)
            free(self.differences.canonical)

    cdef object _failure(self, int status):
        return zone_failure(status, &self.differences.at, self.zone.origin)

    cdef int _take(self, bytes owner, uint16_t kind, uint32_t ttl, bytes rdata, bint added) except -1:
        cdef Name name
        cdef uint32_t at = 0
        cdef int status
        if self.differences.edits != NULL:
            raise ValueError("the change is finished")
        if wire_read_name(owner, <uint32_t>len(owner), &at, &name) < 0 or at != <uint32_t>len(owner) or len(rdata) > RDATA_MAX or (
                not rdata_valid(kind, rdata, <uint32_t>len(rdata))):
            raise ValueError(f"not a record: {owner!r}")
        if kind == TYPE_SOA and added and (<const char *>name.lower)[:name.length] == self.zone.wire:
            status = differences_soa(&self.differences, ttl, rdata, <uint32_t>len(rdata))
        elif added:
            status = differences_add(&self.differences, &name, kind, ttl, rdata, <uint16_t>len(rdata))
        else:
            status = differences_delete(&self.differences, &name, kind, ttl, rdata, <uint16_t>len(rdata))
        if status < 0:
            raise self._failure(status)
        return 0

    def delete(self, bytes owner not None, uint16_t kind, uint32_t ttl, bytes rdata not None):
        self._take(owner, kind, ttl, rdata, False)

    def add(self, bytes owner not None, uint16_t kind, uint32_t ttl, bytes rdata not None):
        self._take(owner, kind, ttl, rdata, True)

    def replace(self, list owners not None, deleted not None, added not None):
        cdef list rows = [(kind, ttl, rdata, False) for kind, ttl, rdata in deleted] + [(kind, ttl, rdata, True) for kind, ttl, rdata in added]
        cdef Name name
        cdef uint32_t at
        cdef int status
        cdef bytes owner, octets
        if self.differences.edits != NULL:
            raise ValueError("the change is finished")
        for kind, _, octets, _ in rows:
            if len(octets) > RDATA_MAX or not rdata_valid(kind, octets, <uint32_t>len(octets)):
                raise ValueError(f"not a record: {octets!r}")
        for owner in owners:
            at = 0
            if owner is None or wire_read_name(owner, <uint32_t>len(owner), &at, &name) < 0 or at != <uint32_t>len(owner):
                raise ValueError(f"not a name: {owner!r}")
            for kind, ttl, octets, new in <list>rows:
                if new:
                    status = differences_add(&self.differences, &name, kind, ttl, octets, <uint16_t>len(octets))
                else:
                    status = differences_delete(&self.differences, &name, kind, ttl, octets, <uint16_t>len(octets))
                if status < 0:
                    raise self._failure(status)

    def finish(self):
        cdef int status
        if self.differences.edits != NULL:
            raise ValueError("the change is finished")
        with nogil:
            status = differences_finish(&self.differences)
        if status < 0:
            raise self._failure(status)

    def publish(self):
        cdef Differences *own = &self.differences
        cdef bint fits
        if own.version == NULL:
            raise ValueError("not a finished change, or one that is published")
        with nogil:
            index_lock(own.index)
            fits = edits_fit(own.edits)
            if fits:
                edits_apply(own.edits)
                atomic_poke8(&self.zone.state.expired, 0)
            index_unlock(own.index, PUBLISH_WAIT)
        own.version = NULL
        if not fits:
            raise self._failure(ZONE_OUTDATED)

    @property
    def serial(self):
        return self.differences.version.serial if self.differences.version != NULL else None

    @property
    def deleted(self):
        return read_rows(&self.differences.deleted)

    @property
    def added(self):
        return read_rows(&self.differences.added)

    def __len__(self):
        return self.differences.deleted.count + self.differences.added.count
