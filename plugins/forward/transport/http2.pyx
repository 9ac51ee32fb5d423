"""HTTP/2 to an upstream. The contract is in transport/http2.pxd.

libnghttp2 keeps requests back while the server allows no more streams, and closes those that a GOAWAY or a refusal leaves out: they are asked again.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, strlen
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport worker_flush
from fastdns.plugins.forward.transport.excess cimport excess_end
from fastdns.plugins.forward.transport.framing cimport framing_reserve
from fastdns.api.http cimport (FRAME_DATA, frame_length, frame_weight, frames_are_idle, frames_before, frames_next, NGHTTP2_CANCEL, NGHTTP2_DATA,
                               NGHTTP2_DATA_FLAG_EOF, NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE, NGHTTP2_FLAG_END_STREAM,
                               NGHTTP2_FLAG_NONE, NGHTTP2_GOAWAY, NGHTTP2_HEADERS, NGHTTP2_NV_FLAG_NO_COPY_NAME, NGHTTP2_NV_FLAG_NO_COPY_VALUE,
                               NGHTTP2_REFUSED_STREAM, NGHTTP2_SETTINGS_ENABLE_PUSH, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, nghttp2_data_provider,
                               nghttp2_data_source, nghttp2_frame, nghttp2_http2_strerror, nghttp2_nv, nghttp2_option, nghttp2_option_new,
                               nghttp2_option_set_no_closed_streams, nghttp2_option_set_peer_max_concurrent_streams, nghttp2_session,
                               nghttp2_session_callbacks, nghttp2_session_callbacks_new, nghttp2_session_callbacks_set_on_data_chunk_recv_callback,
                               nghttp2_session_callbacks_set_on_frame_recv_callback, nghttp2_session_callbacks_set_on_header_callback,
                               nghttp2_session_callbacks_set_on_stream_close_callback, nghttp2_session_client_new2, nghttp2_session_del,
                               nghttp2_session_get_stream_user_data, nghttp2_session_mem_recv, nghttp2_session_mem_send,
                               nghttp2_session_set_local_window_size, nghttp2_session_want_read, nghttp2_session_want_write, nghttp2_settings_entry,
                               nghttp2_strerror, nghttp2_submit_request, nghttp2_submit_rst_stream, nghttp2_submit_settings)
from fastdns.api.memory cimport list_append, list_first, list_is_empty, list_remove
from fastdns.plugins.forward._upstream cimport (CONNECTION_DEPTH, EXCESS_FRAMES, Connection, Exchange, HTTP_BODY_INLINE, HTTP_BODY_MAX, Stock, stocks,
                                                stream_of)

cdef enum:
    WINDOW = 1048576                # octets of replies of all streams that may be under way to us
    FIELDS_MAX = 16384              # octets of a response's fields
    OUT_FULL = 16384                # octets that are sent at once

cdef nghttp2_session_callbacks *callbacks
cdef nghttp2_option *options


# ---- requests ----

cdef nghttp2_nv http2_field(const char *name, const char *value) noexcept nogil:
    cdef nghttp2_nv field
    field.name = <uint8_t *>name
    field.namelen = strlen(name)
    field.value = <uint8_t *>value
    field.valuelen = strlen(value)
    field.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE
    return field


cdef ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t size, uint32_t *flags, nghttp2_data_source *source,
                       void *data) noexcept nogil:
    """What of prefix and message has not left yet."""
    cdef HttpStream *stream = <HttpStream *>source.ptr
    cdef Exchange *e = stream.exchange
    cdef uint32_t used = 0, part, at
    if e == NULL:
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE        # it is reset, whatever was said of it before
    if stream.sent < stream.prefix_size:
        used = min(stream.prefix_size - stream.sent, <uint32_t>size)
        memcpy(out, stream.prefix + stream.sent, used)
    if stream.sent + used >= stream.prefix_size:
        at = stream.sent + used - stream.prefix_size
        part = min(e.size - at, <uint32_t>size - used)
        memcpy(out + used, e.request + at, part)
        used += part
    stream.sent += used
    if stream.sent == stream.prefix_size + e.size:
        flags[0] |= NGHTTP2_DATA_FLAG_EOF
    return used


cdef int http2_submit(HttpStream *stream, const nghttp2_nv *fields, size_t count, bint body) noexcept nogil:
    cdef nghttp2_data_provider provider
    provider.source.ptr = stream
    provider.read_callback = read_body
    stream.id = nghttp2_submit_request(stream.connection.session, NULL, fields, count, &provider if body else NULL, stream)
    return -1 if stream.id < 0 else 0


cdef int write_request(Connection *c, Exchange *e) noexcept nogil:
    cdef HttpStream *stream = take_stream(c)
    if stream != NULL:
        stream.exchange = e
        e.stream = stream
        if c.peer.upstream.service.ask(stream, e) == 0:
            return 0
        e.stream = NULL
        give_stream(stream)
    c.retired = 1                   # out of memory, or of numbers for streams
    snprintf(e.error, ERROR_MAX, b"http2: no more requests on this connection")
    return -1


cdef HttpStream *take_stream(Connection *c) noexcept nogil:
    cdef Stock *stock = stocks[c.peer.share.worker.id]
    cdef HttpStream *stream = stock.free_streams
    if stream != NULL:
        stock.free_streams = stream.next_free
    else:
        stream = <HttpStream *>malloc(sizeof(HttpStream))
        if stream == NULL:
            return NULL
    stream.connection = c
    stream.exchange = NULL
    stream.status = 0
    stream.grpc_status = -1
    stream.ended = 0
    stream.fields = 0
    stream.prefix_size = 0
    stream.sent = 0
    stream.body = stream.inner
    stream.body_size = HTTP_BODY_INLINE
    stream.body_used = 0
    stream.message[0] = 0
    list_append(&c.streams, &stream.node)
    return stream


cdef void give_stream(HttpStream *stream) noexcept nogil:
    cdef Stock *stock = stocks[stream.connection.peer.share.worker.id]
    list_remove(&stream.node)
    if stream.body != stream.inner:
        free(stream.body)
    stream.next_free = stock.free_streams
    stock.free_streams = stream


cdef void forget_request(Connection *c, Exchange *e) noexcept nogil:
    cdef HttpStream *stream = e.stream
    if stream == NULL:
        return
    e.stream = NULL
    stream.exchange = NULL
    if not stream.ended:
        nghttp2_submit_rst_stream(c.session, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL)
        worker_flush(c.peer.share.worker, &c.flush)


# ---- what libnghttp2 calls ----

cdef bint same(const uint8_t *name, size_t length, const char *wanted) noexcept nogil:
    cdef size_t i
    if strlen(wanted) != length:
        return False
    for i in range(length):
        if name[i] != <uint8_t>wanted[i]:
            return False
    return True


cdef int on_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length, const uint8_t *value, size_t length,
                  uint8_t flags, void *data) noexcept nogil:
    cdef HttpStream *stream = <HttpStream *>nghttp2_session_get_stream_user_data(session, frame.hd.stream_id)
    if stream == NULL:
        return 0
    stream.fields += <uint32_t>(name_length + length + 32)
    if stream.fields > FIELDS_MAX:
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
    if same(name, name_length, b":status"):
        stream.status = <uint16_t>number_of(value, length)
    elif same(name, name_length, b"grpc-status"):
        stream.grpc_status = number_of(value, length)
    elif same(name, name_length, b"grpc-message"):
        length = min(length, sizeof(stream.message) - 1)
        memcpy(stream.message, value, length)
        stream.message[length] = 0
    return 0


cdef int32_t number_of(const uint8_t *octets, size_t length) noexcept nogil:
    """What is no number counts as gRPC's status Unknown."""
    cdef int32_t number = 0
    cdef size_t i
    if length == 0 or length > 4:
        return 2
    for i in range(length):
        if not c'0' <= octets[i] <= c'9':
            return 2
        number = number * 10 + octets[i] - c'0'
    return number


