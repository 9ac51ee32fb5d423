"""DNS over TCP on the workers. The contract is in engine/io/tcp.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memmove
from libc.errno cimport errno, EAGAIN, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM
from fastdns.system.atomic cimport atomic_bump32, atomic_peek32
from fastdns.engine.loop cimport Loop, Room
from fastdns.walk.query cimport Carrier, Mail, Query, ServerTable, TRANSPORT_TCP, worker_flush
from fastdns._mux cimport mux_workers, query_release, query_run, query_streamed, query_take, query_write
from fastdns.engine.io.tls cimport secure_end, secure_feed, secure_pending, secure_recv, secure_send
from fastdns.system.socket cimport (EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, IPPROTO_TCP, MSG_NOSIGNAL, SHUT_RDWR, SO_LINGER, SOCK_CLOEXEC,
                                    SOCK_NONBLOCK, SOL_SOCKET, TCP_NODELAY, TCP_NOTSENT_LOWAT, accept4, close, getpeername, getsockname, linger, recv,
                                    send, setsockopt, shutdown, sockaddr, sockaddr_in6, socklen_t)
from fastdns.system.address cimport address_from_socket
from fastdns._wire cimport ACCEPT, IGNORE, HEADER_SIZE, MESSAGE_MAX, Acceptance, load16, store16, wire_accept, wire_reject

cdef enum:
    MILLISECOND = 1000000


# ---- accepting ----

cdef int tcp_options(sock) except -1:
    try:
        sock.setsockopt(IPPROTO_TCP, TCP_NOTSENT_LOWAT, OUTPUT_PAUSE)
    except OSError:
        pass
    return 0


cdef int tcp_listen_begin(TcpListener *listener, Worker *worker) noexcept nogil:
    listener.source.ready = on_connections
    listener.open = 1
    listener.pause.fire = on_pause_over
    listener.pause.data = listener
    return worker.ops.watch(worker, &listener.source, 0)


cdef void tcp_listen_end(TcpListener *listener, Worker *worker) noexcept nogil:
    worker.ops.timer_stop(worker, &listener.pause)
    if listener.open:
        worker.ops.unwatch(worker, &listener.source)
    listener.open = 0
    if (<Loop *>worker).room.listener == listener:
        (<Loop *>worker).room.listener = NULL
    tcp_finish(worker, listener.generation)


cdef void tcp_finish(Worker *worker, uint32_t generation) noexcept nogil:
    # What they asked is answered; then they end. Those that take their time find no server any more (server_of).
    cdef TcpConnection *connection = <TcpConnection *>(<Loop *>worker).connections
    while connection != NULL:
        if connection.generation == generation:
            connection.last = 1
            worker_flush(worker, &connection.flush)
        connection = connection.next


cdef void on_pause_over(Timer *timer, Worker *worker) noexcept nogil:
    go_on_accepting(<TcpListener *>timer.data, worker)


cdef void go_on_accepting(TcpListener *listener, Worker *worker) noexcept nogil:
    worker.ops.timer_stop(worker, &listener.pause)
    worker.ops.watch(worker, &listener.source, EPOLLIN)
    listener.open = 1


cdef void pause_accepting(TcpListener *listener, Worker *worker) noexcept nogil:
    """Out of descriptors, memory or places: the socket stays ready, so it is not watched for a while."""
    worker.ops.unwatch(worker, &listener.source)
    listener.open = 0
    worker.ops.timer_start(worker, &listener.pause, worker.now + ACCEPT_PAUSE)


cdef void on_connections(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef TcpListener *listener = <TcpListener *>source
    cdef Loop *loop = <Loop *>worker
    cdef sockaddr_in6 peer
    cdef socklen_t length
    cdef int fd, i
    cdef int limit = <uint32_t>CONNECTIONS_MAX // worker.workers
    for i in range(ACCEPT_BATCH):
        if loop.connection_count >= limit:
            # Room is made for a client that is surely there: the one that woke us.
            if i:
                return
            if not make_room(loop):
                pause_accepting(listener, worker)
                return
        length = sizeof(peer)
        fd = accept4(source.fd, <sockaddr *>&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC)
        if fd < 0 and i == 0 and errno in (EMFILE, ENFILE, ENOBUFS, ENOMEM):
            if not find_room(loop, listener):
                pause_accepting(listener, worker)
                return
            fd = accept4(source.fd, <sockaddr *>&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC)
        if fd < 0:
            if errno == EINTR:
                continue
            return
        if begin_connection(loop, listener.listener, listener.generation, fd, &peer) == NULL:
            close(fd)


cdef void tcp_adopt(Worker *worker, int fd, void *secure, uint8_t transport, uint32_t listener, uint32_t generation, int64_t since) noexcept nogil:
    cdef Loop *loop = <Loop *>worker
    cdef TcpConnection *connection = NULL
    cdef sockaddr_in6 peer
    cdef socklen_t length = sizeof(peer)
    if worker.set.listeners[listener] == generation and getpeername(fd, <sockaddr *>&peer, &length) == 0 and (
            loop.connection_count < <uint32_t>CONNECTIONS_MAX // worker.workers or make_room(loop)):
        connection = begin_connection(loop, listener, generation, fd, &peer)
    if connection == NULL:
        if secure != NULL:
            secure_end(secure)
        close(fd)
        return
    connection.secure = secure
    connection.transport = transport
    connection.idle_since = since
    worker.ops.timer_start(worker, &connection.timer, since + connection.limit)
    if secure != NULL and secure_pending(secure):       # what came along with the end of the handshake
        take_secure(loop, connection)
        if not connection.broken:
            worker_flush(worker, &connection.flush)


cdef inline int worth(const TcpConnection *connection) noexcept nogil:
    """What ends first where room is needed: 0 never asked anything, 1 idle, 2 does not read its replies, 3 nor its transfer; 4 at work."""
    if connection.blocked_since:
        return 2 if connection.transfer == NULL else 3
    if connection.output_used != connection.output_sent or connection.outstanding or connection.transfer != NULL:
        return 4
    return 1 if connection.queries else 0


cdef bint find_room(Loop *loop, TcpListener *listener) noexcept nogil:
    """A descriptor for the next client, at the cost of the worker that has the most connections: one to which all its clients came too late
    would else never have any. False when there is none, or none yet."""
    if loop.room.asked:
        return False
    if not loop.room.refused and ask_for_room(loop, listener):
        return False
    loop.room.refused = 0
    return make_room(loop)


cdef bint ask_for_room(Loop *loop, TcpListener *listener) noexcept nogil:
    """False when no other worker has more connections."""
    cdef uint32_t i, count, most = loop.connection_count
    cdef Worker *richest = NULL
    for i in range(loop.base.workers):
        count = atomic_peek32(&(<Loop *>mux_workers[i]).connection_count)
        if count > most:
            most = count
            richest = mux_workers[i]
    if richest == NULL:
        return False
    loop.room.mail.run = on_asked_for_room
    loop.room.asker = &loop.base
    loop.room.listener = listener
    loop.room.fd = -1
    loop.room.asked = 1
    richest.ops.post(richest, &loop.room.mail)
    return True


cdef void on_asked_for_room(Mail *mail, Worker *worker) noexcept nogil:
    """On the worker that is asked. The connection ends at once, but for its descriptor, which the other gets."""
    cdef Room *room = <Room *>mail
    cdef TcpConnection *connection = least_worth(<Loop *>worker)
    if connection != NULL and worker.now - connection.idle_since >= ROOM_GRACE:
        room.fd = connection.source.fd
        shutdown(room.fd, SHUT_RDWR)
        forget_connection(<Loop *>worker, connection)
    room.mail.run = on_room
    room.asker.ops.post(room.asker, &room.mail)


cdef void on_room(Mail *mail, Worker *worker) noexcept nogil:
    """On the worker that asked, where the listener paused; or it is gone, or its pause is over and it had better luck."""
    cdef Room *room = <Room *>mail
    cdef TcpListener *listener = room.listener
    room.listener = NULL
    room.asked = 0
    room.refused = room.fd < 0
    if room.fd >= 0:
        close(room.fd)
    if listener != NULL:
        if not listener.open:
            go_on_accepting(listener, worker)
        on_connections(&listener.source, worker, EPOLLIN)


cdef bint make_room(Loop *loop) noexcept nogil:
    """Ends a connection of this worker; False when all are at work."""
    cdef TcpConnection *connection = least_worth(loop)
    if connection == NULL:
        return False
    end_connection(loop, connection)
    return True


cdef TcpConnection *least_worth(Loop *loop) noexcept nogil:
    """The connection that is worth least among the oldest ones, of equals that which has been so longest; NULL when all are at work."""
    cdef TcpConnection *connection = <TcpConnection *>loop.last_connection
    cdef TcpConnection *chosen = NULL
    cdef int least = 4, rank
    for _ in range(ROOM_SEARCH):
        if connection == NULL:
            break
        rank = worth(connection)
        if rank < least or rank == least < 4 and connection.idle_since < chosen.idle_since:
            chosen = connection
            least = rank
        connection = connection.previous
    return chosen


cdef TcpConnection *begin_connection(Loop *loop, uint32_t listener, uint32_t generation, int fd, const sockaddr_in6 *peer) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>calloc(1, sizeof(TcpConnection))
    cdef ServerTable *server = loop.base.set.servers[listener]
    cdef sockaddr_in6 name
    cdef socklen_t length = sizeof(name)
    cdef int one = 1
    if connection == NULL or server == NULL:
        free(connection)
        return NULL
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
    connection.source.fd = fd
    connection.source.ready = on_connection
    connection.source.data = loop
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
    connection.idle_since = loop.base.now
    connection.limit = <int64_t>server.read_timeout * MILLISECOND       # for the first message; later ones have the idle timeout
    connection.write_limit = <int64_t>server.write_timeout * MILLISECOND
    connection.events = EPOLLIN
    connection.next = <TcpConnection *>loop.connections
    if connection.next != NULL:
        connection.next.previous = connection
    else:
        loop.last_connection = connection
    loop.connections = connection
    atomic_bump32(&loop.connection_count, 1)
    loop.base.ops.watch(&loop.base, &connection.source, EPOLLIN)
    loop.base.ops.timer_start(&loop.base, &connection.timer, connection.idle_since + connection.limit)
    return connection


cdef void end_connection(Loop *loop, TcpConnection *connection) noexcept nogil:
    cdef int fd = connection.source.fd
    forget_connection(loop, connection)
    if fd >= 0:
        close(fd)


cdef void forget_connection(Loop *loop, TcpConnection *connection) noexcept nogil:
    """All of its end but closing the descriptor. Queries of it that are under way find `broken` and are forgotten when they end; the last one frees
    the memory."""
    if connection.source.fd >= 0:
        loop.base.ops.unwatch(&loop.base, &connection.source)
        connection.source.fd = -1
        loop.base.ops.timer_stop(&loop.base, &connection.timer)
        if connection.secure != NULL:
            secure_end(connection.secure)
            connection.secure = NULL
        loop.connection_octets -= connection.output_size + connection.input_size
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
            loop.connections = connection.next
        if connection.next != NULL:
            connection.next.previous = connection.previous
        else:
            loop.last_connection = connection.previous
        atomic_bump32(&loop.connection_count, -1)
    connection.broken = 1
    if connection.outstanding == 0 and not connection.parsing:
        worker_flush(&loop.base, &connection.flush)         # events of this batch may still name it: it is freed at the batch's end


cdef void tcp_close_all(Worker *worker) noexcept nogil:
    cdef Loop *loop = <Loop *>worker
    while loop.connections != NULL:
        end_connection(loop, <TcpConnection *>loop.connections)


# ---- reading ----

cdef void on_connection(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>source
    cdef Loop *loop = <Loop *>worker
    if connection.broken:
        return
    if events & (EPOLLERR | EPOLLHUP):
        end_connection(loop, connection)
        return
    if connection.secure != NULL:
        if events & EPOLLIN:
            read_secure(loop, connection)
    elif events & EPOLLIN and read_more(loop, connection):
        parse(loop, connection)
    if not connection.broken:
        worker_flush(worker, &connection.flush)


cdef void read_secure(Loop *loop, TcpConnection *connection) noexcept nogil:
    """One recv, and what it decrypts to."""
    cdef uint8_t octets[SECURE_SIZE]
    cdef ssize_t n = recv(connection.source.fd, octets, SECURE_SIZE, 0)
    if n > 0 and secure_feed(connection.secure, octets, n) == 0:
        take_secure(loop, connection)
    elif n == 0:
        connection.eof = 1
    elif n > 0 or errno != EAGAIN and errno != EINTR:
        end_connection(loop, connection)


cdef void take_secure(Loop *loop, TcpConnection *connection) noexcept nogil:
    while may_read(connection) and read_more(loop, connection):
        parse(loop, connection)


cdef bint reserve_input(Loop *loop, TcpConnection *connection, uint32_t size) noexcept nogil:
    """Room for `size` octets from input_done on: what is processed is moved out first. False when there is none, here or for all."""
    cdef uint8_t *bigger
    if connection.input_done:
        memmove(connection.input, connection.input + connection.input_done, connection.input_used - connection.input_done)
        connection.input_used -= connection.input_done
        connection.input_done = 0
    if size <= connection.input_size:
        return True
    if size > INPUT_SIZE and loop.connection_octets + size - connection.input_size > OUTPUT_MAX:
        return False
    bigger = <uint8_t *>realloc(connection.input, size)
    if bigger == NULL:
        return False
    loop.connection_octets += size - connection.input_size
    connection.input = bigger
    connection.input_size = size
    return True


cdef bint read_more(Loop *loop, TcpConnection *connection) noexcept nogil:
    """One recv; False when there is nothing to parse (or no connection any more)."""
    cdef uint32_t pending = connection.input_used - connection.input_done
    cdef uint32_t wanted = INPUT_SIZE
    cdef ssize_t n
    if pending >= 2 and load16(connection.input + connection.input_done) + 2 > wanted:
        wanted = load16(connection.input + connection.input_done) + 2
    if pending == connection.input_size - connection.input_done or connection.input_used == connection.input_size:
        if not reserve_input(loop, connection, max(wanted, pending + 512)):
            end_connection(loop, connection)
            return False
    if connection.secure != NULL:
        n = secure_recv(connection.secure, connection.input + connection.input_used, connection.input_size - connection.input_used)
    else:
        n = recv(connection.source.fd, connection.input + connection.input_used, connection.input_size - connection.input_used, 0)
    if n > 0:
        connection.input_used += <uint32_t>n
        return True
    if n < 0 and (errno == EAGAIN or errno == EINTR):
        return False
    if n < 0:
        end_connection(loop, connection)
        return False
    connection.eof = 1
    return False


cdef inline bint may_read(const TcpConnection *connection) noexcept nogil:
    return (connection.outstanding < OUTSTANDING_MAX and connection.output_used - connection.output_sent < OUTPUT_PAUSE
            and connection.transfer == NULL and not connection.last and not connection.broken)


cdef void parse(Loop *loop, TcpConnection *connection) noexcept nogil:
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
        on_message(loop, connection, connection.input + connection.input_done - size, size)
    connection.parsing = 0
    if connection.broken and connection.outstanding == 0:
        worker_flush(&loop.base, &connection.flush)
    elif connection.input_done == connection.input_used:
        connection.input_done = connection.input_used = 0
        if connection.input_size > INPUT_SIZE and connection.outstanding == 0:
            loop.connection_octets -= connection.input_size
            free(connection.input)
            connection.input = NULL
            connection.input_size = 0


cdef inline ServerTable *server_of(const Loop *loop, const TcpConnection *connection) noexcept nogil:
    """What serves the connection's listener now; NULL when nothing does, be it that another listener has its number."""
    if loop.base.set.listeners[connection.listener] != connection.generation:
        return NULL
    return loop.base.set.servers[connection.listener]


