"""HTTP/1.1. The contract is in engine/http/http1.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, memset, strlen
from fastdns.engine.http.date cimport http_date
from fastdns.engine.http.doh cimport doh_service
from fastdns.engine.http.head cimport (HEAD_COMPLETE, HEAD_INCOMPLETE, HttpHead, http_join_chunks, http_lacks_end, http_next_field, http_parse_head,
                                       http_scan_chunks)
from fastdns.engine.http.message cimport doh_cache_control
from fastdns.engine.http.request cimport (BODY_MAX, CONTENT_DNS, CONTENT_PLAIN, CONTENT_TEXT, FIELDS_MAX, HEAD_MAX, METHOD_GET, METHOD_HEAD,
                                          METHOD_OTHER, METHOD_POST, HttpConnection, HttpRequest, HttpResponse, http_connection_begin,
                                          http_connection_free, http_reads_traces, http_reason, http_request_begin, http_request_body,
                                          http_request_leave, http_request_target)
from fastdns.engine.http.session cimport http2_protocol
from fastdns.engine.http.trace cimport trace_field
from fastdns.engine.io.connection cimport (BUFFER_SIZE, TcpConnection, connection_end, connection_may_read, connection_reserve, connection_server)
from fastdns.walk.query cimport ServerTable, worker_flush

cdef enum:
    MILLISECOND = 1000000
    PREFACE_SIZE = 24
    RESPONSE_HEAD_MAX = 512
    REQUEST_MAX = HEAD_MAX + 2 * BODY_MAX
    BEGINNING = 64                  # octets of a head from which on only its end is looked for

cdef const char *PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
cdef const char *CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"


# ---- reading ----

cdef int begin(TcpConnection *base) noexcept nogil:
    http_connection_begin(base, &doh_service).respond = respond
    return 0


cdef void end(TcpConnection *base) noexcept nogil:
    http_connection_free(<HttpConnection *>base)


cdef uint32_t wanted(const TcpConnection *base) noexcept nogil:
    cdef const HttpConnection *connection = <const HttpConnection *>base
    cdef uint32_t pending = base.input_used - base.input_done
    return max(<uint32_t>BUFFER_SIZE, connection.needed, pending + pending // 2)


cdef void read_requests(TcpConnection *base) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>base
    cdef uint32_t pending
    if connection.opened == 0 and base.tls == NULL and goes_over(connection):
        return
    while connection_may_read(base):
        pending = base.input_used - base.input_done
        if pending == 0 or pending < connection.needed:
            break
        if not take_request(connection, base.input + base.input_done, pending):
            break
    if base.input_used == base.input_done or base.outstanding:
        base.due = 0
    elif base.due == 0 and connection.opened:       # the first request has had its time since the client came
        base.due = base.tcp.base.worker.now + connection.read_limit


cdef bint goes_over(HttpConnection *connection) noexcept nogil:
    """Whether the client speaks HTTP/2, as far as can be seen (RFC 9113 3.3): it has prior knowledge."""
    cdef TcpConnection *base = &connection.base
    cdef uint32_t pending = base.input_used - base.input_done
    if pending == 0 or memcmp(base.input + base.input_done, PREFACE, min(pending, <uint32_t>PREFACE_SIZE)) != 0:
        return False
    if pending < PREFACE_SIZE:
        return True
    base.protocol = &http2_protocol
    if http2_protocol.begin(base) < 0:
        connection_end(base.tcp, base)
    else:
        http2_protocol.input(base)
    return True


cdef bint take_request(HttpConnection *connection, uint8_t *octets, uint32_t size) noexcept nogil:
    """Answers or asks the request at the beginning of the input. False: it is not whole yet."""
    cdef HttpHead head
    cdef uint32_t total, length = 0
    cdef int status
    if lacks_more(connection, octets, size):
        return False
    status = http_parse_head(octets, size, &head)
    if status == HEAD_INCOMPLETE:
        if size < HEAD_MAX:
            connection.scanned = size
            return False
        return refuse(connection, 431)
    if status != HEAD_COMPLETE:
        return refuse(connection, status)
    if head.hosts != 1 and (head.minor or head.hosts > 1):
        return refuse(connection, 400)
    total = head.length
    if head.fields > FIELDS_MAX:
        return refuse(connection, 431)
    if head.chunked:
        connection.chunked = head.length
        status = http_scan_chunks(octets + head.length, size - head.length, BODY_MAX, &connection.chunks, &total)
        length = connection.chunks.body
        if status == 0 and size < REQUEST_MAX:
            return expect_more(connection, &head, size + 1)
        if status <= 0:
            return refuse(connection, 400) if length <= BODY_MAX else run(connection, &head, octets, size, NULL, 0)
        total += head.length
        http_join_chunks(octets + head.length)
    elif head.content_length > BODY_MAX:
        return run(connection, &head, octets, size, NULL, 0)
    elif head.content_length > 0:
        length = <uint32_t>head.content_length
        total += length
        if size < total:
            return expect_more(connection, &head, total)
    return run(connection, &head, octets, total, octets + head.length, length)


cdef bint lacks_more(HttpConnection *connection, const uint8_t *octets, uint32_t size) noexcept nogil:
    """Whether a request of which a part came before is still not whole. What was looked at then is not looked at again: a client may send octet by octet."""
    cdef uint32_t total
    if connection.chunked:
        if size >= REQUEST_MAX or http_scan_chunks(octets + connection.chunked, size - connection.chunked, BODY_MAX, &connection.chunks, &total) != 0:
            return False
        connection.needed = size + 1
        return True
    if connection.scanned < BEGINNING or size >= HEAD_MAX or not http_lacks_end(octets, size, connection.scanned):
        return False
    connection.scanned = size
    return True


cdef bint expect_more(HttpConnection *connection, const HttpHead *head, uint32_t needed) noexcept nogil:
    cdef uint32_t size = <uint32_t>strlen(CONTINUE)
    cdef uint8_t *out
    connection.needed = needed
    if head.expects and head.minor and not connection.continued:
        connection.continued = 1
        out = connection_reserve(&connection.base, size)
        if out != NULL:
            memcpy(out, CONTINUE, size)
            connection.base.output_used += size
    return False


cdef bint run(HttpConnection *connection, const HttpHead *head, uint8_t *octets, uint32_t total, const uint8_t *body, uint32_t length) noexcept nogil:
    """A request that is whole; body NULL: it is too large, and what follows is not read."""
    cdef TcpConnection *base = &connection.base
    cdef HttpRequest *request = begin_request(connection, head.close or body == NULL, total)
    if request == NULL:
        return True
    request.method = method_of(head)
    request.too_large = body == NULL
    if http_reads_traces(base):
        read_trace(request, octets, head.length)
    if not http_request_target(request, head.target, head.target_length) or not http_request_body(request, body, length, BODY_MAX):
        connection_end(base.tcp, base)
        return True
    connection.service.ask(request)
    return True


cdef void read_trace(HttpRequest *request, const uint8_t *head, uint32_t size) noexcept nogil:
    cdef const uint8_t *end = head + size
    cdef const uint8_t *name
    cdef const uint8_t *value
    cdef uint32_t name_length, length
    while http_next_field(&head, end, &name, &name_length, &value, &length):
        trace_field(&request.trace, name, name_length, value, length)


cdef HttpRequest *begin_request(HttpConnection *connection, bint close, uint32_t total) noexcept nogil:
    cdef TcpConnection *base = &connection.base
    cdef HttpRequest *request = http_request_begin(connection)
    if request == NULL:
        connection_end(base.tcp, base)
        return NULL
    base.input_done += total
    base.due = 0
    connection.needed = 0
    connection.scanned = 0
    connection.chunked = 0
    memset(&connection.chunks, 0, sizeof(connection.chunks))
    connection.continued = 0
    connection.close = close
    request.ended = 1
    return request


cdef uint8_t method_of(const HttpHead *head) noexcept nogil:
    if head.method_length == 4 and memcmp(head.method, b"POST", 4) == 0:
        return METHOD_POST
    if head.method_length == 3 and memcmp(head.method, b"GET", 3) == 0:
        return METHOD_GET
    return METHOD_HEAD if head.method_length == 4 and memcmp(head.method, b"HEAD", 4) == 0 else METHOD_OTHER


cdef bint refuse(HttpConnection *connection, int status) noexcept nogil:
    """What came is no HTTP: this response is the last."""
    cdef HttpRequest *request = begin_request(connection, True, connection.base.input_used - connection.base.input_done)
    cdef HttpResponse response
    cdef char text[64]
    if request == NULL:
        return True
    if status == 431:
        connection.service.refuse_fields(request)
        return True
    memset(&response, 0, sizeof(response))
    response.status = <uint16_t>status
    response.content = CONTENT_PLAIN
    response.length = <uint32_t>snprintf(text, sizeof(text), b"%d %s", status, http_reason(<uint16_t>status))
    response.body = <const uint8_t *>text
    response.grpc_status = -1
    respond(request, &response)
    return True


# ---- writing ----

cdef void respond(HttpRequest *request, const HttpResponse *response) noexcept nogil:
    cdef HttpConnection *connection = request.connection
    cdef TcpConnection *base = &connection.base
    cdef const ServerTable *server = connection_server(base)
    cdef uint32_t length = response.length
    cdef uint8_t *out
    cdef int used
    if base.broken:
        return
    out = connection_reserve(base, RESPONSE_HEAD_MAX + length)
    if out == NULL:
        return
    used = write_head(<char *>out, connection, response)
    if request.method != METHOD_HEAD:
        memcpy(out + used, response.body, length)
        used += <int>length
    base.output_used += <uint32_t>used
    base.idle_since = base.tcp.base.worker.now
    if server != NULL:
        base.limit = <int64_t>server.idle_timeout * MILLISECOND
    base.last |= connection.close
    http_request_leave(request)
    worker_flush(base.tcp.base.worker, &base.flush)


cdef inline char *put_text(char *out, const char *text) noexcept nogil:
    cdef size_t length = strlen(text)
    memcpy(out, text, length)
    return out + length


cdef char *put_number(char *out, uint32_t number) noexcept nogil:
    cdef char digits[10]
    cdef uint32_t at = sizeof(digits)
    while True:
        at -= 1
        digits[at] = <char>(c'0' + number % 10)
        number //= 10
        if number == 0:
            break
    memcpy(out, digits + at, sizeof(digits) - at)
    return out + sizeof(digits) - at


cdef int write_head(char *out, const HttpConnection *connection, const HttpResponse *response) noexcept nogil:
    """At most RESPONSE_HEAD_MAX octets."""
    cdef char *at = put_number(put_text(out, b"HTTP/1.1 "), response.status)
    at = put_text(put_text(at, b" "), http_reason(response.status))
    at = put_text(put_text(at, b"\r\ndate: "), http_date(connection.base.tcp.base.worker.id))
    if response.content == CONTENT_DNS:
        at = put_text(at, b"\r\ncontent-type: application/dns-message\r\ncache-control: ")
        at += doh_cache_control(at, response.is_private, response.max_age)
    elif response.content == CONTENT_TEXT:
        at = put_text(at, b"\r\ncontent-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff")
    elif response.content == CONTENT_PLAIN:
        at = put_text(at, b"\r\ncontent-type: text/plain; charset=utf-8")
    at = put_number(put_text(at, b"\r\ncontent-length: "), response.length)
    if connection.close or connection.base.eof:
        at = put_text(at, b"\r\nconnection: close")
    return <int>(put_text(at, b"\r\n\r\n") - out)


cdef void expire(TcpConnection *base) noexcept nogil:
    """The rest of a request did not come in time."""
    connection_end(base.tcp, base)


http1_protocol.size = sizeof(HttpConnection)
http1_protocol.outstanding_max = 1
http1_protocol.begin = begin
http1_protocol.lingers = 1
http1_protocol.wanted = wanted
http1_protocol.input = read_requests
http1_protocol.expire = expire
http1_protocol.free = end
