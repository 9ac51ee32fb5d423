"""Questions over TCP. The contract is in _connection.pxd."""
from libc.errno cimport EAGAIN, ECONNRESET, EINPROGRESS, EINTR, EPIPE, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport Flush, Source, Timer, Worker, worker_flush
from fastdns.api.wire cimport HEADER_SIZE, load16, store16, wire_answers
from fastdns.api.metrics cimport metric_add
from fastdns.api.memory cimport atomic_load32, atomic_peek_ns, atomic_poke_ns, atomic_store32
from fastdns.api.random cimport random_next
from fastdns.api.network cimport EPOLLIN, EPOLLOUT, IPPROTO_TCP, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_STREAM, TCP_NODELAY, close, connect, recv, send, sockaddr
from fastdns.plugins.forward._system cimport socket_connected, socket_error, socket_option
from fastdns.plugins.forward._upstream cimport (BEGUN, BROKEN, CONNECTION_DEPTH, CONNECTIONS, CONNECTIONS_MAX, CONNECTION_SLOTS, Connection, Exchange,
                                                Peer, Settings, Share, Stock, Upstream, WAY_NONE, WAY_TCP, stock_exchange, stock_of, stocks,
                                                upstream_error, upstream_socket)

cdef enum:
    OUT_KEPT = 4096                 # octets of an output buffer that an idle connection keeps
    OUT_MAX = 262144
    ROUNDS = 4                      # reads from one connection before others have their turn
    SECOND = 1000000000
    DIAL_MOST = 5                   # seconds; CoreDNS waits up to 30, when its client is long gone


# ---- opening ----

cdef int64_t dial_timeout(Upstream *upstream) noexcept nogil:
    """A second where connecting is quick; twice the average where it is not."""
    cdef int64_t average = atomic_peek_ns(&upstream.dial)
    if average < SECOND:
        return SECOND
    return 2 * average if 2 * average < DIAL_MOST * <int64_t>SECOND else DIAL_MOST * <int64_t>SECOND