cdef void on_message(Loop *loop, TcpConnection *connection, const uint8_t *packet, uint32_t size) noexcept nogil:
    cdef uint8_t rcode
    cdef uint8_t *out
    cdef Acceptance how
    cdef ServerTable *server = server_of(loop, connection)
    cdef Query *q
    connection.queries += 1
    connection.idle_since = loop.base.now
    if server == NULL:                  # the address is no longer served: what was asked before is answered, then it ends
        connection.last = 1
        return
    connection.limit = <int64_t>server.idle_timeout * MILLISECOND
    connection.write_limit = <int64_t>server.write_timeout * MILLISECOND
    if server.max_tcp_queries and connection.queries >= server.max_tcp_queries:
        connection.last = 1
    q = query_take(&loop.base)
    if q == NULL:
        end_connection(loop, connection)
        return
    if connection.broken:               # a query of its own was pushed out for this one, and its reply was one too many
        query_release(q)
        return
    how = wire_accept(packet, size, &q.message, &q.first_name, &rcode)
    if how == IGNORE:
        query_release(q)
        return
    if how != ACCEPT:
        out = reserve_output(loop, connection, 2 + HEADER_SIZE + 260)
        if out != NULL:
            size = wire_reject(packet, &q.message, how, rcode, out + 2)
            store16(out, size)
            connection.output_used += 2 + size
        query_release(q)
        return
    q.packet = packet
    q.packet_length = size
    q.transport = connection.transport
    q.carrier = &TCP
    q.connection = connection
    q.listener = connection.listener
    q.received = loop.base.now
    q.client = connection.client
    q.local = connection.local
    q.set = loop.base.set
    q.server = server
    connection.outstanding += 1
    query_run(q)


