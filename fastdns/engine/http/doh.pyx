"""DNS over HTTPS. The contract is in engine/http/doh.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memset
from fastdns.engine.http.head cimport http_digit, http_split_target
from fastdns.engine.http.memory cimport http_alloc
from fastdns.engine.http.request cimport (CONTENT_DNS, CONTENT_TEXT, ENCODED_MAX, METHOD_GET, METHOD_POST, HttpConnection, HttpRequest, HttpResponse,
                                          http_may_ask, http_query_ended, http_reply_alloc)
from fastdns.engine.io.connection cimport TcpConnection, connection_answered, connection_finish, connection_query
from fastdns.message.reply cimport Reply
from fastdns.message.typify cimport (KIND_NAMEERROR, KIND_NODATA, KIND_NOERROR, ReplyKind, ReplySummary, reply_kind_of, summary_add,
                                     summary_begin)
from fastdns.protocol.header cimport flags_opcode
from fastdns.telemetry.log_writer cimport log_debug, log_put
from fastdns.telemetry.metrics cimport metric_add
from fastdns.walk.query cimport Carrier, Query
from fastdns._mux cimport query_accept, query_run, query_streamed, query_write
from fastdns._wire cimport MESSAGE_MAX, TYPE_OPT, Acceptance

cdef enum:
    AGE_DEFAULT = 5                 # seconds; of errors, delegations and replies without records
    AGE_MAX = 3600
    PARAMETERS_MAX = 100            # of a query

cdef const char *PATH = "/dns-query"


# ---- a request ----

cdef void doh_ask(HttpRequest *request) noexcept nogil:
    cdef const uint8_t *path
    cdef const uint8_t *query
    cdef uint32_t path_length, query_length
    cdef const char *wrong = NULL
    request.asked = 1
    if not http_split_target(request.target, request.target_length, &path, &path_length, &query, &query_length) or not is_path(path, path_length):
        respond_text(request, 404, DOH_404, b"\n")
        return
    if request.method == METHOD_POST:
        if request.too_large:
            wrong = b"http: request body too large"
        else:
            request.body_length = min(request.body_length, <uint32_t>MESSAGE_MAX)
    elif request.method != METHOD_GET:
        wrong = b"method not allowed"
    elif not decode_query(request, query, query_length, &wrong) and wrong == NULL:
        wrong = b"out of memory"
    if wrong != NULL:
        refuse(request, wrong)
        return
    ask(request)


cdef void ask(HttpRequest *request) noexcept nogil:
    cdef HttpConnection *connection = request.connection
    cdef TcpConnection *base = &connection.base
    cdef Query *q
    if not http_may_ask(connection):
        respond_text(request, 500, DOH_500, b"No response\n")
        return
    q = connection_query(base)
    if q == NULL:
        if not base.broken:
            respond_text(request, 500, DOH_500, b"No response\n")
        return
    request.under_way = 1
    if query_accept(q, request.body, request.body_length, base.transport, base.listener, base.generation, &DOH, request):
        base.outstanding += 1
        query_run(q)


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


cdef bint is_path(const uint8_t *octets, uint32_t length) noexcept nogil:
    cdef uint32_t at = 0, i = 0
    while at < length and PATH[i]:
        if decoded(octets, length, &at, False) != PATH[i]:
            return False
        i += 1
    return at == length and PATH[i] == 0


cdef bint decode_query(HttpRequest *request, const uint8_t *query, uint32_t length, const char **wrong) noexcept nogil:
    """The parameter `dns` of a GET becomes the request's body. False: *wrong says why."""
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
        return decode_message(request, query + value, value_end - value, wrong)
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


