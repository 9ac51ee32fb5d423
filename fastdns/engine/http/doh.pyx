"""DNS over HTTPS. The contract is in engine/http/doh.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memset
from fastdns.engine.http.head cimport http_split_target
from fastdns.engine.http.memory cimport http_alloc
from fastdns.engine.http.message cimport doh_decode_message, doh_find_message, doh_is_path, doh_max_age
from fastdns.engine.http.request cimport (CONTENT_DNS, CONTENT_TEXT, METHOD_GET, METHOD_POST, HttpConnection, HttpRequest, HttpResponse,
                                          http_may_ask, http_query_ended, http_reply_alloc)
from fastdns.engine.io.connection cimport TcpConnection, connection_answered, connection_finish, connection_query
from fastdns.telemetry.log_writer cimport log_debug, log_put
from fastdns.telemetry.metrics cimport metric_add
from fastdns.walk.query cimport Carrier, Query
from fastdns._mux cimport query_accept, query_run, query_streamed, query_write
from fastdns._wire cimport MESSAGE_MAX, Acceptance


# ---- a request ----

cdef void doh_ask(HttpRequest *request) noexcept nogil:
    cdef const uint8_t *path
    cdef const uint8_t *query
    cdef uint32_t path_length, query_length
    cdef const char *wrong = NULL
    request.asked = 1
    if not http_split_target(request.target, request.target_length, &path, &path_length, &query, &query_length) or not doh_is_path(path, path_length):
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


cdef bint decode_query(HttpRequest *request, const uint8_t *query, uint32_t length, const char **wrong) noexcept nogil:
    """The parameter `dns` of a GET becomes the request's body. False: *wrong says why, NULL: out of memory."""
    cdef const uint8_t *octets
    cdef uint32_t size
    cdef int used
    if not doh_find_message(query, length, &octets, &size, wrong):
        return False
    request.body = <uint8_t *>http_alloc(&request.connection.base, min(size // 4 * 3 + 3, <uint32_t>MESSAGE_MAX + 3))
    if request.body == NULL:
        return False
    used = doh_decode_message(octets, size, request.body, wrong)
    request.body_length = <uint32_t>max(used, 0)
    return used >= 0


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
