"""DNS over gRPC. The contract is in engine/http/grpc.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, memset, strlen
from fastdns.engine.http.carrier cimport http_query
from fastdns.engine.http.request cimport (CONTENT_GRPC, CONTENT_NONE, FIELDS_MAX, METHOD_POST, HttpRequest, HttpResponse,
                                          http_reply_alloc)
from fastdns.protocol.header cimport FLAG_QR, OPCODE_NOTIFY, OPCODE_QUERY, flags_opcode
from fastdns.walk.query cimport Query
from fastdns._mux cimport query_write
from fastdns._wire cimport HEADER_SIZE, MESSAGE_MAX, load16, load32, store32

cdef enum:
    PREFIX = 5
    PREFIX_MAX = PREFIX + 4         # with tag and length of the field
    PACKET_MAX = 65535 + 4          # the largest message, and the packet around it
    TEXT_MAX = 256                  # octets of a status's text; what it quotes is cut
    VARINT_MAX = 10
    TIMEOUT_DIGITS = 8

cdef enum:                          # statuses of gRPC
    OK = 0
    UNKNOWN = 2
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14

cdef const char *METHOD = "/coredns.dns.DnsService/Query"
cdef const char *SERVICE = "coredns.dns.DnsService"
cdef const char *CONTENT = "application/grpc"
cdef const char *MALFORMED = "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data"


# ---- responses ----

cdef void respond_status(HttpRequest *request, uint16_t http, int status, const char *text) noexcept nogil:
    cdef HttpResponse response
    cdef char encoded[3 * TEXT_MAX + 1]
    memset(&response, 0, sizeof(response))
    response.status = http
    response.content = CONTENT_GRPC if status >= 0 else CONTENT_NONE
    response.grpc_status = status
    if text != NULL:
        encode(text, encoded)
        response.grpc_message = encoded
    request.connection.respond(request, &response)


cdef void encode(const char *text, char *out) noexcept nogil:
    """Percent-encoding, as the field grpc-message has it."""
    cdef const char *digits = b"0123456789ABCDEF"
    cdef uint8_t octet
    cdef uint32_t i = 0, used = 0
    while text[i] and i < TEXT_MAX:
        octet = <uint8_t>text[i]
        if 32 <= octet < 127 and octet != c'%':
            out[used] = <char>octet
            used += 1
        else:
            out[used] = c'%'
            out[used + 1] = digits[octet >> 4]
            out[used + 2] = digits[octet & 15]
            used += 3
        i += 1
    out[used] = 0


cdef void end_call(HttpRequest *request, int status, const char *text) noexcept nogil:
    respond_status(request, 200, status, text)


cdef void refuse_fields(HttpRequest *request) noexcept nogil:
    request.asked = 1
    end_call(request, RESOURCE_EXHAUSTED, b"fields are too large")


cdef void expire(HttpRequest *request) noexcept nogil:
    request.asked = 1
    end_call(request, DEADLINE_EXCEEDED, b"context deadline exceeded")


# ---- a request ----

cdef void field(HttpRequest *request, const uint8_t *name, uint32_t name_length, const uint8_t *value, uint32_t length) noexcept nogil:
    cdef uint32_t size = <uint32_t>strlen(CONTENT)
    if name_length == 12 and memcmp(name, b"content-type", 12) == 0:
        request.grpc_content = length >= size and memcmp(value, CONTENT, size) == 0 and (length == size or value[size] == c'+' or value[size] == c';')
    elif name_length == 13 and memcmp(name, b"grpc-encoding", 13) == 0:
        if length == 8 and memcmp(value, b"identity", 8) == 0:
            length = 0
        length = min(length, <uint32_t>sizeof(request.encoding) - 1)
        memcpy(request.encoding, value, length)
        request.encoding[length] = 0
    elif name_length == 12 and memcmp(name, b"grpc-timeout", 12) == 0:
        request.timeout = parse_timeout(value, length)


cdef int64_t parse_timeout(const uint8_t *value, uint32_t length) noexcept nogil:
    """One to eight digits and a unit. ns, at least 1; -1: malformed."""
    cdef int64_t number = 0, unit, most = 4000000000000000000
    cdef uint32_t i
    if not 2 <= length <= TIMEOUT_DIGITS + 1:
        return -1
    for i in range(length - 1):
        if not c'0' <= value[i] <= c'9':
            return -1
        number = number * 10 + value[i] - c'0'
    if value[length - 1] == c'n':
        unit = 1
    elif value[length - 1] == c'u':
        unit = 1000
    elif value[length - 1] == c'm':
        unit = 1000000
    elif value[length - 1] == c'S':
        unit = 1000000000
    elif value[length - 1] == c'M':
        unit = 60000000000
    elif value[length - 1] == c'H':
        unit = 3600000000000
    else:
        return -1
    return max(<int64_t>1, number * unit) if number <= most // unit else 0


cdef void ask(HttpRequest *request) noexcept nogil:
    cdef char text[TEXT_MAX]
    cdef const uint8_t *message
    cdef uint32_t length
    cdef int status
    request.asked = 1
    if request.method != METHOD_POST:
        respond_status(request, 405, -1, NULL)
    elif not request.grpc_content:
        respond_status(request, 415, -1, NULL)
    elif request.timeout < 0:
        end_call(request, INTERNAL, b"malformed grpc-timeout")
    elif request.target_length != strlen(METHOD) or memcmp(request.target, METHOD, request.target_length) != 0:
        refuse_method(request)
    elif request.too_large:
        snprintf(text, TEXT_MAX, b"grpc: received message larger than max (%d vs. %d)", <int>PACKET_MAX + 1, <int>PACKET_MAX)
        end_call(request, RESOURCE_EXHAUSTED, text)
    elif request.encoding[0]:
        snprintf(text, TEXT_MAX, b'grpc: Decompressor is not installed for grpc-encoding "%s"', request.encoding)
        end_call(request, UNIMPLEMENTED, text)
    else:
        status = unpack(request, &message, &length, text)
        if status == OK:
            http_query(request, message, length)
        else:
            end_call(request, status, text)


cdef void refuse_method(HttpRequest *request) noexcept nogil:
    cdef char text[TEXT_MAX]
    cdef const char *target = <const char *>request.target
    cdef int length = <int>request.target_length, slash
    while length and target[0] == c'/':
        target += 1
        length -= 1
    slash = length - 1
    while slash >= 0 and target[slash] != c'/':
        slash -= 1
    if slash <= 0:
        snprintf(text, TEXT_MAX, b"malformed method name: '%.*s'", <int>min(request.target_length, <uint32_t>128), <const char *>request.target)
    elif slash == <int>strlen(SERVICE) and memcmp(target, SERVICE, slash) == 0:
        snprintf(text, TEXT_MAX, b"unknown method %.*s for service %s", <int>min(length - slash - 1, 128), target + slash + 1, SERVICE)
    else:
        snprintf(text, TEXT_MAX, b"unknown service %.*s", <int>min(slash, 128), target)
    end_call(request, UNIMPLEMENTED, text)


# ---- the packet ----

cdef int unpack(HttpRequest *request, const uint8_t **message, uint32_t *length, char *text) noexcept nogil:
    """The DNS message of a body: OK, or a status and its text."""
    cdef const uint8_t *body = request.body
    cdef uint32_t size
    if request.body_length < PREFIX:
        snprintf(text, TEXT_MAX, b"%s", <const char *>b"unexpected EOF" if request.body_length else <const char *>b"EOF")
        return INTERNAL
    size = load32(body + 1)
    if size > PACKET_MAX:
        snprintf(text, TEXT_MAX, b"grpc: received message larger than max (%u vs. %d)", size, <int>PACKET_MAX)
        return RESOURCE_EXHAUSTED
    if body[0] == 1:
        snprintf(text, TEXT_MAX, b"grpc: compressed flag set with identity or empty encoding")
        return INTERNAL
    if body[0]:
        snprintf(text, TEXT_MAX, b"grpc: received unexpected payload format %d", <int>body[0])
        return INTERNAL
    if request.body_length < PREFIX + size:
        snprintf(text, TEXT_MAX, b"unexpected EOF")
        return INTERNAL
    if request.body_length > PREFIX + size:
        snprintf(text, TEXT_MAX, b"cardinality violation: received multiple messages for a unary call")
        return INTERNAL
    if not find_message(body + PREFIX, size, message, length):
        snprintf(text, TEXT_MAX, b"%s", MALFORMED)
        return INTERNAL
    if length[0] > MESSAGE_MAX:
        snprintf(text, TEXT_MAX, b"dns message exceeds size limit: %u", length[0])
        return UNKNOWN
    return OK


cdef bint read_varint(const uint8_t *octets, uint32_t size, uint32_t *at, uint64_t *value) noexcept nogil:
    cdef uint32_t i
    value[0] = 0
    for i in range(VARINT_MAX):
        if at[0] >= size:
            return False
        value[0] |= <uint64_t>(octets[at[0]] & 0x7F) << 7 * i
        at[0] += 1
        if not octets[at[0] - 1] & 0x80:
            return True
    return False


cdef bint find_message(const uint8_t *octets, uint32_t size, const uint8_t **message, uint32_t *length) noexcept nogil:
    """Field 1, the last one if it is there more than once; unknown fields are passed over. False: malformed."""
    cdef uint64_t tag, field
    cdef uint32_t at = 0
    message[0] = octets
    length[0] = 0
    while at < size:
        if not read_varint(octets, size, &at, &tag):
            return False
        if tag & 7 == 0:
            if not read_varint(octets, size, &at, &field):
                return False
            continue
        if tag & 7 == 2:
            if not read_varint(octets, size, &at, &field):
                return False
        elif tag & 7 == 1 or tag & 7 == 5:
            field = 8 if tag & 7 == 1 else 4
        else:
            return False
        if tag >> 3 == 0 or field > size - at:
            return False
        if tag == 0x0A:
            message[0] = octets + at
            length[0] = <uint32_t>field
        at += <uint32_t>field
    return True


cdef uint8_t *add_prefix(uint8_t *message, uint32_t length) noexcept nogil:
    """Puts the frame's prefix, tag and length of the field before a DNS message, PREFIX_MAX octets at most. Returns where they begin."""
    cdef uint32_t size = 1 + (length >= 1 << 7) + (length >= 1 << 14), i, left = length
    cdef uint8_t *out = message - size - 1 - PREFIX
    out[0] = 0
    store32(out + 1, 1 + size + length)
    out[PREFIX] = 0x0A
    for i in range(size):
        out[PREFIX + 1 + i] = <uint8_t>(left & 0x7F | (0x80 if i < size - 1 else 0))
        left >>= 7
    return out


