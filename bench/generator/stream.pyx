"""Queries over TCP and TLS. The contract is in _stream.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.system.socket cimport socket_clock
from fastdns._wire cimport load16, store16
from fastdns.bench.generator.client cimport MESSAGE_STRIDE, Client, client_reply, client_sent
from fastdns.bench.generator.connection cimport (BROKEN, CLOSED, OPEN, Connection, connection_advance, connection_break, connection_close,
                                                 connection_consume, connection_flush, connection_is_open, connection_open, connection_read,
                                                 connection_capacity)
from fastdns.bench.generator.queries cimport PackedQuery


cdef int stream_open(Client *client) noexcept nogil:
    if client.stream == NULL:
        client.stream = calloc(1, sizeof(Connection))
        if client.stream == NULL:
            return ENOMEM
    return connection_open(client)


cdef void stream_close(Client *client) noexcept nogil:
    if client.stream != NULL:
        connection_close(client)
        free(client.stream)
        client.stream = NULL


# ---- queries ----

cdef uint32_t stream_capacity(Client *client) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    return connection_capacity(connection) // MESSAGE_STRIDE if connection.state == OPEN else 0


cdef void stream_put(Client *client, uint32_t slot, const PackedQuery *query) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    cdef uint8_t *at = connection.outgoing + connection.out_end
    store16(at, query.length)
    memcpy(at + 2, query.message, query.length)
    store16(at + 2, client.flight.slots[slot].id)
    connection.out_end += query.length + 2
    client_sent(client, slot)


# ---- replies ----

cdef uint32_t stream_receive(Client *client) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    cdef uint32_t replies = 0, at, length
    cdef ssize_t n
    cdef int64_t now
    if connection.state == CLOSED:
        return 0
    if connection.state != OPEN:
        connection_advance(client)
        return 0
    if client.events:
        connection_flush(client)
    while connection.state == OPEN:
        n = connection_read(client)
        if n == BROKEN:
            connection_break(client)
        if n < 0:
            break
        now = socket_clock()
        at = 0
        while connection.in_end - at >= 2:
            length = load16(connection.incoming + at)
            if connection.in_end - at - 2 < length:
                break
            client_reply(client, connection.incoming + at + 2, length, now)
            replies += 1
            at += length + 2
        connection_consume(connection, at)
        # The kernel says when there is more; what TLS holds back it does not know of.
        if connection.ssl == NULL:
            break
    return replies


STREAM.open = stream_open
STREAM.is_open = connection_is_open
STREAM.capacity = stream_capacity
STREAM.put = stream_put
STREAM.flush = connection_flush
STREAM.receive = stream_receive
STREAM.close = stream_close
