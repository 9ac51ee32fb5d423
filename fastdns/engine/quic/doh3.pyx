"""DNS over HTTP/3. The contract is in engine/quic/doh3.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcmp, memset, strlen
from fastdns._mux cimport query_write
from fastdns._wire cimport MESSAGE_MAX
from fastdns.engine.http.date cimport http_date
from fastdns.engine.http.message cimport (BODY_MAX, CACHE_CONTROL_MAX, doh_cache_control, doh_decode_message, doh_find_message, doh_is_path,
                                          doh_is_private, doh_max_age)
from fastdns.engine.http.trace cimport trace_field, trace_may_be
from fastdns.engine.quic.connection cimport connection_close, connection_count, connection_reads_traces
from fastdns.engine.quic.quiche cimport (ERROR_DONE, ERROR_H3_BLOCKED, H3_DATA, H3_FINISHED, H3_HEADERS, H3_RESET, SHUTDOWN_READ, SHUTDOWN_WRITE, quic_field,
                                         quiche, quiche_h3_event, quiche_stream_iter)
from fastdns.engine.quic.state cimport KEPT_MAX, RESETS_MAX, STAGE_SERVED, Offer, QuicConnection, QuicStream, QuicWorker
from fastdns.engine.quic.stream cimport (stream_arena, stream_arena_keep, stream_ask, stream_cancel, stream_find, stream_hold, stream_input_over, stream_keep,
                                         stream_new, stream_read_begin, stream_read_end, stream_release, stream_taken)
from fastdns.system.atomic cimport atomic_load_pointer
from fastdns.telemetry.log_line cimport LOG_DEBUG, log_put
from fastdns.telemetry.log_writer cimport log_wants_debug
from fastdns.walk.query cimport TRANSPORT_HTTPS3, Query
from fastdns.walk.trace cimport TraceContext

cdef enum RequestMethod:
    METHOD_OTHER
    METHOD_GET
    METHOD_POST

cdef enum:                          # RFC 9114 8.1
    H3_NO_ERROR = 0x100
    H3_EXCESSIVE_LOAD = 0x107
    H3_REQUEST_CANCELLED = 0x10C
    H3_REQUEST_INCOMPLETE = 0x10D
    H3_MESSAGE_ERROR = 0x10E

cdef enum:
    NOT_A_REQUEST = 3               # bits of the ids of other streams
    READ_SIZE = 16384                    # octets of a body that are read at once
    FIELD_OVERHEAD = 32

cdef struct Fields:                 # of a request; pointers are quiche's, until its event is freed
    uint8_t malformed               # RFC 9114 4.1.2
    uint8_t regular                 # a field that is no pseudo-header has come
    uint8_t connect
    uint32_t pseudo                 # which have come
    uint32_t size
    const uint8_t *method
    uint32_t method_length
    const uint8_t *path
    uint32_t path_length
    int64_t content_length          # -1: unknown
    TraceContext *trace             # NULL: nobody wants it


# ---- a connection ----

cdef bint begin(QuicConnection *connection) noexcept nogil:
    cdef Offer *offer = <Offer *>atomic_load_pointer(<void **>&connection.socket.group.offer)
    connection.http = quiche.h3_new(connection.quic, offer.http)
    return connection.http != NULL


cdef void end(QuicConnection *connection) noexcept nogil:
    if connection.http != NULL:
        quiche.h3_free(connection.http)
        connection.http = NULL


cdef void input(QuicConnection *connection) noexcept nogil:
    cdef quiche_h3_event *event
    cdef int64_t id
    note_streams(connection)
    while connection.stage == STAGE_SERVED and connection.kept < KEPT_MAX:
        id = quiche.h3_poll(connection.http, connection.quic, &event)
        if id < 0:                  # nothing more, or quiche has closed the connection
            break
        on_event(connection, <uint64_t>id, event)
        quiche.h3_event_free(event)
    if connection.headless > HEADLESS_MAX:
        connection_close(connection, H3_EXCESSIVE_LOAD, b"")


cdef void note_streams(QuicConnection *connection) noexcept nogil:
    """Requests have a deadline from their first octet on, of which quiche says nothing before their fields are complete."""
    cdef quiche_stream_iter *streams = quiche.readable(connection.quic)
    cdef QuicStream *stream
    cdef uint64_t id
    while quiche.stream_iter_next(streams, &id):
        if id & NOT_A_REQUEST or stream_find(connection, id) != NULL:
            continue
        stream = stream_new(connection, id, True)
        if stream == NULL:
            connection_close(connection, H3_EXCESSIVE_LOAD, b"")
            break
        stream_read_begin(stream)
        stream.headless = 1
        connection.headless += 1
    quiche.stream_iter_free(streams)


cdef void on_event(QuicConnection *connection, uint64_t id, quiche_h3_event *event) noexcept nogil:
    cdef QuicStream *stream = stream_find(connection, id)
    cdef int kind = quiche.h3_event_type(event)
    if id & NOT_A_REQUEST:
        return
    if stream == NULL:                  # nothing of it is wanted any more
        if kind == H3_DATA:
            quiche.stream_shutdown(connection.quic, id, SHUTDOWN_READ, H3_NO_ERROR)
    elif kind == H3_HEADERS and stream.headless:
        on_head(stream, event)
    elif kind == H3_DATA:
        on_body(stream)
    elif kind == H3_FINISHED and stream.headless:
        abort(stream, H3_REQUEST_INCOMPLETE)
    elif kind == H3_FINISHED:
        on_end(stream)
    elif kind == H3_RESET:
        quiche.stream_shutdown(connection.quic, id, SHUTDOWN_WRITE, H3_REQUEST_CANCELLED)
        count_reset(connection)
        cancel(stream)


cdef void has_head(QuicStream *stream) noexcept nogil:
    if stream.headless:
        stream.headless = 0
        stream.connection.headless -= 1


cdef void over(QuicStream *stream) noexcept nogil:
    """Nothing more of the request will come."""
    has_head(stream)
    stream_input_over(stream)
    stream_release(stream)


cdef void cancel(QuicStream *stream) noexcept nogil:
    has_head(stream)
    stream_cancel(stream)


cdef void count_reset(QuicConnection *connection) noexcept nogil:
    """Requests that are given up cost what they cost all the same."""
    connection.resets += 1
    if connection.resets > RESETS_MAX:
        connection_close(connection, H3_EXCESSIVE_LOAD, b"too many resets")


cdef void abort(QuicStream *stream, uint64_t code) noexcept nogil:
    """Neither reads nor answers a request any more."""
    cdef QuicConnection *connection = stream.connection
    quiche.stream_shutdown(connection.quic, stream.id, SHUTDOWN_READ, code)
    quiche.stream_shutdown(connection.quic, stream.id, SHUTDOWN_WRITE, code)
    count_reset(connection)
    cancel(stream)


cdef void expire(QuicStream *stream) noexcept nogil:
    abort(stream, H3_REQUEST_INCOMPLETE)


# ---- a request ----

cdef inline bint is_named(const uint8_t *name, size_t length, const char *wanted) noexcept nogil:
    return length == strlen(wanted) and memcmp(name, wanted, length) == 0


cdef int take_pseudo(Fields *fields, uint8_t *name, size_t length, uint8_t *value, size_t value_length) noexcept nogil:
    cdef uint32_t bit
    if is_named(name, length, b":method"):
        bit = 1
        fields.method = value
        fields.method_length = <uint32_t>value_length
        fields.connect = is_named(value, value_length, b"CONNECT")
    elif is_named(name, length, b":path"):
        bit = 2
        fields.path = value
        fields.path_length = <uint32_t>value_length
    elif is_named(name, length, b":scheme"):
        bit = 4
    elif is_named(name, length, b":authority"):
        bit = 8
    else:
        bit = fields.pseudo             # none that there is
    if fields.regular or fields.pseudo & bit or bit == 0:
        fields.malformed = 1
    fields.pseudo |= bit
    return 0


cdef int take_field(uint8_t *name, size_t length, uint8_t *value, size_t value_length, void *argument) noexcept nogil:
    """RFC 9114 4.2, 4.3."""
    cdef Fields *fields = <Fields *>argument
    cdef size_t i
    fields.size += <uint32_t>(length + value_length + FIELD_OVERHEAD)
    for i in range(value_length):
        if value[i] == 0 or value[i] == c'\r' or value[i] == c'\n':
            fields.malformed = 1
    if value_length and (value[0] == c' ' or value[0] == c'\t' or value[value_length - 1] == c' ' or value[value_length - 1] == c'\t'):
        fields.malformed = 1
    if length and name[0] == c':':
        return take_pseudo(fields, name, length, value, value_length)
    fields.regular = 1
    for i in range(length):
        if name[i] <= c' ' or name[i] >= 0x7F or name[i] == c':' or c'A' <= name[i] <= c'Z':
            fields.malformed = 1
    if length == 0 or is_named(name, length, b"connection") or is_named(name, length, b"transfer-encoding"):
        fields.malformed = 1
    if is_named(name, length, b"content-length"):
        fields.malformed |= value_length == 0 or value_length > 18 or fields.content_length >= 0
        fields.content_length = 0
        for i in range(min(value_length, <size_t>18)):
            if not c'0' <= value[i] <= c'9':
                fields.malformed = 1
            fields.content_length = 10 * fields.content_length + (value[i] & 15)
    if fields.trace != NULL and length and trace_may_be(name):
        trace_field(fields.trace, name, <uint32_t>length, value, <uint32_t>value_length)
    return 0


cdef void on_head(QuicStream *stream, quiche_h3_event *event) noexcept nogil:
    cdef bint more = quiche.h3_event_has_more(event)
    cdef Fields fields
    memset(&fields, 0, sizeof(fields))
    fields.content_length = -1
    if connection_reads_traces(stream.connection):
        fields.trace = &stream.trace
    quiche.h3_event_fields(event, take_field, &fields)
    has_head(stream)
    if fields.malformed or not fields.pseudo & 1 or (not fields.connect and (fields.pseudo & 6 != 6 or fields.path_length == 0)):
        abort(stream, H3_MESSAGE_ERROR)
        return
    stream.method = <uint8_t>request_method(fields.method, fields.method_length)
    stream.is_head = is_named(fields.method, fields.method_length, b"HEAD")
    stream.content_length = fields.content_length
    if fields.size > FIELDS_MAX:
        respond_text(stream, 431, DOH_431, b"Request Header Fields Too Large\n")
        stop_reading(stream, more, H3_EXCESSIVE_LOAD)
    elif fields.path == NULL or not doh_is_path(fields.path, path_end(fields.path, fields.path_length)):
        respond_text(stream, 404, DOH_404, b"\n")
        stop_reading(stream, more, H3_NO_ERROR)
    elif stream.method == METHOD_POST:
        if fields.content_length > BODY_MAX:
            refuse(stream, b"http: request body too large")
            stop_reading(stream, more, H3_NO_ERROR)
        # else the rest is awaited, be it the end alone
    elif stream.method == METHOD_GET:
        stream_read_end(stream)
        ask_encoded(stream, fields.path, fields.path_length)
    else:
        refuse(stream, b"method not allowed")
        stop_reading(stream, more, H3_NO_ERROR)


cdef RequestMethod request_method(const uint8_t *octets, uint32_t length) noexcept nogil:
    if length == 3 and memcmp(octets, <const char *>b"GET", 3) == 0:
        return METHOD_GET
    if length == 4 and memcmp(octets, <const char *>b"POST", 4) == 0:
        return METHOD_POST
    return METHOD_OTHER


cdef uint32_t path_end(const uint8_t *target, uint32_t length) noexcept nogil:
    cdef const uint8_t *mark = <const uint8_t *>memchr(target, c'?', length)
    return <uint32_t>(mark - target) if mark != NULL else length


cdef void ask_encoded(QuicStream *stream, const uint8_t *path, uint32_t length) noexcept nogil:
    cdef QuicWorker *owner = stream.connection.owner
    cdef uint8_t *out = stream_arena(owner, MESSAGE_MAX)
    cdef const char *wrong = b""
    cdef uint32_t query = min(path_end(path, length) + 1, length), encoded_length = 0
    cdef const uint8_t *encoded = NULL
    cdef int size = -1
    if doh_find_message(path + query, length - query, &encoded, &encoded_length, &wrong):
        size = doh_decode_message(encoded, encoded_length, out, &wrong)
    if size < 0:
        refuse(stream, wrong)
        return
    stream_arena_keep(owner, <uint32_t>size)
    stream_ask(stream, out, <uint32_t>size)


cdef void on_body(QuicStream *stream) noexcept nogil:
    """What has come of a body. That of a request which is answered is passed over."""
    cdef QuicConnection *connection = stream.connection
    cdef uint8_t *octets
    cdef ssize_t n
    while True:
        octets = stream_arena(connection.owner, READ_SIZE)
        n = quiche.h3_receive_body(connection.http, connection.quic, stream.id, octets, READ_SIZE)
        if n <= 0:
            return
        if not stream.reading:
            continue
        if stream_keep(stream, octets, <uint32_t>n, BODY_MAX + READ_SIZE) < 0:
            connection_close(connection, H3_EXCESSIVE_LOAD, b"")
            return
        if stream.input_used > BODY_MAX:
            stream_read_end(stream)
            refuse(stream, b"http: request body too large")
            stop_reading(stream, True, H3_NO_ERROR)
            return


cdef void on_end(QuicStream *stream) noexcept nogil:
    """A POST is whole, or the end of a request that was answered before has come."""
    cdef bint asks = stream.reading
    if asks and stream.content_length >= 0 and stream.content_length != stream.input_used:
        abort(stream, H3_MESSAGE_ERROR)
        return
    stream_input_over(stream)
    if asks:
        stream_ask(stream, stream.input, min(stream.input_used, <uint32_t>MESSAGE_MAX))
    else:
        stream_release(stream)


cdef void stop_reading(QuicStream *stream, bint more, uint64_t code) noexcept nogil:
    """The request has its response (RFC 9114 4.1): what comes of it besides is not wanted. Its end is, where it has come already."""
    stream_read_end(stream)
    if more and stream.in_bucket:
        quiche.stream_shutdown(stream.connection.quic, stream.id, SHUTDOWN_READ, code)
        count_reset(stream.connection)
        over(stream)


# ---- its response ----

cdef inline void put(quic_field *field, const char *name, const char *value) noexcept nogil:
    field.name = <const uint8_t *>name
    field.name_length = strlen(name)
    field.value = <const uint8_t *>value
    field.value_length = strlen(value)


cdef int send_head(QuicStream *stream, uint32_t length, bint end) noexcept nogil:
    """quiche's status."""
    cdef QuicConnection *connection = stream.connection
    cdef quic_field fields[6]
    cdef char status[8]
    cdef char size[16]
    cdef char kept[CACHE_CONTROL_MAX]
    snprintf(status, sizeof(status), b"%u", <unsigned int>stream.status)
    snprintf(size, sizeof(size), b"%u", <unsigned int>length)
    put(&fields[0], b":status", status)
    if stream.status == 200:
        doh_cache_control(kept, stream.is_private, stream.max_age)
        put(&fields[1], b"content-type", b"application/dns-message")
        put(&fields[2], b"cache-control", kept)
    else:
        put(&fields[1], b"content-type", b"text/plain; charset=utf-8")
        put(&fields[2], b"x-content-type-options", b"nosniff")
    put(&fields[3], b"content-length", size)
    put(&fields[4], b"date", http_date(connection.owner.base.worker.id))
    return quiche.h3_respond(connection.http, connection.quic, stream.id, fields, 5, end)


