"""HTTP/2. The contract is in engine/http/session.pxd."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, int32_t, int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, memset, strlen
from fastdns.engine.http.date cimport http_date
from fastdns.engine.http.doh cimport doh_service
from fastdns.engine.http.frames cimport FRAME_HEAD, frame_weight, frames_are_idle, frames_before, frames_next
from fastdns.engine.http.grpc cimport grpc_service
from fastdns.engine.http.memory cimport http_alloc, http_free, http_realloc
from fastdns.engine.http.message cimport CACHE_CONTROL_MAX, doh_cache_control
from fastdns.engine.http.nghttp2 cimport *
from fastdns.engine.http.request cimport (CONTENT_DNS, CONTENT_GRPC, CONTENT_TEXT, FIELDS_MAX, METHOD_GET, METHOD_HEAD,
                                          METHOD_OTHER, METHOD_POST, HttpConnection, HttpRequest, HttpResponse, http_connection_begin,
                                          http_connection_free, http_reads_traces, http_request_begin, http_request_body, http_request_leave,
                                          http_request_of, http_request_target, nghttp2_session)
from fastdns.engine.http.trace cimport trace_field, trace_may_be
from fastdns.engine.io.connection cimport BUFFER_SIZE, OUTPUT_PAUSE, TcpConnection, connection_end, connection_reserve, connection_server
from fastdns._wire cimport load32
from fastdns.system.list cimport list_first, list_last, list_next, list_previous
from fastdns.walk.query cimport TRANSPORT_GRPC, ServerTable, worker_flush

cdef enum:
    MILLISECOND = 1000000
    WINDOW = 262144                 # octets of unfinished bodies that a connection may send
    WAITING_MAX = 1048576           # octets of replies that wait for the client's windows: above, streams are reset
    RESETS_MAX = 200                # streams that are reset, if they are more than half of those that were opened (CVE-2023-44487, CVE-2025-8671)
    STREAMS_UNLIMITED = 2147483647
    WINDOW_MAX = 2147483647         # octets of any window (RFC 9113 6.9.1)
    PREFACE_SIZE = 24

cdef nghttp2_session_callbacks *callbacks
cdef nghttp2_option *options


# ---- a connection ----

cdef void *allocate(size_t size, void *data) noexcept nogil:
    return http_alloc(<TcpConnection *>data, size)


cdef void *allocate_zeroed(size_t count, size_t size, void *data) noexcept nogil:
    cdef void *pointer = http_alloc(<TcpConnection *>data, count * size)
    if pointer != NULL:
        memset(pointer, 0, count * size)
    return pointer


cdef void *reallocate(void *pointer, size_t size, void *data) noexcept nogil:
    return http_realloc(<TcpConnection *>data, pointer, size)


cdef void release(void *pointer, void *data) noexcept nogil:
    http_free(<TcpConnection *>data, pointer)


cdef int begin(TcpConnection *base) noexcept nogil:
    cdef HttpConnection *connection = http_connection_begin(base, &grpc_service if base.transport == TRANSPORT_GRPC else &doh_service)
    cdef nghttp2_mem memory
    cdef nghttp2_settings_entry settings[3]
    memory.mem_user_data = base
    memory.malloc = allocate
    memory.calloc = allocate_zeroed
    memory.realloc = reallocate
    memory.free = release
    connection.respond = respond
    connection.frames.skipped = PREFACE_SIZE
    if nghttp2_session_server_new3(&connection.session, callbacks, connection, options, &memory) != 0:
        connection.session = NULL
        return -1
    settings[0].settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
    settings[0].value = connection.streams_max if connection.streams_max else <uint32_t>STREAMS_UNLIMITED
    settings[1].settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE
    settings[1].value = connection.service.fields_max
    settings[2].settings_id = NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES
    settings[2].value = 1
    if nghttp2_submit_settings(connection.session, NGHTTP2_FLAG_NONE, settings, 3) != 0:
        return -1
    if nghttp2_session_set_local_window_size(connection.session, NGHTTP2_FLAG_NONE, 0, WINDOW) != 0:
        return -1
    base.unsaid = 1
    return 0


cdef void end(TcpConnection *base) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>base
    if connection.session != NULL:
        nghttp2_session_del(connection.session)
        connection.session = NULL
    http_connection_free(connection)


cdef void terminate(HttpConnection *connection, uint32_t error) noexcept nogil:
    """GOAWAY, and nothing after it."""
    connection.draining = 1
    connection.base.unsaid = 1
    if nghttp2_session_terminate_session(connection.session, error) != 0:
        connection_end(connection.base.tcp, &connection.base)


cdef void finish(TcpConnection *base) noexcept nogil:
    """Requests that come from now on are refused. GOAWAY follows the last response: there are clients that take nothing behind it."""
    cdef HttpConnection *connection = <HttpConnection *>base
    connection.draining = 1
    if connection.open == 0:
        terminate(connection, NGHTTP2_NO_ERROR)


# ---- what comes ----

cdef uint32_t wanted(const TcpConnection *base) noexcept nogil:
    return BUFFER_SIZE


cdef void read_frames(TcpConnection *base) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>base
    cdef const uint8_t *octets = base.input + base.input_done
    cdef ssize_t size = nghttp2_session_mem_recv(connection.session, octets, scan_frames(connection, octets, base.input_used - base.input_done))
    if base.broken:
        return
    base.input_done = base.input_used
    base.unsaid = 1
    if size == NGHTTP2_ERR_BAD_CLIENT_MAGIC:
        terminate(connection, NGHTTP2_PROTOCOL_ERROR)
    elif size == NGHTTP2_ERR_NOMEM or size == NGHTTP2_ERR_CALLBACK_FAILURE:
        connection_end(base.tcp, base)
    elif size < 0 or is_flooded(connection):
        terminate(connection, NGHTTP2_ENHANCE_YOUR_CALM)


cdef inline bint is_flooded(const HttpConnection *connection) noexcept nogil:
    return (connection.resets > RESETS_MAX and connection.resets > connection.opened // 2
            or frames_are_idle(&connection.frames, connection.opened))


cdef inline HttpRequest *request_of(nghttp2_session *session, int32_t stream) noexcept nogil:
    return <HttpRequest *>nghttp2_session_get_stream_user_data(session, stream)


cdef uint32_t scan_frames(HttpConnection *connection, const uint8_t *octets, uint32_t size) noexcept nogil:
    """Looks at the heads of all frames before the library does. Returns how many octets it may have."""
    cdef uint32_t at = 0
    while frames_next(&connection.frames, octets, size, &at):
        if not may_come(connection, connection.frames.head):
            return frames_before(at)
    return size


cdef bint may_come(HttpConnection *connection, const uint8_t *head) noexcept nogil:
    """Counts a frame that asks for nothing. False: the connection ends by it."""
    cdef uint8_t kind = head[3]
    cdef int32_t stream = <int32_t>(load32(head + 5) & 0x7fffffff)
    if kind == NGHTTP2_RST_STREAM:
        connection.newest_reset = stream
    elif (kind == NGHTTP2_HEADERS or kind == NGHTTP2_DATA) and is_closed(connection, stream):
        terminate(connection, NGHTTP2_STREAM_CLOSED)
        return False
    if kind != NGHTTP2_HEADERS and (kind != NGHTTP2_DATA or not head[4] & NGHTTP2_FLAG_END_STREAM):
        connection.frames.idle += frame_weight(head)
        if is_flooded(connection):
            terminate(connection, NGHTTP2_ENHANCE_YOUR_CALM)
            return False
    return True


cdef inline bint is_closed(const HttpConnection *connection, int32_t stream) noexcept nogil:
    """Whether both sides have ended a stream: nothing may come on it (RFC 9113 5.1), unless this side has reset some."""
    if connection.has_reset or stream == 0 or stream > nghttp2_session_get_last_proc_stream_id(connection.session):
        return False
    return stream == connection.newest_reset or request_of(connection.session, stream) == NULL


cdef int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *data) noexcept nogil:
    if head.type == NGHTTP2_SETTINGS and not head.flags & NGHTTP2_FLAG_ACK:
        note_windows(<HttpConnection *>data)
    return 0


cdef void note_windows(HttpConnection *connection) noexcept nogil:
    """SETTINGS are about to change the windows of all streams. Where one overflows the connection ends (RFC 9113 6.9.2); the library resets
    that stream alone, without a callback."""
    cdef HttpRequest *request = http_request_of(list_first(&connection.all))
    cdef int32_t largest = 0
    while request != NULL:
        if not request.gone:
            largest = max(largest, nghttp2_session_get_stream_remote_window_size(connection.session, request.stream))
        request = http_request_of(list_next(&connection.all, &request.node))
    connection.window_max = <int64_t>WINDOW_MAX - largest + nghttp2_session_get_remote_settings(connection.session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)


cdef int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>data
    cdef TcpConnection *base = &connection.base
    cdef HttpRequest *request
    if frame.headers.cat != NGHTTP2_HCAT_REQUEST:
        connection.frames.idle += nghttp2_session_get_stream_user_data(session, frame.hd.stream_id) == NULL
        return 0
    # Those whose client has gone count until their queries have ended.
    if connection.draining or connection.streams_max and connection.requests >= connection.streams_max:
        connection.opened += 1
        return refuse(connection, frame.hd.stream_id, NGHTTP2_REFUSED_STREAM)
    request = http_request_begin(connection)
    if request == NULL:
        return NGHTTP2_ERR_CALLBACK_FAILURE
    request.stream = frame.hd.stream_id
    nghttp2_session_set_stream_user_data(session, request.stream, request)
    call_by(base, request.since + connection.read_limit)
    return 0


cdef inline void call_by(TcpConnection *base, int64_t time) noexcept nogil:
    if base.due == 0 or time < base.due:
        base.due = time


cdef int refuse(HttpConnection *connection, int32_t stream, uint32_t error) noexcept nogil:
    connection.has_reset = 1
    return NGHTTP2_ERR_CALLBACK_FAILURE if nghttp2_submit_rst_stream(connection.session, NGHTTP2_FLAG_NONE, stream, error) < NGHTTP2_ERR_FATAL else 0


cdef int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length, const uint8_t *value, size_t length,
                   uint8_t flags, void *data) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>data
    cdef HttpRequest *request = request_of(session, frame.hd.stream_id)
    if request == NULL or connection.draining and request.fields > connection.service.fields_max:
        return 0
    request.fields += <uint32_t>(name_length + length) + 32
    if request.fields > connection.service.fields_max:
        terminate(connection, NGHTTP2_ENHANCE_YOUR_CALM)
        return NGHTTP2_ERR_CALLBACK_FAILURE if connection.base.broken else 0
    if frame.headers.cat != NGHTTP2_HCAT_REQUEST:
        return 0
    if name_length == 5 and memcmp(name, b":path", 5) == 0:
        return 0 if http_request_target(request, value, <uint32_t>length) else NGHTTP2_ERR_CALLBACK_FAILURE
    if name_length == 7 and memcmp(name, b":method", 7) == 0:
        request.method = method_of(value, <uint32_t>length)
    elif connection.service.field != NULL:
        connection.service.field(request, name, <uint32_t>name_length, value, <uint32_t>length)
    if trace_may_be(name) and http_reads_traces(&connection.base):
        trace_field(&request.trace, name, <uint32_t>name_length, value, <uint32_t>length)
    return 0


cdef inline uint8_t method_of(const uint8_t *octets, uint32_t length) noexcept nogil:
    if length == 4 and memcmp(octets, b"POST", 4) == 0:
        return METHOD_POST
    if length == 3 and memcmp(octets, b"GET", 3) == 0:
        return METHOD_GET
    return METHOD_HEAD if length == 4 and memcmp(octets, b"HEAD", 4) == 0 else METHOD_OTHER


cdef int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *octets, size_t length, void *data) noexcept nogil:
    """The connection's window is given back once the request is whole: unfinished bodies have no more memory than that."""
    cdef HttpConnection *connection = <HttpConnection *>data
    cdef HttpRequest *request = request_of(session, stream)
    if request == NULL or request.asked:
        nghttp2_session_consume_connection(session, length)
        nghttp2_session_consume_stream(session, stream, length)
        return 0
    if not http_request_body(request, octets, <uint32_t>length, connection.service.body_max):
        return NGHTTP2_ERR_CALLBACK_FAILURE
    request.kept += <uint32_t>length
    nghttp2_session_consume_stream(session, stream, length)
    if request.too_large:
        ask(request)
    return NGHTTP2_ERR_CALLBACK_FAILURE if connection.base.broken else 0


