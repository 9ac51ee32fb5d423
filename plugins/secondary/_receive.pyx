"""Zone transfers in. What a `Receiver` holds stands in _receive.pxd.

Differences are gathered, and in the end the zone is built anew from the version that serves: what is served is never half of anything.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.names cimport Name, wire_name_copy
from fastdns.api.wire cimport (CLASS_IN, FLAG_QR, MESSAGE_MAX, TYPE_AXFR, TYPE_IXFR, TYPE_SOA, Message, Section, WireRecord, flags_rcode, load32,
                               rdata_lower, rdata_valid, wire_begin_records, wire_expand_rdata, wire_next_record, wire_parse_reply, wire_read_name)
from fastdns.api.records cimport (IndexNode, IndexRecord, IndexSnapshot, RRset, ZoneBuilder, index_snapshot, node_rrsets, rrset_record,
                                  snapshot_release, zone_add)


cdef enum:                      # what taking a record comes to
    TOOK = 0
    NO_SOA = -100
    BEHIND = -101               # records after the end
    BROKEN = -102               # differences in no order
    MALFORMED = -103
    RECORDS = -104
    MEMORY = -105
    ABSENT = -106               # a deletion of what is not there
    REFUSED = -107              # by the zone

ERRORS = {
    NO_SOA: "dns: no SOA",
    BEHIND: "records behind the last SOA",
    BROKEN: "the differences do not follow each other",
    MALFORMED: "dns: malformed message",
    RECORDS: "too many records",
    ABSENT: "the differences delete what is not there",
    REFUSED: "records that no zone holds",
}


class TransferError(ValueError):
    rcode = 0


def serial_after(uint32_t serial, uint32_t other) -> bool:
    return comes_after(serial, other)


cdef inline bint comes_after(uint32_t serial, uint32_t other) noexcept nogil:
    return serial != other and <uint32_t>(serial - other) < 0x80000000u


# ---- differences ----

cdef inline uint32_t change_hash(uint32_t owner_hash, uint16_t type) noexcept nogil:
    return (owner_hash ^ type) * 2654435761u


cdef int changes_grow(Changes *changes) noexcept nogil:
    cdef uint32_t capacity = changes.capacity * 2 if changes.capacity else 64, place
    cdef Change **buckets = <Change **>calloc(capacity, sizeof(void *))
    cdef Change *change = changes.first
    cdef Name name
    if buckets == NULL:
        return -1
    while change != NULL:
        wire_name_copy(&name, change.octets, change.owner_length)
        place = change_hash(name.hash[0], change.type) % capacity
        change.next = buckets[place]
        buckets[place] = change
        change = change.following
    free(changes.buckets)
    changes.buckets = buckets
    changes.capacity = capacity
    return 0


cdef int changes_add(Changes *changes, const Name *owner, uint16_t type, uint32_t ttl, const uint8_t *canonical, const uint8_t *rdata,
                     uint16_t rdlength) noexcept nogil:
    cdef Change *change
    cdef uint32_t place
    if changes.count >= changes.capacity and changes_grow(changes) < 0:
        return -1
    change = <Change *>malloc(sizeof(Change) + owner.length + 2 * <size_t>rdlength)
    if change == NULL:
        return -1
    place = change_hash(owner.hash[0], type) % changes.capacity
    change.next = changes.buckets[place]
    changes.buckets[place] = change
    change.following = NULL
    change.ttl = ttl
    change.type = type
    change.rdlength = rdlength
    change.owner_length = owner.length
    change.dead = 0
    change.used = 0
    memcpy(change.octets, owner.lower, owner.length)
    memcpy(change.octets + owner.length, canonical, rdlength)
    memcpy(change.octets + owner.length + rdlength, rdata, rdlength)
    if changes.last != NULL:
        changes.last.following = change
    else:
        changes.first = change
    changes.last = change
    changes.count += 1
    return 0


cdef Change *changes_find(const Changes *changes, const uint8_t *owner, uint32_t owner_length, uint32_t hash, uint16_t type, const uint8_t *canonical,
                          uint32_t rdlength) noexcept nogil:
    """The newest living one that is this record, whatever its TTL."""
    cdef Change *change
    if changes.capacity == 0:
        return NULL
    change = changes.buckets[change_hash(hash, type) % changes.capacity]
    while change != NULL:
        if (not change.dead and change.type == type and change.owner_length == owner_length and change.rdlength == rdlength
                and memcmp(change.octets, owner, owner_length) == 0 and memcmp(change.octets + owner_length, canonical, rdlength) == 0):
            return change
        change = change.next
    return NULL


cdef void changes_free(Changes *changes) noexcept nogil:
    cdef Change *change
    while changes.first != NULL:
        change = changes.first
        changes.first = change.following
        free(change)
    free(changes.buckets)
    memset(changes, 0, sizeof(Changes))


# ---- records as they come ----

cdef int take(Receiver self, ZoneBuilder *builder, const Name *owner, const WireRecord *record, uint8_t *rdata, uint32_t rdlength) noexcept nogil:
    cdef bint apex = record.type == TYPE_SOA and owner.length == self.zone.state.index.origin.length and (
        memcmp(owner.lower, self.zone.state.index.origin.lower, owner.length) == 0)
    cdef uint32_t serial = load32(rdata + rdlength - 20) if apex else 0
    if self.stage == DONE or self.stage == CURRENT:
        return BEHIND
    if self.stage == BEGIN:
        if not apex or rdlength > sizeof(self.soa):
            return NO_SOA
        self.target = serial
        self.soa_ttl = record.ttl
        self.soa_length = rdlength
        memcpy(self.soa, rdata, rdlength)
        self.stage = SECOND
        return TOOK
    if self.stage == SECOND:
        if self.incremental and apex and serial == self.serial and serial != self.target:
            self.reached = serial
            self.stage = DELETING
            return TOOK
        self.stage = WHOLE
        if add(self, builder, &self.zone.state.index.origin, TYPE_SOA, CLASS_IN, self.soa_ttl, self.soa, self.soa_length) < 0:
            return REFUSED
    if self.stage == WHOLE:
        if apex:
            if serial != self.target:
                return BROKEN
            self.stage = DONE
            return TOOK
        return TOOK if add(self, builder, owner, record.type, record.klass, record.ttl, rdata, rdlength) >= 0 else REFUSED
    return take_difference(self, owner, record, rdata, rdlength, apex, serial)


cdef int add(Receiver self, ZoneBuilder *builder, const Name *owner, uint16_t type, uint16_t klass, uint32_t ttl, const uint8_t *rdata,
             uint32_t rdlength) noexcept nogil:
    return zone_add(builder, owner, type, klass, ttl, rdata, <uint16_t>rdlength)


cdef int take_difference(Receiver self, const Name *owner, const WireRecord *record, uint8_t *rdata, uint32_t rdlength, bint apex,
                         uint32_t serial) noexcept nogil:
    """RFC 1995 4: SOA, deletions, SOA, additions, again and again; the zone's SOA ends it."""
    cdef uint8_t *canonical = self.scratch + MESSAGE_MAX
    cdef Change *found
    if apex:
        if self.stage == DELETING:
            if not comes_after(serial, self.reached):
                return BROKEN
            self.reached = serial
            self.stage = ADDING
            return TOOK
        if serial != self.reached:
            return BROKEN
        self.stage = DONE if serial == self.target else DELETING
        return TOOK
    if record.klass != CLASS_IN:
        return TOOK
    memcpy(canonical, rdata, rdlength)
    rdata_lower(record.type, canonical, rdlength)
    if self.stage == ADDING:
        return TOOK if changes_add(&self.additions, owner, record.type, record.ttl, canonical, rdata, <uint16_t>rdlength) == 0 else MEMORY
    found = changes_find(&self.additions, owner.lower, owner.length, owner.hash[0], record.type, canonical, rdlength)
    if found != NULL:
        found.dead = 1
        return TOOK
    return TOOK if changes_add(&self.deletions, owner, record.type, record.ttl, canonical, rdata, <uint16_t>rdlength) == 0 else MEMORY


