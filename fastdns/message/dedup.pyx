"""Deduplication of the records of a reply. The contract is in message/dedup.pxd."""
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns.message.reply cimport Record

cdef enum:
    FEW = 32                        # records up to which a linear search is cheaper than hashing


cdef uint32_t record_hash(const Dedup *dedup, const Record *record) noexcept nogil:
    cdef uint64_t hash = hash_octets(record.rdata, record.rdlength, hash_seed)
    if dedup.with_owner:
        hash ^= hash_octets(record.owner, record.owner_length, hash_seed) * 3
    return <uint32_t>hash


cdef bint same(const Dedup *dedup, const Record *a, const Record *b) noexcept nogil:
    return (a.type == b.type and a.section == b.section and a.rdlength == b.rdlength and memcmp(a.rdata, b.rdata, a.rdlength) == 0
            and (not dedup.with_owner or (a.owner_length == b.owner_length and memcmp(a.owner, b.owner, a.owner_length) == 0)))


cdef bint find_or_note(Dedup *dedup, uint32_t number) noexcept nogil:
    """True when the table has a record equal to that at index `number`; otherwise inserts it."""
    cdef Record *records = dedup.reply.records
    cdef uint32_t i = record_hash(dedup, &records[number]) & 8191
    while dedup.slots[i]:
        if same(dedup, &records[dedup.slots[i] - 1], &records[number]):
            return True
        i = (i + 1) & 8191
    dedup.slots[i] = <uint16_t>(number + 1)
    return False


cdef bint dedup_last_repeats(Dedup *dedup) noexcept nogil:
    cdef Record *records = dedup.reply.records
    cdef uint32_t number = dedup.reply.count - 1, i
    if number - dedup.first <= FEW:
        for i in range(dedup.first, number):
            if same(dedup, &records[i], &records[number]):
                return True
        return False
    if not dedup.hashed:
        dedup.hashed = 1
        memset(dedup.slots, 0, sizeof(dedup.slots))
        for i in range(dedup.first, number):
            find_or_note(dedup, i)
    return find_or_note(dedup, number)
