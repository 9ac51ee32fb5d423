"""A reply under construction. The contract is in message/reply.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport malloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.system.atomic cimport atomic_bump32
from fastdns._wire cimport (Name, Message, Section, WireRecord, NAME_MAX, FLAG_AA, FLAG_RA, FLAG_AD, FLAG_TC, TYPE_OPT, wire_parse_reply,
                            wire_begin_records, wire_next_record, wire_expand_name, wire_expand_rdata)
from fastdns.protocol.header cimport flags_rcode


# ---- begin and end ----

cdef void reply_begin(Reply *reply, LargeReplyPool *pool) noexcept nogil:
    reply.records = reply.inline_records
    reply.capacity = RECORDS_INLINE
    reply.arena = reply.inline_arena
    reply.arena_used = 0
    reply.arena_capacity = ARENA_INLINE
    reply.large = NULL
    reply.pool = pool
    reply_clear(reply)


cdef void reply_clear(Reply *reply) noexcept nogil:
    reply.count = 0
    reply.written = 0
    reply.overflow = 0
    reply.rcode = 0
    reply.flags = 0
    reply.verbatim = 0
    reply.edns.present = 0
    reply.edns.options_length = 0
    reply.compress = 0
    reply.size = 0
    reply.message_size = 0


cdef void reply_end(Reply *reply) noexcept nogil:
    if reply.large != NULL:
        reply.large.next = reply.pool.free
        reply.pool.free = reply.large
        reply.large = NULL


cdef LargeReplyBuffer *take_large(LargeReplyPool *pool) noexcept nogil:
    cdef LargeReplyBuffer *large
    if pool == NULL:
        return NULL
    large = pool.free
    if large != NULL:
        pool.free = large.next
        return large
    if pool.made >= pool.limit:
        atomic_bump32(&pool.refused, 1)
        return NULL
    large = <LargeReplyBuffer *>malloc(sizeof(LargeReplyBuffer))
    if large != NULL:
        pool.made += 1
    return large


cdef bint grow(Reply *reply) noexcept nogil:
    """Moves the record table into a large buffer. The inline arena keeps its contents, since records point into it."""
    if reply.large != NULL:
        return False
    cdef LargeReplyBuffer *large = take_large(reply.pool)
    if large == NULL:
        return False
    memcpy(large.records, reply.records, reply.count * sizeof(Record))
    reply.large = large
    reply.records = large.records
    reply.capacity = RECORDS_MAX
    reply.arena = large.arena
    reply.arena_used = 0
    reply.arena_capacity = ARENA_MAX
    return True


# ---- adding ----

cdef Record *reply_add(Reply *reply, int section) noexcept nogil:
    cdef Record *record
    if reply.count == reply.capacity and not grow(reply):
        reply.overflow = 1
        return NULL
    record = &reply.records[reply.count]
    reply.count += 1
    memset(record, 0, sizeof(Record))
    record.section = <uint8_t>section
    return record


cdef int reply_add_record(Reply *reply, int section, const uint8_t *owner, uint8_t owner_length, uint16_t type, uint16_t klass,
                          uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil:
    cdef Record *record
    if reply.count == reply.capacity and not grow(reply):
        reply.overflow = 1
        return -1
    record = &reply.records[reply.count]
    reply.count += 1
    record.owner = owner
    record.rdata = rdata
    record.ttl = ttl
    record.type = type
    record.klass = klass
    record.rdlength = rdlength
    record.owner_length = owner_length
    record.section = <uint8_t>section
    record.flags = 0
    return 0


cdef uint8_t *reply_alloc(Reply *reply, uint32_t size) noexcept nogil:
    cdef uint8_t *octets
    size = (size + 7) & ~<uint32_t>7
    if size > reply.arena_capacity - reply.arena_used:
        if not grow(reply) or size > reply.arena_capacity:
            reply.overflow = 1
            return NULL
    octets = reply.arena + reply.arena_used
    reply.arena_used += size
    return octets


cdef uint8_t *reply_copy(Reply *reply, const uint8_t *data, uint32_t size) noexcept nogil:
    cdef uint8_t *octets = reply_alloc(reply, size)
    if octets != NULL:
        memcpy(octets, data, size)
    return octets


cdef int own_record(Reply *reply, uint32_t i, const uint8_t **borrowed, const uint8_t **owned) noexcept nogil:
    """Copies what record i borrows. When its owner is borrowed[0], the copy made for the previous record, owned[0], is used."""
    cdef const uint8_t *owner = reply.records[i].owner
    cdef uint32_t length = reply.records[i].owner_length
    cdef bint again = owner == borrowed[0]
    cdef uint8_t *octets = reply_alloc(reply, (0 if again else length) + reply.records[i].rdlength)
    cdef Record *record
    if octets == NULL:
        return -1
    record = &reply.records[i]              # after reply_alloc, which may have moved the table
    if not again:
        memcpy(octets, owner, length)
        borrowed[0] = owner
        owned[0] = octets
        octets += length
    memcpy(octets, record.rdata, record.rdlength)
    record.owner = owned[0]
    record.rdata = octets
    record.flags |= RECORD_OWNED
    return 0


cdef bint is_own(const Reply *reply, const uint8_t *octets) noexcept nogil:
    """Whether these octets are in the reply's arena."""
    return (reply.inline_arena <= octets < reply.inline_arena + ARENA_INLINE
            or reply.large != NULL and reply.large.arena <= octets < reply.large.arena + ARENA_MAX)