# ---- writing ----

cdef uint8_t *reserve_output(Loop *loop, TcpConnection *connection, uint32_t size) noexcept nogil:
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
        if loop.connection_octets + wanted - connection.output_size > OUTPUT_MAX:
            end_connection(loop, connection)
            return NULL
        bigger = <uint8_t *>realloc(connection.output, wanted)
        if bigger == NULL:
            end_connection(loop, connection)
            return NULL
        loop.connection_octets += wanted - connection.output_size
        connection.output = bigger
        connection.output_size = wanted
    return connection.output + connection.output_used


cdef void settled(Loop *loop, TcpConnection *connection) noexcept nogil:
    """A query of the connection has ended, with a reply or without."""
    connection.outstanding -= 1
    connection.idle_since = loop.base.now
    worker_flush(&loop.base, &connection.flush)


cdef void send_reply(Query *q) noexcept nogil:
    cdef Loop *loop = <Loop *>q.worker
    cdef TcpConnection *connection = <TcpConnection *>q.connection
    cdef uint8_t *out
    cdef uint32_t size
    if not connection.broken:
        out = reserve_output(loop, connection, 2 + q.reply.message_size)
        if out != NULL:
            size = query_write(q, out + 2)
            store16(out, size)
            connection.output_used += 2 + size
    settled(loop, connection)


