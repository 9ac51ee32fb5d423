"""Requests of DNS over HTTP/3. The contract is in engine/quic/request.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memcmp
from fastdns._wire cimport MESSAGE_MAX, TYPE_OPT
from fastdns.message.reply cimport Reply
from fastdns.message.typify cimport (KIND_NAMEERROR, KIND_NODATA, KIND_NOERROR, ReplyKind, ReplySummary, reply_kind_of, summary_add,
                                     summary_begin)
from fastdns.protocol.header cimport flags_opcode

cdef enum:
    PARAMETERS_MAX = 100
    ENCODED_MAX = 87382             # octets of BODY_MAX in base64
    AGE_DEFAULT = 5                 # seconds; of errors, delegations and replies without records
    AGE_MAX = 3600

cdef const char *PATH = "/dns-query"


cdef RequestMethod request_method(const uint8_t *octets, uint32_t length) noexcept nogil:
    if length == 3 and memcmp(octets, <const char *>b"GET", 3) == 0:
        return METHOD_GET
    if length == 4 and memcmp(octets, <const char *>b"POST", 4) == 0:
        return METHOD_POST
    return METHOD_OTHER


cdef inline int digit(uint8_t octet) noexcept nogil:
    if c'0' <= octet <= c'9':
        return octet - c'0'
    octet |= 0x20
    return octet - c'a' + 10 if c'a' <= octet <= c'f' else -1


cdef inline uint8_t unescaped(const uint8_t *octets, uint32_t length, uint32_t *at) noexcept nogil:
    """The next octet, percent-decoded (RFC 3986 2.1)."""
    cdef uint8_t octet = octets[at[0]]
    at[0] += 1
    if octet == c'%' and at[0] + 1 < length and digit(octets[at[0]]) >= 0 and digit(octets[at[0] + 1]) >= 0:
        octet = <uint8_t>(digit(octets[at[0]]) << 4 | digit(octets[at[0] + 1]))
        at[0] += 2
    return octet


cdef uint32_t path_end(const uint8_t *target, uint32_t length) noexcept nogil:
    cdef const uint8_t *mark = <const uint8_t *>memchr(target, c'?', length)
    return <uint32_t>(mark - target) if mark != NULL else length


cdef bint request_is_for_dns(const uint8_t *target, uint32_t length) noexcept nogil:
    cdef uint32_t end = path_end(target, length), at = 0, i = 0
    while at < end:
        if PATH[i] == 0 or unescaped(target, end, &at) != PATH[i]:
            return False
        i += 1
    return PATH[i] == 0


cdef bint is_dns(const uint8_t *octets, uint32_t end, uint32_t *at) noexcept nogil:
    """Whether a parameter is `dns`; at is then where its value begins."""
    cdef uint8_t name[3]
    cdef uint32_t i = 0
    while at[0] < end and octets[at[0]] != c'=':
        if i == 3:
            return False
        name[i] = unescaped(octets, end, at)
        i += 1
    at[0] += at[0] < end
    return i == 3 and memcmp(name, <const char *>b"dns", 3) == 0


cdef int request_decode(const uint8_t *target, uint32_t length, uint8_t *out, const char **wrong) noexcept nogil:
    cdef uint32_t at = path_end(target, length) + 1, end, place, value = 0, value_end = 0, found = 0, count = 0
    while at < length:
        end = at
        while end < length and target[end] != c'&':
            end += 1
        place = at
        if end > at:
            count += 1
            if is_dns(target, end, &place):
                found += 1
                value = place
                value_end = end
        at = end + 1
    if count > PARAMETERS_MAX:
        wrong[0] = b"too many query parameters"
    elif found == 0:
        wrong[0] = b"no 'dns' query parameter found"
    elif found > 1:
        wrong[0] = b"multiple 'dns' query values found"
    else:
        return decode(target + value, value_end - value, out, wrong)
    return -1


cdef int decode(const uint8_t *octets, uint32_t length, uint8_t *out, const char **wrong) noexcept nogil:
    """base64url without padding (RFC 4648 5); line ends are passed over, as in Go."""
    cdef uint32_t at = 0, bits = 0, held = 0, count = 0, used = 0
    cdef uint8_t octet
    cdef int value
    while at < length:
        octet = unescaped(octets, length, &at)
        if octet == c'\r' or octet == c'\n':
            continue
        value = sextet(octet)
        count += 1
        if value < 0:
            wrong[0] = b"illegal base64 data"
            return -1
        if count > ENCODED_MAX:
            wrong[0] = b"dns query too large"
            return -1
        held = held << 6 | <uint32_t>value
        bits += 6
        if bits >= 8:
            bits -= 8
            if used < MESSAGE_MAX:
                out[used] = <uint8_t>(held >> bits)
                used += 1
    if count % 4 == 1:
        wrong[0] = b"illegal base64 data"
        return -1
    return <int>used


cdef inline int sextet(uint8_t octet) noexcept nogil:
    if c'A' <= octet <= c'Z':
        return octet - c'A'
    if c'a' <= octet <= c'z':
        return octet - c'a' + 26
    if c'0' <= octet <= c'9':
        return octet - c'0' + 52
    return 62 if octet == c'-' else 63 if octet == c'_' else -1


cdef uint32_t reply_max_age(const Query *q) noexcept nogil:
    cdef const Reply *reply = &q.reply
    cdef ReplySummary summary
    cdef ReplyKind kind
    cdef uint32_t i, records = 0
    summary_begin(&summary)
    for i in range(reply.count):
        if reply.records[i].type != TYPE_OPT:
            records += 1
            summary_add(&summary, reply.records[i].section, reply.records[i].type, reply.records[i].ttl)
    if records == 0:
        return AGE_DEFAULT
    kind = reply_kind_of(reply, &summary, q.message.qtype, flags_opcode(q.message.flags))
    if kind != KIND_NOERROR and kind != KIND_NAMEERROR and kind != KIND_NODATA:
        return AGE_DEFAULT
    return min(summary.least_ttl, <uint32_t>AGE_MAX)