cdef bint send_now(QuicStream *stream, const uint8_t *body, uint32_t length, uint32_t *sent) noexcept nogil:
    """As much as goes; False: nothing of the response will ever go, the client does not want it."""
    cdef QuicConnection *connection = stream.connection
    cdef bint bodiless = length == 0 or stream.is_head
    cdef ssize_t n
    sent[0] = 0
    if stream.status:
        n = send_head(stream, length, bodiless)
        if n == ERROR_H3_BLOCKED or n == ERROR_DONE:
            return True
        if n < 0:
            return False
        stream.status = 0
    if bodiless:
        sent[0] = length
        return True
    n = quiche.h3_send_body(connection.http, connection.quic, stream.id, body, length, True)
    if n == ERROR_DONE or n == ERROR_H3_BLOCKED:
        return True
    if n < 0:
        return False
    sent[0] = <uint32_t>n
    return True


cdef void respond(QuicStream *stream, uint16_t status, uint32_t counted, const uint8_t *body, uint32_t length) noexcept nogil:
    cdef QuicConnection *connection = stream.connection
    cdef uint32_t sent
    stream.status = status
    connection_count(connection, counted)
    if send_now(stream, body, length, &sent) and (stream.status or sent < length) and not stream_hold(stream, body + sent, length - sent):
        connection_close(connection, H3_EXCESSIVE_LOAD, b"replies are not taken")


