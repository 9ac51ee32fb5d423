"""Records that a reply is to have once, whoever gives them."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.message.reply cimport Record, Reply, reply_add
from fastdns._wire cimport CLASS_IN

cdef struct Seen:                   # records already there
    Reply *reply
    uint32_t first                  # records before it do not count
    uint8_t with_owner              # owners count, too
    uint8_t hashed
    uint16_t slots[8192]            # numbers of records + 1, by hash; used from a certain number of records on

cdef inline void seen_begin(Seen *seen, Reply *reply, bint with_owner) noexcept nogil:
    seen.reply = reply
    seen.first = reply.count
    seen.with_owner = with_owner
    seen.hashed = 0

# Whether the reply's last record is among those before it.
cdef bint seen_last(Seen *seen) noexcept nogil

cdef inline int reply_put(Reply *reply, int section, const uint8_t *owner, uint8_t owner_length, uint16_t type, uint32_t ttl, const uint8_t *rdata,
                          uint16_t rdlength, uint8_t flags) noexcept nogil:
    """Adds a record of class IN. 0, or -1 when the reply is full."""
    cdef Record *record = reply_add(reply, section)
    if record == NULL:
        return -1
    record.owner = owner
    record.owner_length = owner_length
    record.type = type
    record.klass = CLASS_IN
    record.ttl = ttl
    record.rdata = rdata
    record.rdlength = rdlength
    record.flags = flags
    return 0

cdef inline int seen_add(Seen *seen, int section, const uint8_t *owner, uint8_t owner_length, uint16_t type, uint32_t ttl, const uint8_t *rdata,
                         uint16_t rdlength, uint8_t flags) noexcept nogil:
    """Adds a record unless it is there. 1 added, 0 was there, -1 the reply is full."""
    if reply_put(seen.reply, section, owner, owner_length, type, ttl, rdata, rdlength, flags) < 0:
        return -1
    if seen.reply.count - 1 != seen.first and seen_last(seen):
        seen.reply.count -= 1
        return 0
    return 1
