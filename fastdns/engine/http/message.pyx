"""Messages in requests of DNS over HTTP, in any version. The contract is in engine/http/message.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.engine.http.head cimport http_digit
from fastdns.message.reply cimport Reply
from fastdns.message.typify cimport (KIND_NAMEERROR, KIND_NODATA, KIND_NOERROR, ReplyKind, ReplySummary, reply_kind_of, summary_add,
                                     summary_begin)
from fastdns.protocol.header cimport flags_opcode
from fastdns.walk.query cimport Query
from fastdns._wire cimport MESSAGE_MAX, TYPE_OPT

cdef enum:
    AGE_DEFAULT = 5                 # seconds; of errors, delegations and replies without records
    AGE_MAX = 3600
    PARAMETERS_MAX = 100            # of a query

cdef const char *PATH = "/dns-query"


cdef int decoded(const uint8_t *octets, uint32_t length, uint32_t *at, bint form) noexcept nogil:
    """The next octet of percent-encoded text (RFC 3986 2.1); `form`: + is a space."""
    cdef int high, low
    cdef uint8_t octet = octets[at[0]]
    at[0] += 1
    if octet == c'+' and form:
        return c' '
    if octet == c'%' and at[0] + 1 < length:
        high = http_digit(octets[at[0]])
        low = http_digit(octets[at[0] + 1])
        if high >= 0 and low >= 0:
            at[0] += 2
            return high << 4 | low
    return octet


cdef bint doh_is_path(const uint8_t *octets, uint32_t length) noexcept nogil:
    cdef uint32_t at = 0, i = 0
    while at < length and PATH[i]:
        if decoded(octets, length, &at, False) != PATH[i]:
            return False
        i += 1
    return at == length and PATH[i] == 0


cdef bint doh_find_message(const uint8_t *query, uint32_t length, const uint8_t **message, uint32_t *message_length, const char **wrong) noexcept nogil:
    cdef uint32_t at = 0, end, name, value = 0, value_end = 0, found = 0, count = 0
    while at < length:
        end = at
        while end < length and query[end] != c'&':
            end += 1
        count += 1
        name = at
        if is_dns(query, end, &name):
            found += 1
            value = name
            value_end = end
        at = end + 1
    if count > PARAMETERS_MAX:
        wrong[0] = b"too many query parameters"
    elif found == 0:
        wrong[0] = b"no 'dns' query parameter found"
    elif found > 1:
        wrong[0] = b"multiple 'dns' query values found"
    elif value_end - value > 3 * ENCODED_MAX:
        wrong[0] = b"dns query too large"
    else:
        message[0] = query + value
        message_length[0] = value_end - value
        return True
    return False


cdef bint is_dns(const uint8_t *query, uint32_t end, uint32_t *at) noexcept nogil:
    """Whether a parameter is named so; *at is moved to its value."""
    cdef const char *wanted = b"dns"
    cdef uint32_t i = 0
    while at[0] < end and query[at[0]] != c'=':
        if i == 3 or decoded(query, end, at, True) != wanted[i]:
            return False
        i += 1
    if i < 3:
        return False
    at[0] += at[0] < end                # the sign
    return True


cdef int doh_decode_message(const uint8_t *octets, uint32_t length, uint8_t *out, const char **wrong) noexcept nogil:
    """Line ends within are passed over, as in Go."""
    cdef uint32_t at = 0, bits = 0, held = 0, signs = 0, used = 0
    cdef int octet, value
    while at < length:
        octet = decoded(octets, length, &at, True)
        if octet == c'\r' or octet == c'\n':
            continue
        value = sextet(octet)
        signs += 1
        if value < 0 or signs > ENCODED_MAX:
            wrong[0] = b"illegal base64 data" if value < 0 else b"dns query too large"
            return -1
        held = held << 6 | <uint32_t>value
        bits += 6
        if bits >= 8:
            bits -= 8
            if used < MESSAGE_MAX:
                out[used] = <uint8_t>(held >> bits)
                used += 1
    if signs % 4 == 1:
        wrong[0] = b"illegal base64 data"
        return -1
    return <int>used


cdef inline int sextet(int octet) noexcept nogil:
    if c'A' <= octet <= c'Z':
        return octet - c'A'
    if c'a' <= octet <= c'z':
        return octet - c'a' + 26
    if c'0' <= octet <= c'9':
        return octet - c'0' + 52
    if octet == c'-':
        return 62
    return 63 if octet == c'_' else -1


cdef uint32_t doh_max_age(const Query *q) noexcept nogil:
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