cdef int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *octets, size_t length, void *data) noexcept nogil:
    cdef HttpStream *stream = <HttpStream *>nghttp2_session_get_stream_user_data(session, id)
    cdef uint32_t size
    cdef uint8_t *body
    if stream == NULL or stream.exchange == NULL:
        return 0
    if stream.body_used + length > HTTP_BODY_MAX:
        fail_stream(stream, b"body too long")
        return 0
    if stream.body_used + length > stream.body_size:
        size = min(2 * <uint32_t>(stream.body_used + length), <uint32_t>HTTP_BODY_MAX)
        body = <uint8_t *>realloc(NULL if stream.body == stream.inner else stream.body, size)
        if body == NULL:
            fail_stream(stream, b"out of memory")
            return 0
        if stream.body == stream.inner:
            memcpy(body, stream.inner, stream.body_used)
        stream.body = body
        stream.body_size = size
    memcpy(stream.body + stream.body_used, octets, length)
    stream.body_used += <uint32_t>length
    return 0


cdef int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data) noexcept nogil:
    cdef Connection *c = <Connection *>data
    cdef HttpStream *stream
    if frame.hd.type == NGHTTP2_GOAWAY:
        c.retired = 1
    elif (frame.hd.type == NGHTTP2_DATA or frame.hd.type == NGHTTP2_HEADERS) and frame.hd.flags & NGHTTP2_FLAG_END_STREAM:
        stream = <HttpStream *>nghttp2_session_get_stream_user_data(session, frame.hd.stream_id)
        if stream != NULL:
            stream.ended = 1
            if stream.exchange != NULL:
                c.peer.upstream.service.replied(stream, stream.exchange)
    return 0


