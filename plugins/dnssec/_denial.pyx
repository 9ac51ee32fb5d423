"""Black lies. The contract is in _denial.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.api.query cimport Query
from fastdns.api.reply cimport RECORD_OWNED, SECTION_AUTHORITY, Record, reply_add, reply_alloc
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport (CLASS_IN, TYPE_A, TYPE_AAAA, TYPE_CERT, TYPE_DNSKEY, TYPE_HINFO, TYPE_HIP, TYPE_LOC, TYPE_MX, TYPE_NS, TYPE_NSEC,
                               TYPE_OPENPGPKEY, TYPE_RRSIG, TYPE_SOA, TYPE_SPF, TYPE_SRV, TYPE_SSHFP, TYPE_TLSA, TYPE_TXT)

cdef enum:
    COMMON = 14                 # types that every NSEC has
    BITMAP_MAX = 32             # octets of one window (RFC 4034 4.1.2); all types here are in the first

cdef uint16_t *COMMON_TYPES = [TYPE_A, TYPE_HINFO, TYPE_TXT, TYPE_AAAA, TYPE_LOC, TYPE_SRV, TYPE_CERT, TYPE_SSHFP, TYPE_RRSIG, TYPE_NSEC,
                               TYPE_TLSA, TYPE_HIP, TYPE_OPENPGPKEY, TYPE_SPF]


cdef inline void put_type(uint8_t *bitmap, uint16_t type) noexcept nogil:
    bitmap[type >> 3] |= <uint8_t>(0x80 >> (type & 7))


cdef uint32_t write_types(uint8_t *out, DenialKind kind, bint delegation, uint16_t qtype) noexcept nogil:
    """The type bit map, without the type that is denied. Returns its octets."""
    cdef uint8_t bitmap[BITMAP_MAX]
    cdef uint32_t i, length = BITMAP_MAX
    memset(bitmap, 0, sizeof(bitmap))
    for i in range(COMMON):
        put_type(bitmap, COMMON_TYPES[i])
    if kind != DENIAL_NAME:
        put_type(bitmap, TYPE_NS)
    if kind == DENIAL_APEX:
        put_type(bitmap, TYPE_SOA)
        put_type(bitmap, TYPE_MX)
        put_type(bitmap, TYPE_DNSKEY)
    if kind != DENIAL_CUT and not delegation and qtype < 8 * BITMAP_MAX and qtype != TYPE_NSEC:
        bitmap[qtype >> 3] &= <uint8_t>~(0x80 >> (qtype & 7))
    while bitmap[length - 1] == 0:
        length -= 1
    out[0] = 0
    out[1] = <uint8_t>length
    memcpy(out + 2, bitmap, length)
    return 2 + length


cdef uint32_t write_next(uint8_t *out, Query *q, bint delegation) noexcept nogil:
    """The next name; 0 when it would be too long."""
    cdef uint32_t length = q.name.length, first = q.name.wire[0]
    if length == 1:                         # the root: \000.
        memcpy(out, b"\x01\x00\x00", 3)
        return 3
    if not delegation:                      # \000.NAME
        if length + 2 > NAME_MAX:
            return 0
        memcpy(out, b"\x01\x00", 2)
        memcpy(out + 2, q.name.wire, length)
        return length + 2
    if length + 1 > NAME_MAX or first == 63:
        return 0
    out[0] = <uint8_t>(first + 1)           # LABEL\000.REST
    memcpy(out + 1, q.name.wire + 1, first)
    out[1 + first] = 0
    memcpy(out + 2 + first, q.name.wire + 1 + first, length - 1 - first)
    return length + 1


cdef int denial_add(Query *q, DenialKind kind, bint delegation, uint32_t ttl) noexcept nogil:
    cdef uint8_t *rdata = reply_alloc(&q.reply, NAME_MAX + 2 + BITMAP_MAX)
    cdef Record *record
    cdef uint32_t used
    if rdata == NULL:
        return -1
    used = write_next(rdata, q, delegation)
    if used == 0:
        return -1
    used += write_types(rdata + used, kind, delegation, q.qtype)
    record = reply_add(&q.reply, SECTION_AUTHORITY)
    if record == NULL:
        return -1
    record.owner = q.name.wire
    record.owner_length = q.name.length
    record.type = TYPE_NSEC
    record.klass = CLASS_IN
    record.ttl = ttl
    record.rdata = rdata
    record.rdlength = <uint16_t>used
    record.flags = RECORD_OWNED
    return q.reply.count - 1
