"""Looking for a record among those of a reply; see message/dedup.pxd."""
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns.message.reply cimport Record

cdef enum:
    FEW = 32                        # records up to which looking through them is cheapest


cdef uint32_t record_hash(const Seen *seen, const Record *record) noexcept nogil:
    cdef uint64_t hash = hash_octets(record.rdata, record.rdlength, hash_seed)
    if seen.with_owner:
        hash ^= hash_octets(record.owner, record.owner_length, hash_seed) * 3
    return <uint32_t>hash


cdef bint same(const Seen *seen, const Record *a, const Record *b) noexcept nogil:
    return (a.type == b.type and a.section == b.section and a.rdlength == b.rdlength and memcmp(a.rdata, b.rdata, a.rdlength) == 0
            and (not seen.with_owner or (a.owner_length == b.owner_length and memcmp(a.owner, b.owner, a.owner_length) == 0)))


cdef bint find_or_note(Seen *seen, uint32_t number) noexcept nogil:
    """Whether an equal record is in the hash; if not, the record of this number enters it."""
    cdef Record *records = seen.reply.records
    cdef uint32_t i = record_hash(seen, &records[number]) & 8191
    while seen.slots[i]:
        if same(seen, &records[seen.slots[i] - 1], &records[number]):
            return True
        i = (i + 1) & 8191
    seen.slots[i] = <uint16_t>(number + 1)
    return False


cdef bint seen_last(Seen *seen) noexcept nogil:
    cdef Record *records = seen.reply.records
    cdef uint32_t number = seen.reply.count - 1, i
    if number - seen.first <= FEW:
        for i in range(seen.first, number):
            if same(seen, &records[i], &records[number]):
                return True
        return False
    if not seen.hashed:
        seen.hashed = 1
        memset(seen.slots, 0, sizeof(seen.slots))
        for i in range(seen.first, number):
            find_or_note(seen, i)
    return find_or_note(seen, number)
