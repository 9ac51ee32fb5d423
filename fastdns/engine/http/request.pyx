"""Requests of HTTP. The contract is in engine/http/request.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.string cimport memcpy, memset
from fastdns.engine.http.memory cimport http_alloc, http_free, http_realloc
from fastdns.engine.io.connection cimport TcpConnection, connection_end, connection_server
from fastdns.system.list cimport list_append, list_first, list_init, list_next, list_remove
from fastdns.walk.query cimport ServerTable, Worker

cdef enum:
    MILLISECOND = 1000000
    BODY_FIRST = 384                # octets of a body's first buffer


# ---- connections ----

cdef HttpConnection *http_connection_begin(TcpConnection *base, const HttpService *service) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>base
    cdef const ServerTable *server = connection_server(base)
    connection.read_limit = <int64_t>server.read_timeout * MILLISECOND if server != NULL else base.limit
    connection.service = service
    connection.streams_max = base.service.max_streams
    list_init(&connection.all)
    return connection


cdef void http_connection_free(HttpConnection *connection) noexcept nogil:
    cdef HttpRequest *request = http_request_of(list_first(&connection.all))
    cdef HttpRequest *following
    while request != NULL:
        following = http_request_of(list_next(&connection.all, &request.node))
        http_request_leave(request)
        request = following


cdef inline Worker *worker_of(const HttpConnection *connection) noexcept nogil:
    return connection.base.tcp.base.worker


cdef bint http_reads_traces(const TcpConnection *connection) noexcept nogil:
    cdef const ServerTable *server = connection_server(connection)
    return server != NULL and server.trace_context


cdef bint http_query_ended(HttpRequest *request) noexcept nogil:
    request.under_way = 0
    if not request.gone:
        return not request.answered     # its deadline may be over
    http_request_free(request)
    return False


# ---- requests ----

cdef HttpRequest *http_request_begin(HttpConnection *connection) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>http_alloc(&connection.base, sizeof(HttpRequest))
    if request == NULL:
        return NULL
    memset(request, 0, sizeof(HttpRequest))
    request.connection = connection
    request.since = worker_of(connection).now
    list_append(&connection.all, &request.node)
    connection.requests += 1
    connection.open += 1
    connection.opened += 1
    return request


cdef void http_request_free(HttpRequest *request) noexcept nogil:
    cdef HttpConnection *connection = request.connection
    list_remove(&request.node)
    connection.requests -= 1
    connection.waiting -= request.out_length
    http_free(&connection.base, request.target)
    http_free(&connection.base, request.body)
    http_free(&connection.base, request.reply)
    http_free(&connection.base, request)


cdef void http_request_leave(HttpRequest *request) noexcept nogil:
    if request.gone:
        return
    request.connection.open -= 1
    if request.under_way:
        request.gone = 1
    else:
        http_request_free(request)


cdef bint http_request_target(HttpRequest *request, const uint8_t *octets, uint32_t length) noexcept nogil:
    request.target = <uint8_t *>http_alloc(&request.connection.base, length)
    if request.target == NULL:
        return False
    memcpy(request.target, octets, length)
    request.target_length = length
    return True


cdef bint http_request_body(HttpRequest *request, const uint8_t *octets, uint32_t length, uint32_t most) noexcept nogil:
    cdef uint32_t size = request.body_length + length
    cdef uint8_t *bigger
    if length == 0:
        return True
    if size > most:
        http_free(&request.connection.base, request.body)
        request.body = NULL
        request.body_length = request.body_size = 0
        request.too_large = 1
        return True
    if size > request.body_size:
        size = max(<uint32_t>BODY_FIRST, size if request.body_length == 0 else min(most, size + size // 2))
        bigger = <uint8_t *>http_realloc(&request.connection.base, request.body, size)
        if bigger == NULL:
            return False
        request.body = bigger
        request.body_size = size
    memcpy(request.body + request.body_length, octets, length)
    request.body_length += length
    return True


cdef uint8_t *http_reply_alloc(HttpRequest *request, uint32_t size) noexcept nogil:
    cdef TcpConnection *base = &request.connection.base
    request.reply = <uint8_t *>http_alloc(base, size)
    if request.reply == NULL:
        connection_end(base.tcp, base)
        return NULL
    return request.reply


# ---- fields ----

cdef const char *http_reason(uint16_t status) noexcept nogil:
    if status == 200:
        return b"OK"
    if status == 400:
        return b"Bad Request"
    if status == 404:
        return b"Not Found"
    if status == 431:
        return b"Request Header Fields Too Large"
    if status == 500:
        return b"Internal Server Error"
    if status == 501:
        return b"Not Implemented"
    if status == 503:
        return b"Service Unavailable"
    if status == 505:
        return b"HTTP Version Not Supported"
    return b""
