"""A TCP connection. The contract is in engine/io/connection.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memmove
from libc.errno cimport errno, EAGAIN, EINTR
from fastdns.system.atomic cimport atomic_bump32
from fastdns.walk.query cimport TRANSPORT_TCP, Carrier, Flush, Query, ServerTable, Source, Timer, Worker, worker_flush
from fastdns._mux cimport query_accept, query_release, query_run, query_streamed, query_take, query_write
from fastdns.tls.record cimport tls_end, tls_feed, tls_pending, tls_recv, tls_send
from fastdns.system.socket cimport (EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, IPPROTO_TCP, MSG_NOSIGNAL, SO_LINGER, SOL_SOCKET, TCP_NODELAY, close,
                                    getsockname, linger, recv, send, setsockopt, sockaddr, sockaddr_in6, socklen_t)
from fastdns.system.address cimport address_from_socket
from fastdns._wire cimport IGNORE, HEADER_SIZE, MESSAGE_MAX, Acceptance, load16, store16, wire_reject


# ---- begin and end ----

cdef TcpConnection *connection_begin(TcpWorker *tcp, uint32_t listener, uint32_t generation, int fd, const sockaddr_in6 *peer) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>calloc(1, sizeof(TcpConnection))
    cdef ServerTable *server = tcp.base.worker.set.servers[listener]
    cdef sockaddr_in6 name
    cdef socklen_t length = sizeof(name)
    cdef int one = 1
    if connection == NULL or server == NULL:
        free(connection)
        return NULL
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
    connection.source.fd = fd
    connection.source.ready = on_connection
    connection.tcp = tcp
    connection.listener = listener
    connection.generation = generation
    connection.transport = TRANSPORT_TCP
    address_from_socket(&connection.client, peer)
    getsockname(fd, <sockaddr *>&name, &length)
    address_from_socket(&connection.local, &name)
    connection.timer.fire = on_idle
    connection.timer.data = connection
    connection.flush.run = flush_connection
    connection.flush.data = connection
    connection.idle_since = tcp.base.worker.now
    connection.limit = <int64_t>server.read_timeout * MILLISECOND       # for the first message; later ones have the idle timeout
    connection.write_limit = <int64_t>server.write_timeout * MILLISECOND
    connection.events = EPOLLIN
    connection.next = tcp.connections
    if connection.next != NULL:
        connection.next.previous = connection
    else:
        tcp.last_connection = connection
    tcp.connections = connection
    atomic_bump32(&tcp.base.connections, 1)
    tcp.base.worker.ops.watch(tcp.base.worker, &connection.source, EPOLLIN)
    tcp.base.worker.ops.timer_start(tcp.base.worker, &connection.timer, connection.idle_since + connection.limit)
    return connection


cdef void connection_end(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    cdef int fd = connection.source.fd
    connection_forget(tcp, connection)
    if fd >= 0:
        close(fd)


cdef void connection_forget(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    """All of its end but closing the descriptor. Queries of it that are under way find `broken` and are forgotten when they end; the last one frees
    the memory."""
    if connection.source.fd >= 0:
        tcp.base.worker.ops.unwatch(tcp.base.worker, &connection.source)
        connection.source.fd = -1
        tcp.base.worker.ops.timer_stop(tcp.base.worker, &connection.timer)
        if connection.tls != NULL:
            tls_end(connection.tls)
            connection.tls = NULL
        tcp.octets -= connection.output_size + connection.input_size
        free(connection.output)
        free(connection.input)
        connection.output = NULL
        connection.input = NULL
        connection.output_size = connection.output_used = connection.output_sent = connection.output_end = 0
        connection.input_size = connection.input_used = connection.input_done = 0
        if connection.transfer != NULL:
            end_transfer(connection)
        if connection.previous != NULL:
            connection.previous.next = connection.next
        else:
            tcp.connections = connection.next
        if connection.next != NULL:
            connection.next.previous = connection.previous
        else:
            tcp.last_connection = connection.previous
        atomic_bump32(&tcp.base.connections, -1)
    connection.broken = 1
    if connection.outstanding == 0 and not connection.parsing:
        worker_flush(tcp.base.worker, &connection.flush)         # events of this batch may still name it: it is freed at the batch's end


cdef void connection_finish(TcpConnection *connection) noexcept nogil:
    connection.last = 1
    worker_flush(connection.tcp.base.worker, &connection.flush)


# ---- reading ----

cdef void on_connection(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>source
    cdef TcpWorker *tcp = connection.tcp
    if connection.broken:
        return
    if events & (EPOLLERR | EPOLLHUP):
        connection_end(tcp, connection)
        return
    if connection.tls != NULL:
        if events & EPOLLIN:
            read_encrypted(tcp, connection)
    elif events & EPOLLIN and read_more(tcp, connection):
        parse(tcp, connection)
    if not connection.broken:
        worker_flush(worker, &connection.flush)


cdef void read_encrypted(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    """One recv, and what it decrypts to."""
    cdef uint8_t octets[TLS_SIZE]
    cdef ssize_t n = recv(connection.source.fd, octets, TLS_SIZE, 0)
    if n > 0 and tls_feed(connection.tls, octets, n) == 0:
        connection_read_decrypted(tcp, connection)
    elif n == 0:
        connection.eof = 1
    elif n > 0 or errno != EAGAIN and errno != EINTR:
        connection_end(tcp, connection)


cdef void connection_read_decrypted(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    while may_read(connection) and read_more(tcp, connection):
        parse(tcp, connection)


cdef bint reserve_input(TcpWorker *tcp, TcpConnection *connection, uint32_t size) noexcept nogil:
    """Room for `size` octets from input_done on: what is processed is moved out first. False when there is none, here or for all."""
    cdef uint8_t *bigger
    if connection.input_done:
        memmove(connection.input, connection.input + connection.input_done, connection.input_used - connection.input_done)
        connection.input_used -= connection.input_done
        connection.input_done = 0
    if size <= connection.input_size:
        return True
    if size > INPUT_SIZE and tcp.octets + size - connection.input_size > OUTPUT_MAX:
        return False
    bigger = <uint8_t *>realloc(connection.input, size)
    if bigger == NULL:
        return False
    tcp.octets += size - connection.input_size
    connection.input = bigger
    connection.input_size = size
    return True


cdef bint read_more(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    """One recv; False when there is nothing to parse (or no connection any more)."""
    cdef uint32_t pending = connection.input_used - connection.input_done
    cdef uint32_t wanted = INPUT_SIZE
    cdef ssize_t n
    if pending >= 2 and load16(connection.input + connection.input_done) + 2 > wanted:
        wanted = load16(connection.input + connection.input_done) + 2
    if pending == connection.input_size - connection.input_done or connection.input_used == connection.input_size:
        if not reserve_input(tcp, connection, max(wanted, pending + 512)):
            connection_end(tcp, connection)
            return False
    if connection.tls != NULL:
        n = tls_recv(connection.tls, connection.input + connection.input_used, connection.input_size - connection.input_used)
    else:
        n = recv(connection.source.fd, connection.input + connection.input_used, connection.input_size - connection.input_used, 0)
    if n > 0:
        connection.input_used += <uint32_t>n
        return True
    if n < 0 and (errno == EAGAIN or errno == EINTR):
        return False
    if n < 0:
        connection_end(tcp, connection)
        return False
    connection.eof = 1
    return False


cdef inline bint may_read(const TcpConnection *connection) noexcept nogil:
    return (connection.outstanding < OUTSTANDING_MAX and connection.output_used - connection.output_sent < OUTPUT_PAUSE
            and connection.transfer == NULL and not connection.last and not connection.broken)


cdef void parse(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    """Runs all complete messages that the connection may ask now."""
    cdef uint32_t left, size
    if connection.parsing:
        return
    connection.parsing = 1
    while may_read(connection):
        left = connection.input_used - connection.input_done
        if left < 2:
            break
        size = load16(connection.input + connection.input_done)
        if left < 2 + size:
            break
        connection.input_done += 2 + size
        on_message(tcp, connection, connection.input + connection.input_done - size, size)
    connection.parsing = 0
    if connection.broken and connection.outstanding == 0:
        worker_flush(tcp.base.worker, &connection.flush)
    elif connection.input_done == connection.input_used:
        connection.input_done = connection.input_used = 0
        if connection.input_size > INPUT_SIZE and connection.outstanding == 0:
            tcp.octets -= connection.input_size
            free(connection.input)
            connection.input = NULL
            connection.input_size = 0


cdef inline ServerTable *server_of(const TcpWorker *tcp, const TcpConnection *connection) noexcept nogil:
    """What serves the connection's listener now; NULL when nothing does, be it that another listener has its number."""
    if tcp.base.worker.set.listeners[connection.listener] != connection.generation:
        return NULL
    return tcp.base.worker.set.servers[connection.listener]