cdef int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>data
    cdef HttpRequest *request
    if frame.hd.type == NGHTTP2_DATA or frame.hd.type == NGHTTP2_HEADERS:
        request = request_of(session, frame.hd.stream_id)
        if request != NULL:
            on_request(request, frame)
    elif frame.hd.type == NGHTTP2_RST_STREAM:
        connection.resets += 1
    elif frame.hd.type == NGHTTP2_SETTINGS and not frame.hd.flags & NGHTTP2_FLAG_ACK:
        allow_idleness(connection)
        if nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE) > connection.window_max:
            terminate(connection, NGHTTP2_FLOW_CONTROL_ERROR)
    elif frame.hd.type == NGHTTP2_GOAWAY:
        finish(&connection.base)
    return NGHTTP2_ERR_CALLBACK_FAILURE if connection.base.broken else 0


cdef void on_request(HttpRequest *request, const nghttp2_frame *frame) noexcept nogil:
    request.ended |= frame.hd.flags & NGHTTP2_FLAG_END_STREAM
    if frame.hd.type == NGHTTP2_HEADERS and not request.asked and request.fields - min(request.fields, request.target_length) > FIELDS_MAX:
        release_window(request)
        request.connection.service.refuse_fields(request)
    elif request.ended:
        ask(request)


