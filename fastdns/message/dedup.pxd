"""Deduplication of the records of a reply: a handler adds records from several sources, and each record enters the reply once.

    dedup_begin(&dedup, &q.reply, False)        # compares the records that are added from here on
    dedup_add(&dedup, SECTION_ANSWER, ...)      # once for each record

Records are equal when section, type and rdata are, and the owner too if with_owner is set. TTLs are not compared.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.message.reply cimport Record, Reply, reply_add
from fastdns._wire cimport CLASS_IN

cdef struct Dedup:                  # 16 KiB, on the stack of the handler
    Reply *reply                    # borrowed
    uint32_t first                  # index of the first record that is compared
    uint8_t with_owner              # owners are compared, too
    uint8_t hashed                  # slots is in use: the reply has more records than a linear search is good for
    uint16_t slots[8192]            # index of a record + 1, open addressing by hash; 0: free

cdef inline void dedup_begin(Dedup *dedup, Reply *reply, bint with_owner) noexcept nogil:
    dedup.reply = reply
    dedup.first = reply.count
    dedup.with_owner = with_owner
    dedup.hashed = 0

# True when the reply's last record is equal to one before it.
cdef bint dedup_last_repeats(Dedup *dedup) noexcept nogil

cdef inline int reply_put(Reply *reply, int section, const uint8_t *owner, uint8_t owner_length, uint16_t type, uint32_t ttl, const uint8_t *rdata,
                          uint16_t rdlength, uint8_t flags) noexcept nogil:
    """Adds a record of class IN without comparing it. owner and rdata are borrowed. 0, or -1 when the reply is full."""
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

cdef inline int dedup_add(Dedup *dedup, int section, const uint8_t *owner, uint8_t owner_length, uint16_t type, uint32_t ttl, const uint8_t *rdata,
                          uint16_t rdlength, uint8_t flags) noexcept nogil:
    """Adds a record unless an equal one is present. owner and rdata are borrowed. 1: added, 0: present, -1: the reply is full."""
    if reply_put(dedup.reply, section, owner, owner_length, type, ttl, rdata, rdlength, flags) < 0:
        return -1
    if dedup.reply.count - 1 != dedup.first and dedup_last_repeats(dedup):
        dedup.reply.count -= 1
        return 0
    return 1
