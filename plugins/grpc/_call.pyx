"""Calls of the service. The contract is in _call.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, strcmp
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.wire cimport HEADER_SIZE, store32
from fastdns.plugins.forward.transport.http2 cimport http2_field, http2_submit
from fastdns.api.http cimport http_digit, nghttp2_nv
from fastdns.plugins.forward._upstream cimport Exchange, HttpService, HttpStream, exchange_returned

cdef enum:
    MESSAGE_MAX = 65535
    PACKET_MAX = MESSAGE_MAX + 4    # a tag and a length of three octets
    PREFIX = 5
    NAMES = 17

cdef const char *names[NAMES]
names[:] = [b"OK", b"Canceled", b"Unknown", b"InvalidArgument", b"DeadlineExceeded", b"NotFound", b"AlreadyExists", b"PermissionDenied",
            b"ResourceExhausted", b"FailedPrecondition", b"Aborted", b"OutOfRange", b"Unimplemented", b"Internal", b"Unavailable",
            b"DataLoss", b"Unauthenticated"]


cdef void call_fail(Exchange *e, int status, const char *text) noexcept nogil:
    e.status = <uint16_t>status
    if 0 <= status < NAMES:
        snprintf(e.error, ERROR_MAX, b"rpc error: code = %s desc = %s", names[status], text)
    else:
        snprintf(e.error, ERROR_MAX, b"rpc error: code = Code(%d) desc = %s", status, text)


# ---- a call leaves ----

cdef int ask(HttpStream *stream, Exchange *e) noexcept nogil:
    cdef nghttp2_nv fields[8]
    cdef uint32_t used = PREFIX, value = e.size
    stream.prefix[0] = 0
    stream.prefix[used] = 0x0A
    used += 1
    while value >= 0x80:
        stream.prefix[used] = <uint8_t>(value & 0x7F | 0x80)
        used += 1
        value >>= 7
    stream.prefix[used] = <uint8_t>value
    used += 1
    store32(stream.prefix + 1, used - PREFIX + e.size)
    stream.prefix_size = used
    fields[0] = http2_field(b":method", b"POST")
    fields[1] = http2_field(b":scheme", b"http" if e.upstream.tls == NULL else b"https")
    fields[2] = http2_field(b":path", b"/coredns.dns.DnsService/Query")
    fields[3] = http2_field(b":authority", e.upstream.authority)
    fields[4] = http2_field(b"te", b"trailers")
    fields[5] = http2_field(b"content-type", b"application/grpc")
    fields[6] = http2_field(b"user-agent", b"fastdns")
    fields[7] = http2_field(b"grpc-timeout", b"5100m")     # later than ours, which says what has happened
    return http2_submit(stream, fields, 8, True)


# ---- its response ----

cdef void decode_percent(char *text) noexcept nogil:
    """The text of a field, in place. What cannot be read in a log line is left out."""
    cdef char *out = text
    cdef int high, low
    cdef uint8_t octet
    while text[0]:
        octet = <uint8_t>text[0]
        if octet == c'%':
            high = http_digit(<uint8_t>text[1])
            low = http_digit(<uint8_t>text[2]) if high >= 0 else -1
            if low >= 0:
                octet = <uint8_t>(16 * high + low)
                text += 2
        if octet >= 32 and octet != 127:
            out[0] = <char>octet
            out += 1
        text += 1
    out[0] = 0


cdef bint check_status(HttpStream *stream, Exchange *e) noexcept nogil:
    """Whether the call has gone well; else why not."""
    cdef char text[96]
    cdef uint32_t seen = stream.status
    if stream.grpc_status > 0:
        decode_percent(stream.message)
        call_fail(e, stream.grpc_status, stream.message)
    elif stream.grpc_status < 0 and seen != 200:
        snprintf(text, sizeof(text), b"unexpected HTTP status code received from server: %u", seen)
        call_fail(e, GRPC_UNAVAILABLE if seen == 429 or 502 <= seen <= 504 else GRPC_UNKNOWN, text)
    elif stream.grpc_status < 0:
        call_fail(e, GRPC_UNKNOWN, b"server closed the stream without sending trailers")
    return stream.grpc_status == 0


cdef bint check_prefix(HttpStream *stream, Exchange *e) noexcept nogil:
    cdef char text[96]
    cdef const uint8_t *body = stream.body
    cdef uint64_t size
    if stream.body_used < PREFIX:
        call_fail(e, GRPC_INTERNAL, b"unexpected EOF" if stream.body_used else b"EOF")
        return False
    size = <uint64_t>body[1] << 24 | <uint64_t>body[2] << 16 | <uint64_t>body[3] << 8 | body[4]
    if size > PACKET_MAX:
        snprintf(text, sizeof(text), b"grpc: received message larger than max (%u vs. %u)", <uint32_t>size, <uint32_t>PACKET_MAX)
        call_fail(e, GRPC_RESOURCE_EXHAUSTED, text)
    elif body[0] == 1:
        call_fail(e, GRPC_INTERNAL, b"grpc: compressed flag set with identity or empty encoding")
    elif body[0]:
        snprintf(text, sizeof(text), b"grpc: received unexpected payload format %u", <uint32_t>body[0])
        call_fail(e, GRPC_INTERNAL, text)
    elif stream.body_used < PREFIX + size:
        call_fail(e, GRPC_INTERNAL, b"unexpected EOF")
    elif stream.body_used > PREFIX + size:
        call_fail(e, GRPC_INTERNAL, b"cardinality violation: received multiple messages for a unary call")
    else:
        return True
    return False


cdef bint read_varint(const uint8_t *octets, uint32_t size, uint32_t *at, uint64_t *value) noexcept nogil:
    cdef uint32_t shift = 0
    value[0] = 0
    while shift < 70 and at[0] < size:
        if shift < 64:
            value[0] |= <uint64_t>(octets[at[0]] & 0x7F) << shift
        at[0] += 1
        if octets[at[0] - 1] < 0x80:
            return True
        shift += 7
    return False


cdef bint read_packet(uint8_t *octets, uint32_t size, uint8_t **message, uint32_t *length) noexcept nogil:
    """Field 1, the last one if it is there more than once; unknown fields are passed over. False: no protobuf."""
    cdef uint32_t at = 0, kind
    cdef uint64_t tag, part
    message[0] = octets
    length[0] = 0
    while at < size:
        if not read_varint(octets, size, &at, &tag):
            return False
        kind = tag & 7
        if kind == 0:
            if not read_varint(octets, size, &at, &part):
                return False
            continue
        if kind == 2:
            if not read_varint(octets, size, &at, &part):
                return False
        elif kind == 1 or kind == 5:
            part = 8 if kind == 1 else 4
        else:
            return False
        if tag >> 3 == 0 or part > size - at:
            return False
        if tag == 0x0A:
            message[0] = octets + at
            length[0] = <uint32_t>part
        at += <uint32_t>part
    return True


cdef void replied(HttpStream *stream, Exchange *e) noexcept nogil:
    cdef uint8_t *message
    cdef uint32_t length
    if check_status(stream, e) and check_prefix(stream, e):
        if not read_packet(stream.body + PREFIX, stream.body_used - PREFIX, &message, &length):
            call_fail(e, GRPC_INTERNAL, b"grpc: error unmarshalling request: proto: cannot parse invalid wire-format data")
        elif length < HEADER_SIZE:
            snprintf(e.error, ERROR_MAX, b"dns: buffer size too small")
        else:
            memcpy(message, e.request, 2)           # the id is not looked at
            exchange_returned(e, message, length, NULL)
            return
    e.share.failed(e)


cdef void broken(HttpStream *stream, Exchange *e, const char *error) noexcept nogil:
    """A body that is too long has told its length, and is said so."""
    if strcmp(error, b"body too long") == 0:
        if check_prefix(stream, e):
            call_fail(e, GRPC_RESOURCE_EXHAUSTED, b"grpc: received message larger than max")
    else:
        call_fail(e, GRPC_UNAVAILABLE, error)
    e.share.failed(e)


cdef HttpService service
service.ask = ask
service.replied = replied
service.broken = broken
GRPC_SERVICE = &service