cdef void note_dial(Upstream *upstream, int64_t took) noexcept nogil:
    cdef int64_t average = atomic_peek_ns(&upstream.dial)
    atomic_poke_ns(&upstream.dial, average + (took - average) // 4)


cdef Connection *open_connection(Peer *peer, Exchange *e) noexcept nogil:
    cdef Worker *worker = peer.share.worker
    cdef Stock *stock = stock_of(worker)
    cdef Connection *c
    cdef int status
    cdef int fd = upstream_socket(peer.share.settings, peer.upstream, SOCK_STREAM)
    if fd < 0:
        upstream_error(e, b"dial", b"tcp", -1, b"socket", errno)
        return NULL
    socket_option(fd, IPPROTO_TCP, TCP_NODELAY, 1)
    if connect(fd, <const sockaddr *>peer.upstream.address, peer.upstream.address_length) < 0 and errno != EINPROGRESS:
        upstream_error(e, b"dial", b"tcp", -1, b"connect", errno)
        close(fd)
        return NULL
    c = stock.free_connections
    if c != NULL:
        stock.free_connections = c.next
        memset(c, 0, sizeof(Connection))
    else:
        c = <Connection *>calloc(1, sizeof(Connection))
        if c == NULL:
            close(fd)
            return NULL
    c.peer = peer
    c.opened = worker.now
    c.used = worker.now
    c.source.fd = fd
    c.source.ready = on_ready
    c.source.data = c
    c.dial.fire = on_dial_timeout
    c.dial.data = c
    c.flush.run = on_flush
    c.flush.data = c
    c.watching_out = 1
    status = worker.ops.watch(worker, &c.source, EPOLLIN | EPOLLOUT)
    if status < 0:
        upstream_error(e, b"dial", b"tcp", -1, b"epoll_ctl", -status)
        close(fd)
        c.source.fd = -1
        c.next = stock.free_connections
        stock.free_connections = c
        return NULL
    worker.ops.timer_start(worker, &c.dial, worker.now + dial_timeout(peer.upstream))
    c.previous = peer.last
    if peer.last != NULL:
        peer.last.next = c
    else:
        peer.connections = c
    peer.last = c
    peer.connection_count += 1
    if atomic_load32(&peer.upstream.host) == 0:
        atomic_store32(&peer.upstream.host, worker.id + 1)
    return c


cdef void close_connection(Connection *c) noexcept nogil:
    cdef Peer *peer = c.peer
    cdef Worker *worker = peer.share.worker
    cdef Stock *stock = stocks[worker.id]
    if c.source.fd < 0:
        return
    worker.ops.timer_stop(worker, &c.dial)
    worker.ops.unwatch(worker, &c.source)
    close(c.source.fd)
    c.source.fd = -1
    if c.previous != NULL:
        c.previous.next = c.next
    else:
        peer.connections = c.next
    if c.next != NULL:
        c.next.previous = c.previous
    else:
        peer.last = c.previous
    peer.connection_count -= 1
    if peer.connection_count == 0 and atomic_load32(&peer.upstream.host) == worker.id + 1:
        atomic_store32(&peer.upstream.host, 0)
    free(c.out)
    c.out = NULL
    free(c.partial)
    c.partial = NULL
    c.retired = 1
    if not c.flush.queued:
        give_back(c, stock)


cdef void give_back(Connection *c, Stock *stock) noexcept nogil:
    """A connection whose flush is still queued goes back when that has run."""
    c.previous = NULL
    c.next = stock.free_connections
    stock.free_connections = c


cdef bint worn(const Connection *c, const Settings *settings, int64_t now) noexcept nogil:
    return c.waiting == 0 and now - c.used > settings.expire or settings.max_age and now - c.opened > settings.max_age


cdef Connection *choose(Peer *peer) noexcept nogil:
    """The oldest idle connection, else the one with the least to do; NULL: open one."""
    cdef Connection *c = peer.connections
    cdef Connection *following
    cdef Connection *best = NULL
    while c != NULL:
        following = c.next
        if not c.retired and worn(c, peer.share.settings, peer.share.worker.now):
            c.retired = 1
            if c.waiting == 0 and not c.busy:
                close_connection(c)
        elif not c.retired and c.waiting < CONNECTION_DEPTH and (best == NULL or c.waiting < best.waiting):
            best = c
            if c.waiting == 0:
                break
        c = following
    if best != NULL and best.waiting and peer.connection_count < CONNECTIONS:
        return NULL
    return best


# ---- asking ----

cdef int connection_begin(Exchange *e, Peer *peer) noexcept nogil:
    cdef Worker *worker = peer.share.worker
    cdef Connection *c = NULL
    cdef uint32_t id, tries = 0
    if not e.alone or peer.connection_count >= CONNECTIONS_MAX:
        c = choose(peer)
    e.opened = c == NULL
    if c == NULL:
        if peer.connection_count >= CONNECTIONS_MAX:
            snprintf(e.error, ERROR_MAX, b"dial tcp %s: too many connections", peer.upstream.text)
            return BROKEN
        c = open_connection(peer, e)
        if c == NULL:
            return BROKEN
    metric_add(peer.upstream.misses[1] if e.opened else peer.upstream.hits[1], worker.id, 1)
    if not make_room(c, e.size + 2):
        snprintf(e.error, ERROR_MAX, b"write tcp %s: output buffer is full", peer.upstream.text)
        if e.opened:
            close_connection(c)
        return BROKEN
    id = random_next(&worker.random) & 0xFFFF
    while c.slots[id & (CONNECTION_SLOTS - 1)] != 0:
        tries += 1
        id = random_next(&worker.random) & 0xFFFF if tries < 32 else (id + 1) & 0xFFFF
    c.slots[id & (CONNECTION_SLOTS - 1)] = <uint16_t>e.number
    c.waiting += 1
    e.way = WAY_TCP
    e.id = <uint16_t>id
    e.connection = c
    store16(e.request, id)
    store16(c.out + c.out_used, e.size)
    memcpy(c.out + c.out_used + 2, e.request, e.size)
    c.out_used += e.size + 2
    if c.connected:
        worker_flush(worker, &c.flush)
        peer.share.sent(e)
    return BEGUN


cdef bint make_room(Connection *c, uint32_t size) noexcept nogil:
    cdef uint32_t wanted = c.out_size if c.out_size else OUT_KEPT
    cdef uint8_t *out
    if c.out_sent and c.out_size - c.out_used < size:
        memmove(c.out, c.out + c.out_sent, c.out_used - c.out_sent)
        c.out_used -= c.out_sent
        c.out_sent = 0
    while wanted < c.out_used + size:
        wanted *= 2
    if wanted > OUT_MAX:
        return False
    if wanted != c.out_size:
        out = <uint8_t *>realloc(c.out, wanted)
        if out == NULL:
            return False
        c.out = out
        c.out_size = wanted
    return True


cdef void connection_forget(Exchange *e) noexcept nogil:
    cdef Connection *c = e.connection
    c.slots[e.id & (CONNECTION_SLOTS - 1)] = 0
    c.waiting -= 1
    e.connection = NULL
    e.way = WAY_NONE
    if c.waiting:
        return
    c.used = c.peer.share.worker.now
    if not c.busy and (c.retired or too_many_idle(c)):
        close_connection(c)


cdef bint too_many_idle(const Connection *c) noexcept nogil:
    cdef uint32_t idle = 0, most = c.peer.share.settings.max_idle
    cdef const Connection *other = c.peer.connections
    if most == 0:
        return False
    while other != NULL:
        idle += other.waiting == 0
        other = other.next
    return idle > most


cdef void connection_suspect(Exchange *e) noexcept nogil:
    e.connection.retired = 1


# ---- writing ----

cdef void write_out(Connection *c) noexcept nogil:
    cdef Worker *worker = c.peer.share.worker
    cdef ssize_t n
    cdef uint8_t wanted = 0
    while c.out_sent < c.out_used:
        n = send(c.source.fd, c.out + c.out_sent, c.out_used - c.out_sent, MSG_DONTWAIT | MSG_NOSIGNAL)
        if n >= 0:
            c.out_sent += <uint32_t>n
        elif errno == EAGAIN:
            wanted = 1
            break
        elif errno != EINTR:
            broken(c, b"write", errno)
            return
    if not wanted:
        c.out_sent = 0
        c.out_used = 0
        if c.out_size > OUT_KEPT:
            free(c.out)
            c.out = NULL
            c.out_size = 0
    if wanted != c.watching_out:
        c.watching_out = wanted
        worker.ops.rewatch(worker, &c.source, EPOLLIN | EPOLLOUT if wanted else EPOLLIN)


cdef void on_flush(Flush *flush, Worker *worker) noexcept nogil:
    cdef Connection *c = <Connection *>flush.data
    if c.source.fd < 0:
        give_back(c, stocks[worker.id])
    elif c.connected and not c.watching_out:
        write_out(c)


# ---- events ----

cdef void on_dial_timeout(Timer *timer, Worker *worker) noexcept nogil:
    cdef Connection *c = <Connection *>timer.data
    note_dial(c.peer.upstream, worker.now - c.opened)
    broken(c, b"dial", 0)


cdef void on_ready(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef Connection *c = <Connection *>source.data
    if source.fd < 0:
        return
    if not c.connected:
        if not finish_dial(c):
            return
    elif events & EPOLLOUT:
        write_out(c)
        if source.fd < 0:
            return
    if events & ~<uint32_t>EPOLLOUT:
        read_in(c)


cdef bint finish_dial(Connection *c) noexcept nogil:
    cdef Worker *worker = c.peer.share.worker
    cdef Share *share = c.peer.share
    cdef Stock *stock = stocks[worker.id]
    cdef uint32_t i
    cdef int error
    if not socket_connected(c.source.fd):
        error = socket_error(c.source.fd)
        if error:
            note_dial(c.peer.upstream, worker.now - c.opened)
            broken(c, b"dial", error)
        return False
    worker.ops.timer_stop(worker, &c.dial)
    c.connected = 1
    note_dial(c.peer.upstream, worker.now - c.opened)
    for i in range(CONNECTION_SLOTS):
        if c.slots[i]:
            share.sent(stock_exchange(stock, c.slots[i]))
    write_out(c)
    return c.source.fd >= 0


cdef void read_in(Connection *c) noexcept nogil:
    """Reads what is there; whole messages are handed out, the beginning of the next one is kept."""
    cdef Stock *stock = stocks[c.peer.share.worker.id]
    cdef uint8_t *into = stock.big
    cdef uint32_t used, at
    cdef ssize_t n
    cdef int _round, error = 0
    cdef bint ended = False
    c.busy = 1
    for _round in range(ROUNDS):
        used = c.partial_used
        if used:
            memcpy(into, c.partial, used)
        n = recv(c.source.fd, into + used, sizeof(stock.big) - used, MSG_DONTWAIT)
        if n <= 0:
            error = errno if n < 0 else 0
            ended = n == 0 or (error != EAGAIN and error != EINTR)
            break
        used += <uint32_t>n
        at = 0
        while used - at >= 2 and used - at - 2 >= load16(into + at):
            take(c, stock, into + at + 2, load16(into + at))
            at += 2 + load16(into + at)
        if not keep_partial(c, into + at, used - at):
            ended = True
            break
        if <size_t>n < sizeof(stock.big) - (used - <uint32_t>n):
            break
    c.busy = 0
    if ended:
        broken(c, b"read", error)
    elif c.waiting == 0 and (c.retired or too_many_idle(c)):
        close_connection(c)


cdef bint keep_partial(Connection *c, const uint8_t *octets, uint32_t size) noexcept nogil:
    if size == 0:
        free(c.partial)
        c.partial = NULL
        c.partial_size = 0
    elif size > c.partial_size:
        free(c.partial)
        c.partial = <uint8_t *>malloc(size)
        c.partial_size = size if c.partial != NULL else 0
        if c.partial == NULL:
            return False
    c.partial_used = size
    if size:
        memcpy(c.partial, octets, size)
    return True


cdef void take(Connection *c, Stock *stock, const uint8_t *packet, uint32_t length) noexcept nogil:
    cdef uint16_t id
    cdef uint32_t number
    cdef Exchange *e
    if length < HEADER_SIZE:
        return
    id = load16(packet)
    number = c.slots[id & (CONNECTION_SLOTS - 1)]
    if number == 0:
        return
    e = stock_exchange(stock, number)
    if e.id == id and e.connection == c and wire_answers(packet, length, e.request, e.question_length):
        c.peer.share.answered(e, packet, length, False)


cdef void broken(Connection *c, const char *operation, int error) noexcept nogil:
    """The connection is gone. Questions that went out on a kept one are asked again on one of their own: the upstream may just have tired of it."""
    cdef Share *share = c.peer.share
    cdef Stock *stock = stocks[share.worker.id]
    cdef Exchange *e
    cdef uint32_t i, number
    cdef bint dialled = c.connected
    c.retired = 1
    c.busy = 1
    for i in range(CONNECTION_SLOTS):
        number = c.slots[i]
        if number == 0:
            continue
        e = stock_exchange(stock, number)
        if not dialled:
            upstream_error(e, b"dial", b"tcp", -1, b"connect", error)
        elif not e.opened and not e.alone and (error == 0 or error == ECONNRESET or error == EPIPE):
            connection_forget(e)
            e.alone = 1
            share.again(e)
            continue
        elif error == 0:
            snprintf(e.error, ERROR_MAX, b"EOF")
        else:
            upstream_error(e, operation, b"tcp", c.source.fd, operation, error)
        share.failed(e)
    c.busy = 0
    close_connection(c)


# ---- closing ----

cdef uint32_t connection_sweep(Peer *peer, int64_t before) noexcept nogil:
    cdef Connection *c = peer.connections
    cdef Connection *following
    cdef uint32_t left = 0
    while c != NULL:
        following = c.next
        if c.waiting == 0 and c.used < before and not c.busy:
            close_connection(c)
        else:
            left += 1
        c = following
    return left
