"""RRsets in canonical form. The contract is in _canonical.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy
from fastdns.message.reply cimport Record, Reply, reply_alloc
from fastdns._wire cimport (TYPE_CNAME, TYPE_DNAME, TYPE_MB, TYPE_MD, TYPE_MF, TYPE_MG, TYPE_MINFO, TYPE_MR, TYPE_MX, TYPE_NAPTR, TYPE_NS, TYPE_PTR,
                            TYPE_SOA, TYPE_SRV, store16, store32)

cdef enum:
    TYPE_RP = 17
    TYPE_AFSDB = 18
    TYPE_RT = 21
    TYPE_SIG = 24
    TYPE_PX = 26
    TYPE_KX = 36

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


cdef int names_of(uint16_t type, const uint8_t *rdata, uint32_t length, uint32_t *names) noexcept nogil:
    """Octets in front of the names that are lowered; how many they are in *names, 0 for none."""
    cdef uint32_t at, i
    names[0] = 1
    if type in (TYPE_NS, TYPE_CNAME, TYPE_PTR, TYPE_DNAME, TYPE_MD, TYPE_MF, TYPE_MB, TYPE_MG, TYPE_MR):
        return 0
    if type in (TYPE_MX, TYPE_AFSDB, TYPE_RT, TYPE_KX):
        return 2
    if type == TYPE_SRV:
        return 6
    if type == TYPE_SIG:
        return 18
    if type == TYPE_NAPTR:
        at = 4
        for i in range(3):
            if at >= length:
                names[0] = 0
                return 0
            at += rdata[at] + <uint32_t>1
        return <int>at
    names[0] = 2
    if type in (TYPE_SOA, TYPE_MINFO, TYPE_RP):
        return 0
    if type == TYPE_PX:
        return 2
    names[0] = 0
    return 0


cdef inline uint32_t names_end(const uint8_t *rdata, uint32_t length, uint32_t at, uint32_t names) noexcept nogil:
    """Where the names end; 0 when the rdata does not hold them."""
    while names:
        if at >= length:
            return 0
        if rdata[at] == 0:
            names -= 1
        at += rdata[at] + <uint32_t>1
    return at if at <= length else 0


cdef bint lower_data(Reply *reply, uint16_t type, Data *data) noexcept nogil:
    """Has its names lowered, in a copy where that changes anything. False: no memory."""
    cdef uint32_t names, i
    cdef uint32_t start = <uint32_t>names_of(type, data.octets, data.length, &names), end
    cdef uint8_t *copy = NULL
    if not names:
        return True
    end = names_end(data.octets, data.length, start, names)
    # The lengths of labels are below 'A': octets can be looked at without regard to where labels begin.
    for i in range(start, end):
        if c'A' <= data.octets[i] <= c'Z':
            if copy == NULL:
                copy = reply_alloc(reply, data.length)
                if copy == NULL:
                    return False
                memcpy(copy, data.octets, data.length)
                data.octets = copy
            copy[i] |= 0x20
    return True


cdef uint32_t canonical_write(Reply *reply, const uint16_t *members, uint32_t count, uint8_t *out, uint32_t room) noexcept nogil:
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
        if owner_length + 10 + data.length > room - used:
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