cdef void allow_idleness(HttpConnection *connection) noexcept nogil:
    """The client speaks HTTP/2: from here on it may be idle for longer than its first message may take."""
    cdef const ServerTable *server = connection_server(&connection.base)
    if connection.opened == 0 and not connection.greeted and server != NULL:
        connection.base.limit = <int64_t>server.idle_timeout * MILLISECOND
        connection.base.idle_since = connection.base.tcp.base.worker.now
    connection.greeted = 1


cdef void release_window(HttpRequest *request) noexcept nogil:
    if request.kept:
        nghttp2_session_consume_connection(request.connection.session, request.kept)
        request.kept = 0


cdef void ask(HttpRequest *request) noexcept nogil:
    """It is whole, or too large."""
    if request.asked:
        return
    release_window(request)
    if request.timeout > 0:
        call_by(&request.connection.base, request.since + request.timeout)
    request.connection.service.ask(request)


cdef int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *data) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>data
    cdef HttpRequest *request = request_of(session, stream)
    if request != NULL:
        release_window(request)
        http_request_leave(request)
        connection.base.idle_since = connection.base.tcp.base.worker.now
    return 0


# ---- what leaves ----

cdef inline void add(nghttp2_nv *fields, size_t *count, const char *name, size_t name_length, const char *value, size_t length, bint lasting) noexcept nogil:
    """lasting: the value stays until the frame has been written, so that it need not be copied."""
    cdef nghttp2_nv *field = &fields[count[0]]
    field.name = <uint8_t *>name
    field.namelen = name_length
    field.value = <uint8_t *>value
    field.valuelen = length
    field.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | (NGHTTP2_NV_FLAG_NO_COPY_VALUE if lasting else 0)
    count[0] += 1


