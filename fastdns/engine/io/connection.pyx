"""A TCP connection. The contract is in engine/io/connection.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memmove
from libc.errno cimport errno, EAGAIN, EINTR
from fastdns.system.atomic cimport atomic_add32, atomic_bump32
from fastdns.walk.query cimport TRANSPORT_TCP, Flush, Query, ServerTable, Source, Timer, Worker, worker_flush
from fastdns._mux cimport query_release, query_streamed, query_take
from fastdns.engine.io.linger cimport linger_begin
from fastdns.proxy.tlvs cimport tlvs_unref
from fastdns.tls.context cimport context_release
from fastdns.tls.record cimport TlsStream, tls_end, tls_keep, tls_lend, tls_pending, tls_recv, tls_send
from fastdns.system.socket cimport (EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, MSG_NOSIGNAL, SO_LINGER, SOL_SOCKET, close, getsockname,
                                    linger, recv, send, setsockopt, sockaddr, sockaddr_in6, socklen_t)
from fastdns.system.address cimport Address, address_from_socket, address_network
from fastdns.system.hash cimport hash_network
from fastdns.system.list cimport list_first, list_next, list_prepend, list_remove
from fastdns.system.sanitizer cimport ADDRESS_SANITIZER

# ---- begin and end ----

cdef TcpConnection *connection_begin(TcpWorker *tcp, const StreamProtocol *protocol, StreamService *service, TlsStream *tls, uint32_t listener,
                                     uint32_t generation, int fd, const Address *client, const Address *local, int64_t since) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>calloc(1, protocol.size)
    cdef ServerTable *server = tcp.base.worker.set.servers[listener]
    cdef sockaddr_in6 name
    cdef socklen_t length = sizeof(name)
    if connection == NULL or server == NULL:
        free(connection)
        return NULL
    connection.source.fd = fd
    connection.source.ready = on_connection
    connection.tcp = tcp
    connection.protocol = protocol
    connection.service = service
    connection.tls = tls
    connection.listener = listener
    connection.generation = generation
    connection.transport = TRANSPORT_TCP if service == NULL else service.transport
    connection.client = client[0]
    connection.network = hash_network(address_network(client))
    if local != NULL:
        connection.local = local[0]
    else:
        getsockname(fd, <sockaddr *>&name, &length)
        address_from_socket(&connection.local, &name)
    connection.timer.fire = on_idle
    connection.timer.data = connection
    connection.flush.run = flush_connection
    connection.flush.data = connection
    connection.idle_since = since
    connection.limit = <int64_t>server.read_timeout * MILLISECOND       # for the first message; later ones have the idle timeout
    connection.write_limit = <int64_t>server.write_timeout * MILLISECOND
    connection.events = EPOLLIN
    list_prepend(&tcp.connections, &connection.node)
    atomic_bump32(&tcp.base.connections, 1)
    tcp.base.worker.ops.watch(tcp.base.worker, &connection.source, EPOLLIN)
    tcp.base.worker.ops.timer_start(tcp.base.worker, &connection.timer, since + connection.limit)
    if protocol.begin != NULL and protocol.begin(connection) < 0:
        connection.service = NULL       # stays the caller's, as descriptor and TLS object do
        connection.tls = NULL
        connection_forget(tcp, connection)
        return NULL
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
        release_buffer(connection, &connection.output, &connection.output_size)
        connection.output_used = connection.output_sent = connection.output_end = 0
        while connection.transfer != NULL:
            connection_end_transfer(connection)
        list_remove(&connection.node)
        atomic_bump32(&tcp.base.connections, -1)
        if connection.service != NULL:
            service_leave_place(connection.service)
            service_unref(connection.service)
            connection.service = NULL
    if not connection.broken:
        connection.broken = 1
        if not connection.parsing:      # else once it is not
            free_input(connection)
    if connection.outstanding == 0 and not connection.parsing:
        worker_flush(tcp.base.worker, &connection.flush)         # events of this batch may still name it: it is freed at the batch's end


cdef void free_input(TcpConnection *connection) noexcept nogil:
    """Of a connection that has ended: its input and what its protocol holds, which reads no more."""
    if connection.protocol.free != NULL:
        connection.protocol.free(connection)
    release_buffer(connection, &connection.input, &connection.input_size)
    connection.input_used = connection.input_done = 0


cdef void service_ref(StreamService *service) noexcept nogil:
    atomic_add32(&service.references, 1)


cdef void service_unref(StreamService *service) noexcept nogil:
    if atomic_add32(&service.references, <uint32_t>-1):
        return
    if service.context != NULL:
        context_release(service.context)
    if service.address != NULL and atomic_add32(&service.address.references, <uint32_t>-1) == 0:
        free(service.address)
    free(service)


cdef bint service_take_place(StreamService *service) noexcept nogil:
    if atomic_add32(&service.address.connections, 1) <= service.max_connections or service.max_connections == 0:
        return True
    service_leave_place(service)
    return False


cdef void service_leave_place(StreamService *service) noexcept nogil:
    atomic_add32(&service.address.connections, <uint32_t>-1)


cdef void connection_finish(TcpConnection *connection) noexcept nogil:
    if connection.protocol.finish != NULL:
        connection.protocol.finish(connection)
    else:
        connection.last = 1
    worker_flush(connection.tcp.base.worker, &connection.flush)


# ---- buffers ----

cdef bint resize_buffer(TcpConnection *connection, uint8_t **buffer, uint32_t *size, uint32_t wanted) noexcept nogil:
    """Makes a larger one of it, of BUFFER_SIZE at least. False when memory is out."""
    cdef TcpWorker *tcp = connection.tcp
    cdef uint8_t *bigger
    wanted = max(wanted, <uint32_t>BUFFER_SIZE)
    if buffer[0] == NULL and wanted == BUFFER_SIZE and tcp.spare != NULL:
        bigger = <uint8_t *>tcp.spare
        tcp.spare = (<void **>bigger)[0]
        tcp.spares -= 1
    else:
        bigger = <uint8_t *>realloc(buffer[0], wanted)
        if bigger == NULL:
            return False
    connection_count(connection, <int64_t>wanted - size[0])
    buffer[0] = bigger
    size[0] = wanted
    return True


cdef void release_buffer(TcpConnection *connection, uint8_t **buffer, uint32_t *size) noexcept nogil:
    cdef TcpWorker *tcp = connection.tcp
    connection_count(connection, -<int64_t>size[0])
    if size[0] == BUFFER_SIZE and tcp.spares < SPARE_BUFFERS and not ADDRESS_SANITIZER:
        (<void **>buffer[0])[0] = tcp.spare
        tcp.spare = buffer[0]
        tcp.spares += 1
    else:
        free(buffer[0])
    buffer[0] = NULL
    size[0] = 0


# ---- reading ----

cdef void on_connection(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>source
    cdef TcpWorker *tcp = connection.tcp
    if connection.broken:
        return
    if events & (EPOLLERR | EPOLLHUP):      # neither side can say anything any more
        if connection.tls != NULL:
            connection.tls.failed = 1
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
    if n > 0 and tls_lend(connection.tls, octets, n) == 0:
        connection_read_decrypted(tcp, connection)
        if connection.tls != NULL and tls_keep(connection.tls) < 0:
            connection_end(tcp, connection)
    elif n == 0:
        connection.eof = 1
    elif n > 0 or errno != EAGAIN and errno != EINTR:
        connection_end(tcp, connection)


cdef void connection_read_decrypted(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    while connection_may_read(connection) and tls_pending(connection.tls) and read_more(tcp, connection):
        parse(tcp, connection)


cdef bint reserve_input(TcpWorker *tcp, TcpConnection *connection, uint32_t size) noexcept nogil:
    """Space for `size` octets from input_done on: what is processed is moved out first. False when there is none, here or for all."""
    if connection.input_done:
        memmove(connection.input, connection.input + connection.input_done, connection.input_used - connection.input_done)
        connection.input_used -= connection.input_done
        connection.input_done = 0
    if size <= connection.input_size:
        return True
    if size > BUFFER_SIZE and not make_room(connection, size - connection.input_size):
        return False
    return resize_buffer(connection, &connection.input, &connection.input_size, size)


cdef bint read_more(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    """One recv; False when there is nothing to parse (or no connection any more)."""
    cdef uint32_t pending = connection.input_used - connection.input_done
    cdef uint32_t wanted
    cdef ssize_t n
    if pending == connection.input_size - connection.input_done or connection.input_used == connection.input_size:
        # Memory grows with what has come: what a length announces is not reserved.
        wanted = min(connection.protocol.wanted(connection), max(2 * pending, <uint32_t>BUFFER_SIZE))
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


cdef void parse(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    if connection.parsing:
        return
    connection.parsing = 1
    connection.protocol.input(connection)
    connection.parsing = 0
    if connection.broken:
        free_input(connection)
        if connection.outstanding == 0:
            worker_flush(tcp.base.worker, &connection.flush)
    elif connection.input_done == connection.input_used:
        connection.input_done = connection.input_used = 0
        release_buffer(connection, &connection.input, &connection.input_size)


# ---- what protocols call ----

cdef ServerTable *connection_server(const TcpConnection *connection) noexcept nogil:
    cdef const Worker *worker = connection.tcp.base.worker
    if worker.set.listeners[connection.listener] != connection.generation:
        return NULL
    return worker.set.servers[connection.listener]


cdef Query *connection_query(TcpConnection *connection) noexcept nogil:
    cdef Worker *worker = connection.tcp.base.worker
    cdef ServerTable *server = connection_server(connection)
    cdef Query *q
    connection.queries += 1
    connection.idle_since = worker.now
    if server == NULL:                  # earlier queries are answered, then it ends
        connection_finish(connection)
        return NULL
    connection.limit = <int64_t>server.idle_timeout * MILLISECOND
    connection.write_limit = <int64_t>server.write_timeout * MILLISECOND
    q = query_take(worker)
    if q == NULL:
        connection_end(connection.tcp, connection)
        return NULL
    if connection.broken:               # the pool was full, one of its own queries got SERVFAIL, and that reply found no memory
        query_release(q)
        return NULL
    q.client = connection.client
    q.local = connection.local
    return q


cdef void connection_answered(TcpConnection *connection) noexcept nogil:
    cdef Worker *worker = connection.tcp.base.worker
    connection.outstanding -= 1
    connection.idle_since = worker.now
    worker_flush(worker, &connection.flush)


cdef uint8_t *connection_reserve(TcpConnection *connection, uint32_t size) noexcept nogil:
    cdef TcpWorker *tcp = connection.tcp
    cdef uint32_t pending = connection.output_used - connection.output_sent, wanted
    if connection.output_sent and (pending == 0 or connection.output_size - connection.output_used < size):
        memmove(connection.output, connection.output + connection.output_sent, pending)
        connection.output_end -= connection.output_sent
        connection.output_used = pending
        connection.output_sent = 0
    if connection.output_size - connection.output_used < size:
        wanted = connection.output_used + size
        wanted = max(<uint32_t>BUFFER_SIZE, wanted + wanted // 2)
        if not make_room(connection, wanted - connection.output_size) or (
                not resize_buffer(connection, &connection.output, &connection.output_size, wanted)):
            connection_end(tcp, connection)
            return NULL
    return connection.output + connection.output_used


cdef bint connection_charge(TcpConnection *connection, uint32_t size) noexcept nogil:
    cdef uint32_t more = counted_octets(connection.held + size) - counted_octets(connection.held)
    if connection.broken or more and not make_room(connection, more):
        return False
    connection.held += size
    connection_count(connection, more)
    return True


cdef inline uint32_t weight(const TcpConnection *connection) noexcept nogil:
    return connection.input_size + connection.output_size + counted_octets(connection.held)


cdef inline bint make_room(TcpConnection *connection, uint32_t size) noexcept nogil:
    """Whether a connection may hold so many more octets. Connections of the network that holds most end for it."""
    return connection.tcp.octets + size <= OCTETS_MAX or (
        end_large(connection, size, LARGE) or end_large(connection, size, 0))


cdef bint end_large(TcpConnection *connection, uint32_t size, uint32_t least) noexcept nogil:
    """Ends connections with more than so many octets until an eighth is free: a worker at its bound does not look through all for each. Of the
    connection's own network only those end that hold more than it would. Whether there is space now."""
    cdef TcpWorker *tcp = connection.tcp
    cdef uint32_t most = connection.network, i
    cdef TcpConnection *other = connection_of(list_first(&tcp.connections))
    cdef TcpConnection *following
    for i in range(NETWORKS):
        if tcp.held_by[i] > tcp.held_by[most]:
            most = i
    if most == connection.network:
        least = weight(connection) + size
    while other != NULL and tcp.octets + size > OCTETS_MAX - OCTETS_MAX // 8:
        following = connection_of(list_next(&tcp.connections, &other.node))
        if other.network == most and weight(other) > least and not other.parsing and other != connection:
            connection_end(tcp, other)
        other = following
    return tcp.octets + size <= OCTETS_MAX