cdef int reply_own(Reply *reply) noexcept nogil:
    cdef uint32_t i
    cdef uint8_t *options
    cdef uint16_t before = reply.count
    cdef const uint8_t *borrowed = NULL
    cdef const uint8_t *owned = NULL
    for i in range(before):
        if reply.records[i].flags & RECORD_OWNED == 0 and own_record(reply, i, &borrowed, &owned) < 0:
            reply.count = <uint16_t>i
            return -1
    if reply.edns.present and reply.edns.options_length and not is_own(reply, reply.edns.options):
        options = reply_copy(reply, reply.edns.options, reply.edns.options_length)
        if options == NULL:
            reply.edns.options_length = 0
            return -1
        reply.edns.options = options
    return 0


cdef int reply_append(Reply *reply, const Reply *other, int section) noexcept nogil:
    cdef uint32_t i
    cdef Record *record
    cdef const uint8_t *borrowed = NULL
    cdef const uint8_t *owned = NULL
    for i in range(other.count):
        if section >= 0 and other.records[i].section != section:
            continue
        record = reply_add(reply, other.records[i].section)
        if record == NULL:
            return -1
        record[0] = other.records[i]
        record.flags &= ~RECORD_OWNED
        if own_record(reply, reply.count - 1, &borrowed, &owned) < 0:
            reply.count -= 1
            return -1
    return 0


cdef int reply_parse(Reply *reply, const uint8_t *packet, uint32_t length) noexcept nogil:
    cdef Message message
    cdef Section section
    cdef WireRecord found
    cdef Record *record
    cdef const Record *former
    cdef Name name
    cdef uint8_t *octets
    cdef uint8_t *options
    cdef uint32_t at, capacity, used
    cdef int status, owner_length, rdlength
    if wire_parse_reply(packet, length, &message, &name) < 0:
        return -1
    reply_clear(reply)
    reply.written = 1
    reply.rcode = flags_rcode(message.flags)
    reply.flags = message.flags & (FLAG_AA | FLAG_RA | FLAG_AD | FLAG_TC)
    if message.edns.present:
        reply.rcode |= <uint16_t>(message.edns.extended_rcode << 4)
        reply.edns = message.edns
        options = reply_copy(reply, message.edns.options, message.edns.options_length)
        if options == NULL:
            return -2
        reply.edns.options = options
    wire_begin_records(packet, length, &message, &section)
    while True:
        status = wire_next_record(&section, &found)
        if status <= 0:
            return status
        if found.type == TYPE_OPT and found.section == 2:
            continue
        record = reply_add(reply, found.section)        # before reply_alloc: it may switch to the large arena
        if record == NULL:
            return -2
        reply.count -= 1
        # Space for the longest owner and for names in rdata that grow when expanded (at most two of them).
        capacity = NAME_MAX + found.rdlength + 2 * NAME_MAX
        octets = reply_alloc(reply, capacity)
        if octets == NULL:
            return -2
        at = found.owner
        owner_length = wire_expand_name(packet, length, &at, octets)
        if owner_length < 0:
            return -1
        record = &reply.records[reply.count]
        record.owner = octets
        used = <uint32_t>owner_length
        # Consecutive records of one owner share its octets.
        former = &reply.records[reply.count - 1 if reply.count else 0]
        if reply.count and former.owner_length == owner_length and memcmp(former.owner, octets, owner_length) == 0:
            record.owner = former.owner
            used = 0
        rdlength = wire_expand_rdata(packet, length, &found, octets + used, capacity - used)
        if rdlength < 0:
            return -1
        reply.count += 1
        # The unused rest of the allocation is returned: it is the arena's last.
        reply.arena_used -= ((capacity + 7) & ~<uint32_t>7) - ((used + rdlength + 7) & ~<uint32_t>7)
        record.owner_length = <uint8_t>owner_length
        record.rdata = octets + used
        record.section = found.section
        record.rdlength = <uint16_t>rdlength
        record.type = found.type
        record.klass = found.klass
        record.ttl = found.ttl if found.ttl <= 0x7FFFFFFF else 0         # RFC 2181 8
        record.flags = RECORD_OWNED


cdef bint reply_has(const Reply *reply, int section, uint16_t type) noexcept nogil:
    cdef uint32_t i
    for i in range(reply.count):
        if reply.records[i].section == section and reply.records[i].type == type:
            return True
    return False


cdef void reply_limit_ttl(Reply *reply, uint32_t most) noexcept nogil:
    cdef uint32_t i
    for i in range(reply.count):
        reply.records[i].ttl = min(reply.records[i].ttl, most)