cdef void respond(HttpRequest *request, const HttpResponse *response) noexcept nogil:
    cdef HttpConnection *connection = request.connection
    cdef TcpConnection *base = &connection.base
    cdef nghttp2_nv fields[6]
    cdef nghttp2_data_provider provider
    cdef char status[8]
    cdef char length[16]
    cdef char kept[CACHE_CONTROL_MAX]
    cdef char code[8]
    cdef size_t count = 0
    if request.answered or base.broken:
        return
    add(fields, &count, b":status", 7, status, snprintf(status, sizeof(status), b"%u", <unsigned>response.status), False)
    if response.content == CONTENT_GRPC:
        add(fields, &count, b"content-type", 12, b"application/grpc", 16, True)
        if response.length == 0:
            add(fields, &count, b"grpc-status", 11, code, snprintf(code, sizeof(code), b"%d", response.grpc_status), False)
            if response.grpc_message != NULL:
                add(fields, &count, b"grpc-message", 12, response.grpc_message, strlen(response.grpc_message), False)
    else:
        add(fields, &count, b"date", 4, http_date(connection.base.tcp.base.worker.id), 29, False)
        if response.content == CONTENT_DNS:
            add(fields, &count, b"content-type", 12, b"application/dns-message", 23, True)
            add(fields, &count, b"cache-control", 13, kept, doh_cache_control(kept, response.is_private, response.max_age), False)
        elif response.content == CONTENT_TEXT:
            add(fields, &count, b"content-type", 12, b"text/plain; charset=utf-8", 25, True)
            add(fields, &count, b"x-content-type-options", 22, b"nosniff", 7, True)
        elif response.status == 405:
            add(fields, &count, b"allow", 5, b"POST", 4, True)
        add(fields, &count, b"content-length", 14, length, snprintf(length, sizeof(length), b"%u", response.length), False)
    request.answered = 1
    request.since = base.tcp.base.worker.now
    if request.method != METHOD_HEAD:
        request.out = response.body
        request.out_length = response.length
        connection.waiting += response.length
    request.has_status = response.content == CONTENT_GRPC
    provider.source.ptr = request
    provider.read_callback = read_body
    if nghttp2_submit_response(connection.session, request.stream, fields, count, &provider if request.out_length else NULL) < NGHTTP2_ERR_FATAL:
        connection_end(base.tcp, base)
        return
    base.unsaid = 1
    worker_flush(base.tcp.base.worker, &base.flush)