cdef void respond_text(QuicStream *stream, uint16_t status, uint32_t counted, const char *text) noexcept nogil:
    respond(stream, status, counted, <const uint8_t *>text, <uint32_t>strlen(text))


cdef void refuse(QuicStream *stream, const char *reason) noexcept nogil:
    """The reason is for the log alone."""
    cdef char line[128]
    cdef int length
    if log_wants_debug():
        length = snprintf(line, sizeof(line), b"DoH3 request could not be parsed: %s", reason)
        log_put(stream.connection.owner.base.worker.id, LOG_DEBUG, NULL, line, <uint32_t>length)
    respond_text(stream, 400, DOH_400, b"invalid request\n")


cdef void output(QuicStream *stream) noexcept nogil:
    """The rest of a response."""
    cdef uint32_t sent
    if not send_now(stream, stream.output + stream.output_sent, stream.output_size - stream.output_sent, &sent):
        stream.status = 0
        sent = stream.output_size - stream.output_sent
    if stream.status == 0:
        stream_taken(stream, sent)
        stream_release(stream)


# ---- queries that are over ----

cdef void send(QuicStream *stream, Query *q) noexcept nogil:
    cdef uint8_t *out = stream.connection.owner.reply
    stream.max_age = doh_max_age(q)
    stream.is_private = doh_is_private(q)
    respond(stream, 200, DOH_200, out, query_write(q, out))


cdef void reject(QuicStream *stream) noexcept nogil:
    refuse(stream, b"dns request rejected")


cdef void no_reply(QuicStream *stream) noexcept nogil:
    respond_text(stream, 500, DOH_500, b"No response\n")

doh3_protocol.transport = TRANSPORT_HTTPS3
doh3_protocol.no_error = H3_NO_ERROR
doh3_protocol.excessive_load = H3_EXCESSIVE_LOAD
doh3_protocol.begin = begin
doh3_protocol.input = input
doh3_protocol.expire = expire
doh3_protocol.output = output
doh3_protocol.end = end
doh3_protocol.send = send
doh3_protocol.reject = reject
doh3_protocol.unserved = no_reply
doh3_protocol.dropped = no_reply
