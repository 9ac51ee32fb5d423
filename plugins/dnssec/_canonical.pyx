"""RRsets in canonical form. The contract is in _canonical.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy
from fastdns.api.reply cimport Record, Reply, reply_alloc
from fastdns.api.wire cimport RR_CANONICAL, rrtype_get, rrtype_lower, rrtype_names, store16, store32

cdef struct Data:
    const uint8_t *octets
    uint32_t length


cdef int by_octets(const void *a, const void *b) noexcept nogil:
    """As left-justified unsigned octets (RFC 4034 6.3)."""
    cdef const Data *left = <const Data *>a
    cdef const Data *right = <const Data *>b
    cdef int order = memcmp(left.octets, right.octets, min(left.length, right.length))
    if order:
        return order
    return (left.length > right.length) - (left.length < right.length)


cdef bint lower_data(Reply *reply, uint16_t type, Data *data) noexcept nogil:
    """Has its names lowered, in a copy where that changes anything. False: no memory."""
    cdef uint32_t start
    cdef int i, end
    cdef uint8_t *copy
    if not rrtype_get(type).flags & RR_CANONICAL:
        return True
    end = rrtype_names(type, data.octets, data.length, &start)
    for i in range(<int>start, end):
        if c'A' <= data.octets[i] <= c'Z':
            copy = reply_alloc(reply, data.length)
            if copy == NULL:
                return False
            memcpy(copy, data.octets, data.length)
            rrtype_lower(copy, <uint32_t>i, <uint32_t>end)
            data.octets = copy
            break
    return True


cdef uint32_t canonical_write(Reply *reply, const uint16_t *members, uint32_t count, uint8_t *out, uint32_t capacity) noexcept nogil:
    cdef const Record *record = &reply.records[members[0]]
    cdef uint16_t type = record.type, klass = record.klass
    cdef uint8_t owner[255]
    cdef uint32_t i, used = 0, owner_length = record.owner_length
    cdef Data one
    cdef Data *sorted = &one
    cdef Data *data
    for i in range(owner_length):
        owner[i] = record.owner[i] | 0x20 if c'A' <= record.owner[i] <= c'Z' else record.owner[i]
    if count > 1:
        sorted = <Data *>reply_alloc(reply, count * sizeof(Data))
        if sorted == NULL:
            return 0
    for i in range(count):
        sorted[i].octets = reply.records[members[i]].rdata
        sorted[i].length = reply.records[members[i]].rdlength
        if not lower_data(reply, type, &sorted[i]):
            return 0
    if count > 1:
        qsort(sorted, count, sizeof(Data), by_octets)
    for i in range(count):
        data = &sorted[i]
        if i and by_octets(data, data - 1) == 0:
            continue
        if owner_length + 10 + data.length > capacity - used:
            return 0
        memcpy(out + used, owner, owner_length)
        used += owner_length
        store16(out + used, type)
        store16(out + used + 2, klass)
        store32(out + used + 4, ORIGINAL_TTL)
        store16(out + used + 8, data.length)
        memcpy(out + used + 10, data.octets, data.length)
        used += 10 + data.length
    return used