cdef ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *out, size_t size, uint32_t *flags, nghttp2_data_source *source,
                       void *data) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>source.ptr
    cdef nghttp2_nv fields[1]
    cdef size_t count = 0
    size = min(size, <size_t>request.out_length)
    memcpy(out, request.out, size)
    request.out += size
    request.out_length -= <uint32_t>size
    request.connection.waiting -= <uint32_t>size
    if request.out_length == 0:
        flags[0] |= NGHTTP2_DATA_FLAG_EOF
        if request.has_status:
            flags[0] |= NGHTTP2_DATA_FLAG_NO_END_STREAM
            add(fields, &count, b"grpc-status", 11, b"0", 1, True)
            if nghttp2_submit_trailer(session, stream, fields, 1) < NGHTTP2_ERR_FATAL:
                return NGHTTP2_ERR_CALLBACK_FAILURE
    return <ssize_t>size


cdef int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *data) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>data
    cdef HttpRequest *request
    if frame.hd.type == NGHTTP2_RST_STREAM:
        connection.has_reset = 1
        connection.resets += frame.rst_stream.error_code != NGHTTP2_NO_ERROR and not connection.draining
    elif frame.hd.flags & NGHTTP2_FLAG_END_STREAM and (frame.hd.type == NGHTTP2_DATA or frame.hd.type == NGHTTP2_HEADERS):
        request = request_of(session, frame.hd.stream_id)
        if request != NULL and not request.ended:      # the request is not complete, and the rest will not be read (8.1)
            return refuse(connection, frame.hd.stream_id, NGHTTP2_NO_ERROR)
    return 0


cdef void fill(TcpConnection *base) noexcept nogil:
    cdef HttpConnection *connection = <HttpConnection *>base
    cdef const uint8_t *octets
    cdef uint8_t *out
    cdef ssize_t size
    while base.output_used - base.output_sent < OUTPUT_PAUSE:
        size = nghttp2_session_mem_send(connection.session, &octets)
        if size > 0:
            out = connection_reserve(base, <uint32_t>size)
            if out == NULL:
                return
            memcpy(out, octets, size)
            base.output_used += <uint32_t>size
        elif size < 0:
            connection_end(base.tcp, base)
            return
        elif connection.waiting > WAITING_MAX and drop_waiting(connection) or leave(connection):
            if base.broken:
                return
        else:
            base.unsaid = 0
            break
    if connection.waiting:
        call_by(base, base.tcp.base.worker.now + base.write_limit)


