"""DNS over TCP. The contract is in engine/io/framing.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.string cimport memcpy
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.walk.query cimport Carrier, Query, ServerTable
from fastdns._mux cimport query_accept, query_run, query_streamed, query_write
from fastdns.engine.io.connection cimport (BUFFER_SIZE, TcpConnection, connection_answered, connection_end, connection_end_transfer,
                                           connection_may_read, connection_query, connection_reserve, connection_server, connection_transfer)
from fastdns._wire cimport IGNORE, MESSAGE_MAX, REJECTION_MAX, Acceptance, load16, store16, wire_reject


# ---- reading ----

cdef uint32_t wanted(const TcpConnection *connection) noexcept nogil:
    if connection.input_used - connection.input_done < 2:
        return BUFFER_SIZE
    return max(<uint32_t>BUFFER_SIZE, <uint32_t>load16(connection.input + connection.input_done) + 2)


cdef void read_messages(TcpConnection *connection) noexcept nogil:
    """Runs all complete messages that the connection may ask now."""
    cdef uint32_t left, size
    while connection_may_read(connection):
        left = connection.input_used - connection.input_done
        if left < 2:
            break
        size = load16(connection.input + connection.input_done)
        if left < 2 + size:
            break
        connection.input_done += 2 + size
        on_message(connection, connection.input + connection.input_done - size, size)


cdef void on_message(TcpConnection *connection, const uint8_t *packet, uint32_t size) noexcept nogil:
    cdef const ServerTable *server = connection_server(connection)
    cdef Query *q
    if server != NULL and server.max_tcp_queries and connection.queries + 1 >= server.max_tcp_queries:
        connection.last = 1
    q = connection_query(connection)
    if q != NULL and query_accept(q, packet, size, connection.transport, connection.listener, connection.generation, &TCP, connection):
        connection.outstanding += 1
        query_run(q)


# ---- writing ----

cdef uint32_t message_size(const uint8_t *octets, uint32_t size) noexcept nogil:
    return 2 + <uint32_t>load16(octets)


cdef void reject_message(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>q.connection
    cdef uint8_t *out
    cdef uint32_t size
    if how == IGNORE:
        return
    out = connection_reserve(connection, 2 + REJECTION_MAX)
    if out != NULL:
        size = wire_reject(q.packet, &q.message, how, rcode, out + 2)
        store16(out, size)
        connection.output_used += 2 + size


cdef void end_unserved(Query *q) noexcept nogil:
    (<TcpConnection *>q.connection).last = 1


cdef void send_reply(Query *q) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>q.connection
    cdef uint8_t *out
    cdef uint32_t size
    if not connection.broken:
        out = connection_reserve(connection, 2 + q.reply.message_size)
        if out != NULL:
            size = query_write(q, out + 2)
            store16(out, size)
            connection.output_used += 2 + size
    connection_answered(connection)


cdef void no_reply(Query *q) noexcept nogil:
    connection_answered(<TcpConnection *>q.connection)


cdef void begin_stream(Query *q) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>q.connection
    if connection.broken:
        q.stream.close(q.stream)
        query_streamed(q, 0)
    else:
        connection_transfer(connection, q)
    connection_answered(connection)


cdef const ProxyTlvs *client_tlvs(const Query *q) noexcept nogil:
    return (<const TcpConnection *>q.connection).tlvs


cdef Carrier TCP
TCP.reject = reject_message
TCP.unserved = end_unserved
TCP.send = send_reply
TCP.dropped = no_reply
TCP.stream = begin_stream
TCP.tlvs = client_tlvs


cdef bint pull_stream(TcpConnection *connection) noexcept nogil:
    """By way of the worker's buffer: thousands of connections with a small message each do not reserve the longest one."""
    cdef uint8_t *message = connection.tcp.base.worker.message
    cdef int64_t size = connection.transfer.stream.pull(connection.transfer.stream, message, MESSAGE_MAX)
    cdef uint8_t *out
    if size > 0:
        out = connection_reserve(connection, 2 + <uint32_t>size)
        if out == NULL:
            return False
        store16(out, <uint32_t>size)
        memcpy(out + 2, message, <size_t>size)
        connection.output_used += 2 + <uint32_t>size
        connection.transferred += <uint32_t>size
        connection.idle_since = connection.tcp.base.worker.now
        return True
    connection_end_transfer(connection)
    if size < 0:
        connection_end(connection.tcp, connection)
    return False


dns_framing.size = sizeof(TcpConnection)
dns_framing.outstanding_max = OUTSTANDING_MAX
dns_framing.wanted = wanted
dns_framing.input = read_messages
dns_framing.message_size = message_size
dns_framing.pull = pull_stream