cdef void on_message(TcpWorker *tcp, TcpConnection *connection, const uint8_t *packet, uint32_t size) noexcept nogil:
    cdef ServerTable *server = server_of(tcp, connection)
    cdef Query *q
    connection.queries += 1
    connection.idle_since = tcp.base.worker.now
    if server == NULL:                  # the address is no longer served: earlier queries are answered, then it ends
        connection.last = 1
        return
    connection.limit = <int64_t>server.idle_timeout * MILLISECOND
    connection.write_limit = <int64_t>server.write_timeout * MILLISECOND
    if server.max_tcp_queries and connection.queries >= server.max_tcp_queries:
        connection.last = 1
    q = query_take(tcp.base.worker)
    if q == NULL:
        connection_end(tcp, connection)
        return
    if connection.broken:               # the pool was full, one of its own queries got SERVFAIL, and that reply found no memory
        query_release(q)
        return
    q.client = connection.client
    q.local = connection.local
    if query_accept(q, packet, size, connection.transport, connection.listener, connection.generation, &TCP, connection):
        connection.outstanding += 1
        query_run(q)


# ---- writing ----

cdef uint8_t *reserve_output(TcpWorker *tcp, TcpConnection *connection, uint32_t size) noexcept nogil:
    cdef uint32_t pending = connection.output_used - connection.output_sent, wanted
    cdef uint8_t *bigger
    if connection.output_sent and (pending == 0 or connection.output_size - connection.output_used < size):
        memmove(connection.output, connection.output + connection.output_sent, pending)
        connection.output_end -= connection.output_sent
        connection.output_used = pending
        connection.output_sent = 0
    if connection.output_size - connection.output_used < size:
        wanted = connection.output_used + size
        wanted = max(4096, wanted + wanted // 2)
        if tcp.octets + wanted - connection.output_size > OUTPUT_MAX:
            connection_end(tcp, connection)
            return NULL
        bigger = <uint8_t *>realloc(connection.output, wanted)
        if bigger == NULL:
            connection_end(tcp, connection)
            return NULL
        tcp.octets += wanted - connection.output_size
        connection.output = bigger
        connection.output_size = wanted
    return connection.output + connection.output_used


cdef void end_query(TcpConnection *connection) noexcept nogil:
    """With a reply or without."""
    cdef Worker *worker = connection.tcp.base.worker
    connection.outstanding -= 1
    connection.idle_since = worker.now
    worker_flush(worker, &connection.flush)


cdef void reject_message(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>q.connection
    cdef uint8_t *out
    cdef uint32_t size
    if how == IGNORE:
        return
    out = reserve_output(connection.tcp, connection, 2 + HEADER_SIZE + 260)
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
        out = reserve_output(connection.tcp, connection, 2 + q.reply.message_size)
        if out != NULL:
            size = query_write(q, out + 2)
            store16(out, size)
            connection.output_used += 2 + size
    end_query(connection)


cdef void no_reply(Query *q) noexcept nogil:
    end_query(<TcpConnection *>q.connection)


cdef void begin_stream(Query *q) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>q.connection
    if connection.broken or connection.transfer != NULL:
        q.stream.close(q.stream)
        query_streamed(q, 0)
    else:
        connection.transfer = q
        connection.transferred = 0
    end_query(connection)

cdef Carrier TCP
TCP.reject = reject_message
TCP.unserved = end_unserved
TCP.send = send_reply
TCP.dropped = no_reply
TCP.stream = begin_stream


cdef void end_transfer(TcpConnection *connection) noexcept nogil:
    cdef Query *q = connection.transfer
    connection.transfer = NULL
    q.stream.close(q.stream)
    query_streamed(q, connection.transferred)


cdef bint pull_stream(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    """The next message of a transfer into the output; False when there is none any more."""
    cdef uint8_t *out = reserve_output(tcp, connection, 2 + MESSAGE_MAX)
    cdef int64_t size
    if out == NULL:
        return False
    size = connection.transfer.stream.pull(connection.transfer.stream, out + 2, MESSAGE_MAX)
    if size > 0:
        store16(out, <uint32_t>size)
        connection.output_used += 2 + <uint32_t>size
        connection.transferred += <uint32_t>size
        connection.idle_since = tcp.base.worker.now
        return True
    end_transfer(connection)
    if size < 0:
        connection_end(tcp, connection)
    return False


cdef bint write_output(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    """Writes what is pending; True when all of it went out."""
    cdef ssize_t n
    while connection.output_sent < connection.output_used:
        if connection.output_sent == connection.output_end:
            connection.output_end += 2 + load16(connection.output + connection.output_end)
        if connection.tls != NULL:
            n = tls_send(connection.tls, connection.output + connection.output_sent, connection.output_used - connection.output_sent)
        else:
            n = send(connection.source.fd, connection.output + connection.output_sent, connection.output_used - connection.output_sent, MSG_NOSIGNAL)
        if n < 0:
            if errno == EINTR:
                continue
            if errno == EAGAIN:
                if connection.blocked_since == 0:
                    connection.blocked_since = tcp.base.worker.now
                return False
            connection_end(tcp, connection)
            return False
        connection.output_sent += <uint32_t>n
        # Only whole messages are progress, or a client that takes an octet now and then would hold it, and its configuration, for ever.
        if connection.output_sent >= connection.output_end:
            connection.blocked_since = 0
            while connection.output_end < connection.output_sent:
                connection.output_end += 2 + load16(connection.output + connection.output_end)
    connection.output_used = connection.output_sent = connection.output_end = 0
    if connection.output_size > OUTPUT_PAUSE or connection.transfer == NULL and connection.output_size > 16384:
        tcp.octets -= connection.output_size
        free(connection.output)
        connection.output = NULL
        connection.output_size = 0
    return True


cdef void flush_connection(Flush *flush, Worker *worker) noexcept nogil:
    """At the end of a batch: writes, reads on where reading had stopped, and sets the events to wait for."""
    cdef TcpConnection *connection = <TcpConnection *>flush.data
    cdef TcpWorker *tcp = connection.tcp
    cdef uint32_t events, pulled = 0
    cdef bint all_out
    if connection.broken:
        if connection.outstanding == 0:
            free(connection)
        return
    while True:
        all_out = write_output(tcp, connection)
        if connection.broken:
            return
        if all_out and connection.transfer != NULL and connection.outstanding == 0:
            if pulled == STREAM_BATCH:      # a client that reads as fast as we write: others have their turn first
                if connection.blocked_since == 0:
                    connection.blocked_since = tcp.base.worker.now    # or one that does not: the kernel took what it could
                all_out = False
                break
            pulled += 1
            pull_stream(tcp, connection)
            if connection.broken:
                return
            if connection.output_used:
                continue
        if connection.input_used - connection.input_done >= 2 and may_read(connection):
            parse(tcp, connection)
            if connection.broken:
                return
            if connection.output_used > connection.output_sent and all_out:
                continue
        if connection.tls != NULL and may_read(connection) and tls_pending(connection.tls):
            connection_read_decrypted(tcp, connection)
            if connection.broken:
                return
            if connection.output_used > connection.output_sent and all_out:
                continue
        break
    if all_out and connection.outstanding == 0 and connection.transfer == NULL and (connection.eof or connection.last):
        connection_end(tcp, connection)
        return
    events = 0
    if may_read(connection) and not connection.eof:
        events |= EPOLLIN
    if not all_out:
        events |= EPOLLOUT
    if events != connection.events:
        connection.events = events
        worker.ops.rewatch(worker, &connection.source, events)
    if connection.timer.deadline == 0 or connection.blocked_since and connection.timer.deadline > connection.blocked_since + connection.write_limit:
        start_timer(tcp, connection)


# ---- time ----

cdef void start_timer(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    cdef int64_t deadline = connection.idle_since + connection.limit
    if connection.blocked_since:
        deadline = connection.blocked_since + connection.write_limit
    elif connection.outstanding or connection.transfer != NULL:
        deadline = tcp.base.worker.now + connection.limit
    tcp.base.worker.ops.timer_start(tcp.base.worker, &connection.timer, deadline)


cdef void on_idle(Timer *timer, Worker *worker) noexcept nogil:
    """The connection may have been used since the timer was started: it is closed only if it has been idle for the whole time."""
    cdef TcpConnection *connection = <TcpConnection *>timer.data
    cdef TcpWorker *tcp = connection.tcp
    cdef linger at_once
    if connection.blocked_since and worker.now - connection.blocked_since >= connection.write_limit:
        at_once.l_onoff = 1             # or the kernel would go on offering what it has to a client that does not read
        at_once.l_linger = 0
        setsockopt(connection.source.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once))
        connection_end(tcp, connection)
    elif connection.blocked_since == 0 and connection.outstanding == 0 and connection.transfer == NULL and (
            worker.now - connection.idle_since >= connection.limit):
        connection_end(tcp, connection)
    else:
        start_timer(tcp, connection)