cdef int take_message(Receiver self, ZoneBuilder *builder, const uint8_t *packet, uint32_t length, const Message *message) noexcept nogil:
    cdef Section section
    cdef WireRecord record
    cdef Name owner
    cdef uint32_t at
    cdef int status, rdlength
    wire_begin_records(packet, length, message, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status < 0:
            return MALFORMED
        if status == 0 or record.section != 0:
            break
        if self.left_records == 0:
            return RECORDS
        self.left_records -= 1
        at = record.owner
        if wire_read_name(packet, length, &at, &owner) < 0:
            return MALFORMED
        rdlength = wire_expand_rdata(packet, length, &record, self.scratch, MESSAGE_MAX)
        if rdlength < 0 or not rdata_valid(record.type, self.scratch, <uint32_t>rdlength):
            return MALFORMED
        status = take(self, builder, &owner, &record, self.scratch, <uint32_t>rdlength)
        if status < 0:
            return status
    if self.stage == BEGIN:
        return NO_SOA
    if self.stage == SECOND and self.incremental and not comes_after(self.target, self.serial):
        self.stage = CURRENT
    return TOOK


# ---- the new version ----

cdef int merge(Receiver self, ZoneBuilder *builder) noexcept nogil:
    """The version that serves without what was deleted, and what was added."""
    cdef IndexSnapshot *snapshot = index_snapshot(self.zone.state.index, False)
    cdef uint32_t i
    cdef int status
    if snapshot == NULL:
        return MEMORY
    status = add(self, builder, &self.zone.state.index.origin, TYPE_SOA, CLASS_IN, self.soa_ttl, self.soa, self.soa_length)
    for i in range(snapshot.count):
        if status < 0:
            break
        status = merge_node(self, builder, snapshot.nodes[i])
    snapshot_release(snapshot)
    return status if status < 0 else merge_additions(self, builder)


cdef int merge_node(Receiver self, ZoneBuilder *builder, const IndexNode *node) noexcept nogil:
    cdef const RRset *rrset = node_rrsets(node)
    cdef const uint8_t *entry
    cdef uint8_t *canonical = self.scratch
    cdef IndexRecord record
    cdef Change *change
    cdef Name name
    cdef uint32_t i, _j
    wire_name_copy(&name, node.name, node.length)
    for i in range(node.rrsets):
        if rrset[i].type == TYPE_SOA:
            continue
        entry = NULL
        for _j in range(rrset[i].count):
            entry = rrset_record(node, &rrset[i], entry, &record)
            if self.deletions.count:
                memcpy(canonical, record.rdata, record.rdlength)
                rdata_lower(record.type, canonical, record.rdlength)
                change = changes_find(&self.deletions, node.name, node.length, name.hash[0], record.type, canonical, record.rdlength)
                if change != NULL:
                    change.used = 1
                    continue
            if add(self, builder, &name, record.type, CLASS_IN, record.ttl, record.rdata, record.rdlength) < 0:
                return REFUSED
    return TOOK


cdef int merge_additions(Receiver self, ZoneBuilder *builder) noexcept nogil:
    cdef Change *change = self.deletions.first
    cdef Name name
    while change != NULL:
        if not change.used:
            return ABSENT
        change = change.following
    change = self.additions.first
    while change != NULL:
        if not change.dead:
            wire_name_copy(&name, change.octets, change.owner_length)
            if add(self, builder, &name, change.type, CLASS_IN, change.ttl, change.octets + change.owner_length + change.rdlength,
                   change.rdlength) < 0:
                return REFUSED
        change = change.following
    return TOOK


def signature_place(bytes message not None):
    cdef const uint8_t *packet = message
    cdef uint32_t length = <uint32_t>len(message), at
    cdef Message parsed
    cdef Section section
    cdef WireRecord record
    cdef Name owner
    if length > MESSAGE_MAX or wire_parse_reply(packet, length, &parsed, NULL) < 0:
        raise ValueError("dns: malformed message")
    if parsed.tsig == 0:
        return None
    wire_begin_records(packet, length, &parsed, &section)
    while wire_next_record(&section, &record) > 0:
        if record.owner == parsed.tsig:
            at = record.owner
            if record.rdata + record.rdlength != length or wire_read_name(packet, length, &at, &owner) < 0:
                break
            return record.owner, owner.lower[:owner.length], record.rdata, record.rdlength
    raise ValueError("dns: malformed message")


cdef object error_of(int status):
    if status == MEMORY:
        return MemoryError()
    return TransferError(ERRORS[status])


cdef class Receiver:

    def __init__(self, Zone zone not None, serial=None, *, uint64_t records, uint64_t octets):
        self.zone = zone
        self.draft = zone.draft()
        self.incremental = serial is not None
        self.serial = serial or 0
        self.reached = self.serial
        self.qtype = TYPE_IXFR if self.incremental else TYPE_AXFR
        self.left_records = records
        self.left_octets = octets
        self.scratch = <uint8_t *>malloc(2 * MESSAGE_MAX + 2)
        if self.scratch == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.scratch)
        changes_free(&self.deletions)
        changes_free(&self.additions)

    def feed(self, bytes message not None, uint16_t ident):
        cdef const uint8_t *packet = message
        cdef uint32_t length = <uint32_t>len(message)
        cdef ZoneBuilder *builder = self.draft.builder
        cdef Message parsed
        cdef Name question
        cdef int status
        if length > self.left_octets:
            raise TransferError("too many octets")
        self.left_octets -= length
        if length > MESSAGE_MAX or wire_parse_reply(packet, length, &parsed, &question) < 0 or not parsed.flags & FLAG_QR:
            raise TransferError("dns: malformed message")
        if parsed.id != ident:
            raise TransferError("dns: id mismatch")
        if flags_rcode(parsed.flags):
            error = TransferError(f"dns: bad xfr rcode: {flags_rcode(parsed.flags)}")
            error.rcode = flags_rcode(parsed.flags)
            raise error
        if parsed.counts[0] and (parsed.qtype != self.qtype or (<const char *>question.lower)[:question.length] != self.zone.wire):
            raise TransferError("an answer to another question")
        self.messages += 1
        with nogil:
            status = take_message(self, builder, packet, length, &parsed)
        if status < 0:
            raise error_of(status)
        return self.done

    def finish(self):
        cdef ZoneBuilder *builder = self.draft.builder
        cdef int status
        if self.stage != DONE:
            raise TransferError("the transfer is not complete")
        if self.differences:
            with nogil:
                status = merge(self, builder)
            if status < 0:
                raise error_of(status)
        self.draft.finish()
        return self.draft

    @property
    def done(self):
        return self.stage == DONE or self.stage == CURRENT

    @property
    def current(self):
        return self.stage == CURRENT

    @property
    def differences(self):
        return self.reached != self.serial