cdef uint32_t message_size(const uint8_t *octets, uint32_t size) noexcept nogil:
    """Up to the end of a response, and what was said before it; or all of it. The output holds whole frames."""
    cdef uint32_t at = 0
    cdef uint8_t kind, flags
    while size - at >= FRAME_HEAD:
        kind = octets[at + 3]
        flags = octets[at + 4]
        at += FRAME_HEAD + (<uint32_t>octets[at] << 16 | <uint32_t>octets[at + 1] << 8 | octets[at + 2])
        if at >= size:
            break
        if flags & NGHTTP2_FLAG_END_STREAM and (kind == NGHTTP2_DATA or kind == NGHTTP2_HEADERS):
            return at
    return size


cdef bint leave(HttpConnection *connection) noexcept nogil:
    """Nothing is left to be sent. Whether that changes: a connection that accepts no more requests sends GOAWAY after its last response."""
    if is_flooded(connection) and nghttp2_session_want_read(connection.session):
        terminate(connection, NGHTTP2_ENHANCE_YOUR_CALM)
        return True
    if connection.draining and connection.open == 0 and nghttp2_session_want_read(connection.session):
        terminate(connection, NGHTTP2_NO_ERROR)
        return True
    if not nghttp2_session_want_read(connection.session) and not nghttp2_session_want_write(connection.session):
        connection.base.closing = 1
    return False


cdef bint drop_waiting(HttpConnection *connection) noexcept nogil:
    """Resets the newest streams whose replies wait for the client's windows."""
    cdef HttpRequest *request = http_request_of(list_last(&connection.all))
    cdef uint32_t waiting = connection.waiting
    while request != NULL and waiting > WAITING_MAX:
        if request.out_length:
            waiting -= request.out_length
            if refuse(connection, request.stream, NGHTTP2_ENHANCE_YOUR_CALM) < 0:
                connection_end(connection.base.tcp, &connection.base)
                return True
        request = http_request_of(list_previous(&connection.all, &request.node))
    return True


# ---- time ----

cdef int64_t deadline_of(const HttpRequest *request) noexcept nogil:
    """ns; 0: none."""
    if request.gone:
        return 0
    if not request.asked:
        return request.since + request.connection.read_limit
    if request.answered:
        return request.since + request.connection.base.write_limit
    return request.since + request.timeout if request.timeout > 0 else 0


cdef void expire(TcpConnection *base) noexcept nogil:
    """Requests that are not whole in time, and responses that are not taken, are reset; a call whose deadline is over gets that status."""
    cdef HttpConnection *connection = <HttpConnection *>base
    cdef HttpRequest *request
    cdef HttpRequest *following = http_request_of(list_first(&connection.all))
    cdef int64_t deadline, now = base.tcp.base.worker.now
    base.due = 0
    while following != NULL and not base.broken:
        request = following
        following = http_request_of(list_next(&connection.all, &request.node))
        deadline = deadline_of(request)
        if deadline > now:
            call_by(base, deadline)
        elif deadline and request.asked and not request.answered:
            connection.service.expire(request)
        elif deadline:
            base.unsaid = 1
            if refuse(connection, request.stream, NGHTTP2_CANCEL) < 0:
                connection_end(base.tcp, base)


http2_protocol.size = sizeof(HttpConnection)
http2_protocol.outstanding_max = STREAMS_UNLIMITED
http2_protocol.begin = begin
http2_protocol.lingers = 1
http2_protocol.wanted = wanted
http2_protocol.input = read_frames
http2_protocol.fill = fill
http2_protocol.message_size = message_size
http2_protocol.finish = finish
http2_protocol.expire = expire
http2_protocol.free = end

if nghttp2_session_callbacks_new(&callbacks) != 0 or nghttp2_option_new(&options) != 0:
    raise MemoryError
nghttp2_option_set_no_auto_window_update(options, 1)
nghttp2_option_set_no_closed_streams(options, 1)
nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame)
nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers)
nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header)
nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data)
nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame)
nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent)
nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close)