cdef void no_reply(Query *q) noexcept nogil:
    settled(<Loop *>q.worker, <TcpConnection *>q.connection)


cdef void begin_stream(Query *q) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>q.connection
    if connection.broken or connection.transfer != NULL:
        q.stream.close(q.stream)
        query_streamed(q, 0)
    else:
        connection.transfer = q
        connection.transferred = 0
    settled(<Loop *>q.worker, connection)

cdef Carrier TCP
TCP.send = send_reply
TCP.dropped = no_reply
TCP.stream = begin_stream


cdef void end_transfer(TcpConnection *connection) noexcept nogil:
    cdef Query *q = connection.transfer
    connection.transfer = NULL
    q.stream.close(q.stream)
    query_streamed(q, connection.transferred)


cdef bint pull_stream(Loop *loop, TcpConnection *connection) noexcept nogil:
    """The next message of a transfer into the output; False when there is none any more."""
    cdef uint8_t *out = reserve_output(loop, connection, 2 + MESSAGE_MAX)
    cdef int64_t size
    if out == NULL:
        return False
    size = connection.transfer.stream.pull(connection.transfer.stream, out + 2, MESSAGE_MAX)
    if size > 0:
        store16(out, <uint32_t>size)
        connection.output_used += 2 + <uint32_t>size
        connection.transferred += <uint32_t>size
        connection.idle_since = loop.base.now
        return True
    end_transfer(connection)
    if size < 0:
        end_connection(loop, connection)
    return False