# ---- what becomes of the query ----

cdef const char *refusal(const uint8_t *packet, uint32_t length) noexcept nogil:
    """Why a message was rejected, as CoreDNS says it."""
    cdef uint16_t flags
    cdef bint served
    if length < HEADER_SIZE:
        return b"dns: buffer size too small"
    flags = load16(packet + 2)
    served = not flags & FLAG_QR and (flags_opcode(flags) == OPCODE_QUERY or flags_opcode(flags) == OPCODE_NOTIFY)
    if served and load16(packet + 4) == 1 and load16(packet + 6) <= 1 and load16(packet + 8) <= 1 and load16(packet + 10) <= 2:
        return b"dns: malformed message"
    return b"dns request rejected"


cdef void reject(HttpRequest *request, const Query *q) noexcept nogil:
    end_call(request, UNKNOWN, refusal(q.packet, q.packet_length))


cdef void fail(HttpRequest *request) noexcept nogil:
    end_call(request, UNAVAILABLE, b"the address is not served any more")


cdef void reply(HttpRequest *request, Query *q, bint replied) noexcept nogil:
    """With the reply, or where there is none with the query itself, as CoreDNS does."""
    cdef HttpResponse response
    cdef uint32_t size = q.reply.message_size if replied else q.packet_length
    cdef uint8_t *out = http_reply_alloc(request, PREFIX_MAX + size)
    if out == NULL:
        return
    out += PREFIX_MAX
    if replied:
        size = query_write(q, out)
    else:
        memcpy(out, q.packet, size)
    memset(&response, 0, sizeof(response))
    response.status = 200
    response.content = CONTENT_GRPC
    response.body = add_prefix(out, size)
    response.length = <uint32_t>(out + size - response.body)
    request.connection.respond(request, &response)

grpc_service.fields_max = FIELDS_MAX
grpc_service.body_max = PREFIX + PACKET_MAX
grpc_service.field = field
grpc_service.ask = ask
grpc_service.refuse_fields = refuse_fields
grpc_service.expire = expire
grpc_service.reject = reject
grpc_service.fail = fail
grpc_service.reply = reply