cdef void connection_transfer(TcpConnection *connection, Query *q) noexcept nogil:
    cdef Query **end = &connection.transfer if connection.transfer == NULL else &connection.transfers_waiting
    while end[0] != NULL:
        end = &end[0].next
    q.next = NULL
    end[0] = q


cdef void connection_end_transfer(TcpConnection *connection) noexcept nogil:
    cdef Query *q = connection.transfer
    cdef uint32_t transferred = connection.transferred
    connection.transfer = connection.transfers_waiting
    if connection.transfer != NULL:
        connection.transfers_waiting = connection.transfer.next
        connection.transfer.next = NULL
    connection.transferred = 0
    q.stream.close(q.stream)
    query_streamed(q, transferred)


# ---- writing ----

cdef inline void begin_message(TcpConnection *connection) noexcept nogil:
    """The next message that the client has to take in its time."""
    if connection.protocol.message_size == NULL:
        connection.output_end = connection.output_used
    else:
        connection.output_end += connection.protocol.message_size(connection.output + connection.output_end,
                                                                  connection.output_used - connection.output_end)


cdef bint write_output(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    """Writes what is pending; True when all of it went out. Over TLS a record holds one message: there are clients that take the first message of a record,
    and wait for the socket then (dnsdist 1.7 over TLS, dnsperf 2.10 over HTTPS)."""
    cdef ssize_t n
    while connection.output_sent < connection.output_used:
        if connection.output_sent == connection.output_end:
            begin_message(connection)
        if connection.tls != NULL:
            n = tls_send(connection.tls, connection.output + connection.output_sent, connection.output_end - connection.output_sent,
                         connection.output_end < connection.output_used)
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
                begin_message(connection)
    connection.output_used = connection.output_sent = connection.output_end = 0
    if connection.transfer == NULL or connection.output_size > OUTPUT_PAUSE:
        release_buffer(connection, &connection.output, &connection.output_size)
    return True


cdef inline bint has_output(const TcpConnection *connection) noexcept nogil:
    return connection.output_used > connection.output_sent or connection.unsaid


cdef void flush_connection(Flush *flush, Worker *worker) noexcept nogil:
    """At the end of a batch: writes, reads on where reading had stopped, and sets the events to wait for."""
    cdef TcpConnection *connection = <TcpConnection *>flush.data
    cdef TcpWorker *tcp = connection.tcp
    cdef uint32_t events, pulled = 0
    cdef bint all_out
    cdef int fd
    if connection.broken:
        if connection.outstanding == 0:
            tlvs_unref(connection.tlvs, worker.id)
            free(connection)
        return
    while True:
        if connection.unsaid:
            connection.protocol.fill(connection)
            if connection.broken:
                return
        all_out = write_output(tcp, connection)
        if connection.broken:
            return
        if all_out and connection.unsaid:
            continue
        if all_out and connection.transfer != NULL:
            if pulled == STREAM_BATCH:      # a client that reads as fast as we write: others have their turn first
                if connection.blocked_since == 0:
                    connection.blocked_since = tcp.base.worker.now    # or one that does not: the kernel took what it could
                all_out = False
                break
            pulled += 1
            connection.protocol.pull(connection)
            if connection.broken:
                return
            if connection.output_used or connection.transfer != NULL:
                continue
            release_buffer(connection, &connection.output, &connection.output_size)
        if connection.input_used - connection.input_done >= 2 and connection_may_read(connection):
            parse(tcp, connection)
            if connection.broken:
                return
            if has_output(connection) and all_out:
                continue
        if connection.tls != NULL and connection_may_read(connection) and tls_pending(connection.tls):
            connection_read_decrypted(tcp, connection)
            if connection.broken:
                return
            if has_output(connection) and all_out:
                continue
        break
    if all_out and (connection.closing or connection.outstanding == 0 and connection.transfer == NULL and (connection.eof or connection.last)):
        if connection.protocol.lingers and not connection.eof:
            fd = connection.source.fd
            connection_forget(tcp, connection)
            linger_begin(worker, fd)
        else:
            connection_end(tcp, connection)
        return
    events = 0
    if connection_may_read(connection) and not connection.eof:
        events |= EPOLLIN
    if not all_out:
        events |= EPOLLOUT
    if events != connection.events:
        connection.events = events
        worker.ops.rewatch(worker, &connection.source, events)
    if connection.timer.deadline == 0 or connection.blocked_since and connection.timer.deadline > connection.blocked_since + connection.write_limit or (
            connection.due and connection.timer.deadline > connection.due):
        start_timer(tcp, connection)


# ---- time ----

cdef void start_timer(TcpWorker *tcp, TcpConnection *connection) noexcept nogil:
    cdef int64_t deadline = connection.idle_since + connection.limit
    if connection.blocked_since:
        deadline = connection.blocked_since + connection.write_limit
    elif connection.outstanding or connection.transfer != NULL:
        deadline = tcp.base.worker.now + connection.limit
    if connection.due and connection.due < deadline:
        deadline = connection.due
    tcp.base.worker.ops.timer_start(tcp.base.worker, &connection.timer, deadline)


cdef void on_idle(Timer *timer, Worker *worker) noexcept nogil:
    """The connection may have been used since the timer was started: it is closed only if it has been idle for the whole time."""
    cdef TcpConnection *connection = <TcpConnection *>timer.data
    cdef TcpWorker *tcp = connection.tcp
    cdef linger at_once
    if connection.due and worker.now >= connection.due:
        connection.protocol.expire(connection)
        if connection.broken:
            return
        worker_flush(worker, &connection.flush)
    if connection.blocked_since and worker.now - connection.blocked_since >= connection.write_limit:
        at_once.l_onoff = 1             # or the kernel would go on offering what it has to a client that does not read
        at_once.l_linger = 0
        setsockopt(connection.source.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once))
        connection_end(tcp, connection)
    elif connection.blocked_since == 0 and connection.outstanding == 0 and connection.transfer == NULL and (
            worker.now - connection.idle_since >= connection.limit):
        if connection.protocol.finish == NULL or connection.finishing:
            connection_end(tcp, connection)
            return
        connection.finishing = 1
        connection.idle_since = worker.now      # as long again for the last of it
        connection_finish(connection)
    else:
        start_timer(tcp, connection)