cdef bint decode_message(HttpRequest *request, const uint8_t *octets, uint32_t length, const char **wrong) noexcept nogil:
    """base64url without padding (RFC 4648 5); line ends within are passed over, as in Go."""
    cdef uint32_t at = 0, bits = 0, held = 0, signs = 0, used = 0
    cdef int octet, value
    request.body = <uint8_t *>http_alloc(&request.connection.base, min(length // 4 * 3 + 3, <uint32_t>MESSAGE_MAX + 3))
    if request.body == NULL:
        return False
    while at < length:
        octet = decoded(octets, length, &at, True)
        if octet == c'\r' or octet == c'\n':
            continue
        value = sextet(octet)
        signs += 1
        if value < 0 or signs > ENCODED_MAX:
            wrong[0] = b"illegal base64 data" if value < 0 else b"dns query too large"
            return False
        held = held << 6 | <uint32_t>value
        bits += 6
        if bits >= 8:
            bits -= 8
            if used < MESSAGE_MAX:
                request.body[used] = <uint8_t>(held >> bits)
                used += 1
    if signs % 4 == 1:
        wrong[0] = b"illegal base64 data"
        return False
    request.body_length = used
    return True


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


# ---- its response ----

cdef void respond(HttpRequest *request, const HttpResponse *response, DohStatus counted) noexcept nogil:
    cdef HttpConnection *connection = request.connection
    metric_add(connection.base.service.cells + <uint32_t>counted if connection.base.service.cells else 0, connection.base.tcp.base.worker.id, 1)
    connection.respond(request, response)


cdef void respond_text(HttpRequest *request, uint16_t status, DohStatus counted, const char *text) noexcept nogil:
    cdef HttpResponse response
    cdef uint32_t length = 0
    memset(&response, 0, sizeof(response))
    while text[length]:
        length += 1
    response.status = status
    response.content = CONTENT_TEXT
    response.body = <const uint8_t *>text
    response.length = length
    response.grpc_status = -1
    respond(request, &response, counted)


cdef void refuse(HttpRequest *request, const char *reason) noexcept nogil:
    """The client is not told why."""
    cdef char line[128]
    cdef int length
    if log_debug:
        length = snprintf(line, sizeof(line), b"[DEBUG] DoH request could not be parsed: %s", reason)
        log_put(request.connection.base.tcp.base.worker.id, line, <uint32_t>length)
    respond_text(request, 400, DOH_400, b"invalid request\n")


cdef void doh_refuse_fields(HttpRequest *request) noexcept nogil:
    request.asked = 1
    respond_text(request, 431, DOH_431, b"Request Header Fields Too Large\n")


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


# ---- the carrier ----

cdef void reject_request(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>q.connection
    request.under_way = 0
    refuse(request, b"dns request rejected")


cdef void end_unserved(Query *q) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>q.connection
    request.under_way = 0
    connection_finish(&request.connection.base)
    respond_text(request, 500, DOH_500, b"No response\n")


cdef void send_reply(Query *q) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>q.connection
    cdef HttpConnection *connection = request.connection
    cdef HttpResponse response
    if http_query_ended(request):
        memset(&response, 0, sizeof(response))
        response.status = 200
        response.content = CONTENT_DNS
        response.max_age = doh_max_age(q)
        response.grpc_status = -1
        response.body = http_reply_alloc(request, q.reply.message_size)
        if response.body != NULL:
            response.length = query_write(q, request.reply)
            respond(request, &response, DOH_200)
    connection_answered(&connection.base)


cdef void no_reply(Query *q) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>q.connection
    cdef HttpConnection *connection = request.connection
    if http_query_ended(request):
        respond_text(request, 500, DOH_500, b"No response\n")
    connection_answered(&connection.base)


cdef void refuse_stream(Query *q) noexcept nogil:
    """Transfers are for TCP and TLS."""
    q.stream.close(q.stream)
    no_reply(q)
    query_streamed(q, 0)

cdef Carrier DOH
DOH.reject = reject_request
DOH.unserved = end_unserved
DOH.send = send_reply
DOH.dropped = no_reply
DOH.stream = refuse_stream