cdef bint write_output(Loop *loop, TcpConnection *connection) noexcept nogil:
    """Writes what is pending; True when all of it went out."""
    cdef ssize_t n
    while connection.output_sent < connection.output_used:
        if connection.output_sent == connection.output_end:
            connection.output_end += 2 + load16(connection.output + connection.output_end)
        if connection.secure != NULL:
            n = secure_send(connection.secure, connection.output + connection.output_sent, connection.output_used - connection.output_sent)
        else:
            n = send(connection.source.fd, connection.output + connection.output_sent, connection.output_used - connection.output_sent, MSG_NOSIGNAL)
        if n < 0:
            if errno == EINTR:
                continue
            if errno == EAGAIN:
                if connection.blocked_since == 0:
                    connection.blocked_since = loop.base.now
                return False
            end_connection(loop, connection)
            return False
        connection.output_sent += <uint32_t>n
        # Only whole messages are progress, or a client that takes an octet now and then would hold it, and its configuration, for ever.
        if connection.output_sent >= connection.output_end:
            connection.blocked_since = 0
            while connection.output_end < connection.output_sent:
                connection.output_end += 2 + load16(connection.output + connection.output_end)
    connection.output_used = connection.output_sent = connection.output_end = 0
    if connection.output_size > OUTPUT_PAUSE or connection.transfer == NULL and connection.output_size > 16384:
        loop.connection_octets -= connection.output_size
        free(connection.output)
        connection.output = NULL
        connection.output_size = 0
    return True