cdef int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *data) noexcept nogil:
    cdef HttpStream *stream = <HttpStream *>nghttp2_session_get_stream_user_data(session, id)
    cdef Exchange *e
    cdef char text[96]
    if stream == NULL:
        return 0
    e = stream.exchange
    stream.ended = 1
    if e != NULL and error == NGHTTP2_REFUSED_STREAM and not e.refused:
        e.refused = 1
        e.share.again(e)
    elif e != NULL and error == NGHTTP2_REFUSED_STREAM:
        fail_stream(stream, b"the server refuses calls")
    elif e != NULL:
        snprintf(text, sizeof(text), b"stream terminated by RST_STREAM with error code: %s", nghttp2_http2_strerror(error))
        fail_stream(stream, text)
    give_stream(stream)
    return 0


cdef void fail_stream(HttpStream *stream, const char *error) noexcept nogil:
    stream.connection.peer.upstream.service.broken(stream, stream.exchange, error)


# ---- the framing ----

cdef bint begin_session(Connection *c) noexcept nogil:
    cdef nghttp2_settings_entry settings[2]
    if nghttp2_session_client_new2(&c.session, callbacks, c, options) != 0:
        c.session = NULL
        return False
    settings[0].settings_id = NGHTTP2_SETTINGS_ENABLE_PUSH
    settings[0].value = 0
    settings[1].settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE
    settings[1].value = FIELDS_MAX
    return (nghttp2_submit_settings(c.session, NGHTTP2_FLAG_NONE, settings, 2) == 0
            and nghttp2_session_set_local_window_size(c.session, NGHTTP2_FLAG_NONE, 0, WINDOW) == 0)


cdef int64_t read_frames(Connection *c, uint8_t *octets, uint32_t size) noexcept nogil:
    cdef uint32_t allowed = scan_frames(c, octets, size)
    cdef ssize_t n = nghttp2_session_mem_recv(c.session, octets, allowed)
    if allowed < size:                      # the library's own limits may have ended it meanwhile
        excess_end(c, EXCESS_FRAMES, b"http2: it sends frames that are no part of a reply")
        return -1
    if n < 0:
        c.failure = nghttp2_strerror(<int>n)
        return -1
    if nghttp2_session_want_write(c.session) or not nghttp2_session_want_read(c.session):
        worker_flush(c.peer.share.worker, &c.flush)
    return size


cdef uint32_t scan_frames(Connection *c, const uint8_t *octets, uint32_t size) noexcept nogil:
    """Weighs all frames before the library reads them; a whole response has a weight of three. Returns the octets that the library may have."""
    cdef uint32_t at = 0
    while frames_next(&c.frames, octets, size, &at):
        c.frames.idle += frame_weight(c.frames.head)
        if c.frames.head[3] == FRAME_DATA:
            c.content += frame_length(c.frames.head)
        if frames_are_idle(&c.frames, c.asked) or c.content > WINDOW + <uint64_t>HTTP_BODY_MAX * c.asked:
            return frames_before(at)
    return size


cdef int fill_frames(Connection *c) noexcept nogil:
    cdef const uint8_t *octets
    cdef ssize_t n = 1
    c.busy += 1                     # what libnghttp2 calls must not close the connection under it
    while c.out_used < OUT_FULL:
        n = nghttp2_session_mem_send(c.session, &octets)
        if n <= 0:
            break
        if not framing_reserve(c, <uint32_t>n):
            n = -1
            break
        memcpy(c.out + c.out_used, octets, n)
        c.out_used += <uint32_t>n
    c.busy -= 1
    if n < 0:
        c.failure = b"http2: out of memory"
        return -1
    if c.out_used == 0 and not nghttp2_session_want_read(c.session) and not nghttp2_session_want_write(c.session):
        c.failure = b"http2: connection error"
        return -1
    return 0


cdef void free_session(Connection *c) noexcept nogil:
    cdef HttpStream *stream
    if c.session != NULL:
        nghttp2_session_del(c.session)
        c.session = NULL
    while not list_is_empty(&c.streams):
        stream = stream_of(list_first(&c.streams))
        if stream.exchange != NULL:
            stream.exchange.stream = NULL
        give_stream(stream)


cdef int prepare() except -1:
    """What all sessions share. Until a server's SETTINGS are there it gets one request: nobody knows how many it takes."""
    if nghttp2_session_callbacks_new(&callbacks) != 0 or nghttp2_option_new(&options) != 0:
        raise MemoryError
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_field)
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data)
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame)
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close)
    nghttp2_option_set_peer_max_concurrent_streams(options, 1)
    nghttp2_option_set_no_closed_streams(options, 1)
    return 0


cdef Framing frames
frames.write = write_request
frames.read = read_frames
frames.depth = CONNECTION_DEPTH
frames.independent = 1
frames.begin = begin_session
frames.fill = fill_frames
frames.forget = forget_request
frames.free = free_session
HTTP2_FRAMING = &frames
prepare()
