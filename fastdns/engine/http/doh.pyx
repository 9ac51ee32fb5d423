"""DNS over HTTPS. The contract is in engine/http/doh.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memset
from fastdns.engine.http.carrier cimport http_query
from fastdns.engine.http.head cimport http_split_target
from fastdns.engine.http.memory cimport http_alloc, http_free
from fastdns.engine.http.message cimport doh_decode_message, doh_find_message, doh_is_path, doh_is_private, doh_max_age
from fastdns.engine.http.request cimport (BODY_MAX, CONTENT_DNS, CONTENT_TEXT, HEAD_MAX, METHOD_GET, METHOD_POST, HttpConnection,
                                          HttpRequest, HttpResponse, http_reply_alloc)
from fastdns.telemetry.log_line cimport LOG_DEBUG, log_put
from fastdns.telemetry.log_writer cimport log_wants_debug
from fastdns.telemetry.metrics cimport metric_add
from fastdns.walk.query cimport Query
from fastdns._mux cimport query_write
from fastdns._wire cimport MESSAGE_MAX


# ---- a request ----

cdef void ask(HttpRequest *request) noexcept nogil:
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
    http_query(request, request.body, request.body_length)


cdef bint decode_query(HttpRequest *request, const uint8_t *query, uint32_t length, const char **wrong) noexcept nogil:
    """The parameter `dns` of a GET becomes the request's body, instead of one that it came with. False: *wrong says why, NULL: out of memory."""
    cdef const uint8_t *octets
    cdef uint32_t size
    cdef int used
    if not doh_find_message(query, length, &octets, &size, wrong):
        return False
    http_free(&request.connection.base, request.body)
    request.body_length = 0
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
    """The reason is for the log alone."""
    cdef char line[128]
    cdef int length
    if log_wants_debug():
        length = snprintf(line, sizeof(line), b"DoH request could not be parsed: %s", reason)
        log_put(request.connection.base.tcp.base.worker.id, LOG_DEBUG, NULL, line, <uint32_t>length)
    respond_text(request, 400, DOH_400, b"invalid request\n")


cdef void refuse_fields(HttpRequest *request) noexcept nogil:
    request.asked = 1
    respond_text(request, 431, DOH_431, b"Request Header Fields Too Large\n")


# ---- what becomes of the query ----

cdef void reject(HttpRequest *request, const Query *q) noexcept nogil:
    refuse(request, b"dns request rejected")


cdef void fail(HttpRequest *request) noexcept nogil:
    respond_text(request, 500, DOH_500, b"No response\n")


cdef void reply(HttpRequest *request, Query *q, bint replied) noexcept nogil:
    cdef HttpResponse response
    if not replied:
        respond_text(request, 500, DOH_500, b"No response\n")
        return
    memset(&response, 0, sizeof(response))
    response.status = 200
    response.content = CONTENT_DNS
    response.max_age = doh_max_age(q)
    response.is_private = doh_is_private(q)
    response.grpc_status = -1
    response.body = http_reply_alloc(request, q.reply.message_size)
    if response.body != NULL:
        response.length = query_write(q, request.reply)
        respond(request, &response, DOH_200)

doh_service.fields_max = HEAD_MAX
doh_service.body_max = BODY_MAX
doh_service.field = NULL
doh_service.ask = ask
doh_service.refuse_fields = refuse_fields
doh_service.expire = NULL           # its requests have no `timeout`
doh_service.reject = reject
doh_service.fail = fail
doh_service.reply = reply