cdef void flush_connection(Flush *flush, Worker *worker) noexcept nogil:
    """At the end of a batch: writes, goes on reading where it had stopped, and settles what to wait for."""
    cdef TcpConnection *connection = <TcpConnection *>flush.data
    cdef Loop *loop = <Loop *>worker
    cdef uint32_t events, pulled = 0
    cdef bint all_out
    if connection.broken:
        if connection.outstanding == 0:
            free(connection)
        return
    while True:
        all_out = write_output(loop, connection)
        if connection.broken:
            return
        if all_out and connection.transfer != NULL and connection.outstanding == 0:
            if pulled == STREAM_BATCH:      # a client that reads as fast as we write: others have their turn first
                if connection.blocked_since == 0:
                    connection.blocked_since = loop.base.now    # or one that does not: the kernel took what it could
                all_out = False
                break
            pulled += 1
            pull_stream(loop, connection)
            if connection.broken:
                return
            if connection.output_used:
                continue
        if connection.input_used - connection.input_done >= 2 and may_read(connection):
            parse(loop, connection)
            if connection.broken:
                return
            if connection.output_used > connection.output_sent and all_out:
                continue
        if connection.secure != NULL and may_read(connection) and secure_pending(connection.secure):
            take_secure(loop, connection)
            if connection.broken:
                return
            if connection.output_used > connection.output_sent and all_out:
                continue
        break
    if all_out and connection.outstanding == 0 and connection.transfer == NULL and (connection.eof or connection.last):
        end_connection(loop, connection)
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
        start_timer(loop, connection)


# ---- time ----

cdef void start_timer(Loop *loop, TcpConnection *connection) noexcept nogil:
    cdef int64_t deadline = connection.idle_since + connection.limit
    if connection.blocked_since:
        deadline = connection.blocked_since + connection.write_limit
    elif connection.outstanding or connection.transfer != NULL:
        deadline = loop.base.now + connection.limit
    loop.base.ops.timer_start(&loop.base, &connection.timer, deadline)


cdef void on_idle(Timer *timer, Worker *worker) noexcept nogil:
    """The connection may have been used since the timer was started: it is closed only if it has been idle for the whole time."""
    cdef TcpConnection *connection = <TcpConnection *>timer.data
    cdef Loop *loop = <Loop *>worker
    cdef linger at_once
    if connection.blocked_since and worker.now - connection.blocked_since >= connection.write_limit:
        at_once.l_onoff = 1             # or the kernel would go on offering what it has to a client that does not read
        at_once.l_linger = 0
        setsockopt(connection.source.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once))
        end_connection(loop, connection)
    elif connection.blocked_since == 0 and connection.outstanding == 0 and connection.transfer == NULL and (
            worker.now - connection.idle_since >= connection.limit):
        end_connection(loop, connection)
    else:
        start_timer(loop, connection)
