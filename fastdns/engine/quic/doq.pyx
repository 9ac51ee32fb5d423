"""DNS over QUIC. The contract is in engine/quic/doq.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastdns._mux cimport query_write
from fastdns._wire cimport MESSAGE_MAX, load16, store16
from fastdns.engine.quic.connection cimport connection_close, connection_count
from fastdns.engine.quic.quiche cimport ERROR_DONE, ERROR_STREAM_RESET, SHUTDOWN_READ, SHUTDOWN_WRITE, c_bool, quiche
from fastdns.engine.quic.state cimport KEPT_MAX, STAGE_SERVED, QuicConnection, QuicStream, QuicWorker
from fastdns.engine.quic.stream cimport (stream_arena, stream_arena_keep, stream_ask, stream_cancel, stream_find, stream_hold, stream_input_over, stream_keep,
                                         stream_new, stream_read_begin, stream_read_end, stream_release, stream_taken)
from fastdns.walk.query cimport TRANSPORT_QUIC, Query

cdef enum:
    NO_ERROR = 0                        # RFC 9250 4.3
    PROTOCOL_ERROR = 2
    REQUEST_CANCELLED = 3
    EXCESSIVE_LOAD = 4
    FRAME_MAX = MESSAGE_MAX + 2              # octets of the longest message with its length
    UNIDIRECTIONAL = 2                  # bit of a stream's id


cdef bint begin(QuicConnection *connection) noexcept nogil:
    return True


cdef void end(QuicConnection *connection) noexcept nogil:
    pass


cdef void fail(QuicConnection *connection) noexcept nogil:
    """RFC 9250 4.3.3: an error of the protocol ends the connection."""
    if connection.stage == STAGE_SERVED:
        connection_count(connection, DOQ_PROTOCOL_ERROR)
        connection_close(connection, PROTOCOL_ERROR, b"")


cdef void expire(QuicStream *stream) noexcept nogil:
    fail(stream.connection)


# ---- queries ----

cdef void input(QuicConnection *connection) noexcept nogil:
    """Reads streams, but keeps no more than so much of queries that are not complete: the client then may send no more."""
    cdef int64_t id
    while connection.stage == STAGE_SERVED and connection.kept < KEPT_MAX:
        id = quiche.readable_next(connection.quic)
        if id < 0:
            return
        read(connection, <uint64_t>id)


cdef void read(QuicConnection *connection, uint64_t id) noexcept nogil:
    cdef QuicWorker *owner = connection.owner
    cdef QuicStream *stream
    cdef uint8_t *octets = stream_arena(owner, FRAME_MAX)
    cdef uint64_t code
    cdef c_bool ended = False
    cdef ssize_t n = quiche.stream_receive(connection.quic, id, octets, FRAME_MAX, &ended, &code)
    if id & UNIDIRECTIONAL:             # it has no use
        quiche.stream_shutdown(connection.quic, id, SHUTDOWN_READ, NO_ERROR)
        return
    stream = stream_find(connection, id)
    if n < 0:
        if n == ERROR_STREAM_RESET:
            on_reset(connection, id, stream)
        return
    if stream != NULL and not stream.reading:
        # The query is complete; what comes besides is ignored.
        while n == FRAME_MAX and not ended:
            n = quiche.stream_receive(connection.quic, id, octets, FRAME_MAX, &ended, &code)
        if ended:
            stream_input_over(stream)
            stream_release(stream)
        return
    take(connection, stream, id, octets, <uint32_t>n, ended)


cdef void take(QuicConnection *connection, QuicStream *stream, uint64_t id, uint8_t *octets, uint32_t have, bint ended) noexcept nogil:
    """Octets of a query, its first ones where `stream` is NULL."""
    cdef bint kept = stream != NULL
    cdef uint32_t size
    if kept:
        if stream_keep(stream, octets, have, FRAME_MAX) < 0:
            fail(connection)
            return
        octets = stream.input
        have = stream.input_used
    size = 2 + load16(octets) if have >= 2 else 0
    if size == 2 or (ended and (size == 0 or have < size)):
        fail(connection)
        return
    if stream == NULL:
        stream = stream_new(connection, id, not ended)
        if stream == NULL:
            fail(connection)
            return
    if size == 0 or have < size:
        if not kept:
            stream_read_begin(stream)
            if stream_keep(stream, octets, have, FRAME_MAX) < 0:
                fail(connection)
        return
    stream_read_end(stream)
    if ended:
        stream_input_over(stream)
    if not kept:
        stream_arena_keep(connection.owner, size)
    stream_ask(stream, octets + 2, size - 2)


cdef void on_reset(QuicConnection *connection, uint64_t id, QuicStream *stream) noexcept nogil:
    """RFC 9250 4.3.1: the query is not answered; the others of the connection are."""
    quiche.stream_shutdown(connection.quic, id, SHUTDOWN_WRITE, REQUEST_CANCELLED)
    if stream != NULL:
        stream_cancel(stream)


# ---- replies ----

cdef void send(QuicStream *stream, Query *q) noexcept nogil:
    cdef QuicConnection *connection = stream.connection
    cdef uint8_t *out = connection.owner.reply
    cdef uint32_t length = query_write(q, out + 2)
    cdef uint64_t code
    cdef ssize_t n
    store16(out, <uint16_t>length)
    length += 2
    connection_count(connection, DOQ_NO_ERROR)
    n = quiche.stream_send(connection.quic, stream.id, out, length, True, &code)
    if n == ERROR_DONE:
        n = 0
    if 0 <= n < <ssize_t>length and not stream_hold(stream, out + n, length - <uint32_t>n):
        connection_close(connection, EXCESSIVE_LOAD, b"replies are not taken")


cdef void output(QuicStream *stream) noexcept nogil:
    """The rest of a reply."""
    cdef uint64_t code
    cdef ssize_t n = quiche.stream_send(stream.connection.quic, stream.id, stream.output + stream.output_sent, stream.output_size - stream.output_sent, True,
                                        &code)
    if n == ERROR_DONE:
        return
    stream_taken(stream, <uint32_t>n if n >= 0 else stream.output_size - stream.output_sent)
    stream_release(stream)


cdef void reject(QuicStream *stream) noexcept nogil:
    """What is no query of DNS is an error of the protocol."""
    fail(stream.connection)


cdef void dropped(QuicStream *stream) noexcept nogil:
    """The stream stays open."""
    connection_count(stream.connection, DOQ_NO_ERROR)


cdef void unserved(QuicStream *stream) noexcept nogil:
    pass

doq_protocol.transport = TRANSPORT_QUIC
doq_protocol.no_error = NO_ERROR
doq_protocol.excessive_load = EXCESSIVE_LOAD
doq_protocol.begin = begin
doq_protocol.input = input
doq_protocol.expire = expire
doq_protocol.output = output
doq_protocol.end = end
doq_protocol.send = send
doq_protocol.reject = reject
doq_protocol.unserved = unserved
doq_protocol.dropped = dropped
