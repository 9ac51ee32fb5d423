"""Questions over connections. The contract is in transport/connection.pxd."""
from libc.errno cimport EINPROGRESS, errno
from libc.stdint cimport uint16_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc
from libc.string cimport memset
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport Flush, Mail, Timer, Worker, worker_flush
from fastdns.api.metrics cimport metric_add
from fastdns.api.memory cimport (atomic_load32, atomic_peek_ns, atomic_poke_ns, atomic_store32, list_append, list_first, list_init, list_last, list_next,
                                 list_remove)
from fastdns.api.random cimport random_next
from fastdns.api.network cimport EPOLLIN, EPOLLOUT, close, connect, sockaddr
from fastdns.plugins.forward.transport.framing cimport DNS_FRAMING
from fastdns.plugins.forward._upstream cimport (BEGUN, BROKEN, CONNECTION_DEPTH, CONNECTION_SLOTS, CONNECTIONS, CONNECTIONS_MAX, Connection, Exchange,
                                                PROTOCOL_TLS, PROTO_QUIC, PROTO_TCP, PROTO_TLS, Peer, Settings, Share, Stock, Upstream, WAY_CONNECTION,
                                                WAY_NONE, connection_of, stock_exchange, stock_of, stocks, upstream_encrypts, upstream_error,
                                                upstream_network, upstream_socket)

cdef enum:
    SECOND = 1000000000
    DIAL_MOST = 5                   # seconds; CoreDNS waits up to 30, when its client is long gone


# ---- opening ----

cdef int64_t dial_timeout(Upstream *upstream) noexcept nogil:
    """A second where connecting is quick; twice the average where it is not."""
    cdef int64_t average = atomic_peek_ns(&upstream.dial)
    if average < SECOND:
        return SECOND
    return 2 * average if 2 * average < DIAL_MOST * <int64_t>SECOND else DIAL_MOST * <int64_t>SECOND


cdef void connection_note_dial(Upstream *upstream, int64_t took) noexcept nogil:
    cdef int64_t average = atomic_peek_ns(&upstream.dial)
    atomic_poke_ns(&upstream.dial, average + (took - average) // 4)


cdef Connection *open_connection(Peer *peer, Exchange *e) noexcept nogil:
    cdef Worker *worker = peer.share.worker
    cdef Stock *stock = stock_of(worker)
    cdef Connection *c
    cdef int status
    cdef int fd = upstream_socket(peer.share.settings, peer.upstream, peer.upstream.transport.socket_type)
    if fd < 0:
        upstream_error(e, b"dial", upstream_network(peer.upstream), -1, b"socket", errno)
        return NULL
    if connect(fd, <const sockaddr *>peer.upstream.address, peer.upstream.address_length) < 0 and errno != EINPROGRESS:
        upstream_error(e, b"dial", upstream_network(peer.upstream), -1, b"connect", errno)
        close(fd)
        return NULL
    c = take_connection(stock)
    if c == NULL:
        snprintf(e.error, ERROR_MAX, b"out of memory")
        close(fd)
        return NULL
    c.peer = peer
    c.framing = DNS_FRAMING
    c.opened = worker.now
    c.used = worker.now
    c.source.fd = fd
    c.source.ready = peer.upstream.transport.ready
    c.source.data = c
    c.dial.fire = on_dial_timeout
    c.dial.data = c
    c.flush.run = on_flush
    c.flush.data = c
    c.again.run = on_again
    if not peer.upstream.transport.begin(c):
        snprintf(e.error, ERROR_MAX, b"out of memory")
        status = 0
    else:
        status = worker.ops.watch(worker, &c.source, EPOLLIN | EPOLLOUT if c.watching_out else EPOLLIN)
        if status == 0:
            add_connection(c)
            return c
        upstream_error(e, b"dial", upstream_network(peer.upstream), -1, b"epoll_ctl", -status)
    peer.upstream.transport.end(c)
    close(fd)
    c.source.fd = -1
    give_back(c, stock)
    return NULL


cdef Connection *take_connection(Stock *stock) noexcept nogil:
    cdef Connection *c = stock.free_connections
    if c != NULL:
        stock.free_connections = c.next_free
        memset(c, 0, sizeof(Connection))
    else:
        c = <Connection *>calloc(1, sizeof(Connection))
        if c == NULL:
            return NULL
    list_init(&c.streams)
    return c


cdef void add_connection(Connection *c) noexcept nogil:
    """To those of its peer, as the newest."""
    cdef Peer *peer = c.peer
    cdef Worker *worker = peer.share.worker
    worker.ops.timer_start(worker, &c.dial, worker.now + dial_timeout(peer.upstream))
    list_append(&peer.connections, &c.node)
    peer.connection_count += 1
    if atomic_load32(&peer.upstream.host) == 0:
        atomic_store32(&peer.upstream.host, worker.id + 1)


cdef void connection_close(Connection *c) noexcept nogil:
    cdef Peer *peer = c.peer
    cdef Worker *worker = peer.share.worker
    cdef Stock *stock = stocks[worker.id]
    if c.source.fd < 0:
        return
    worker.ops.timer_stop(worker, &c.dial)
    worker.ops.unwatch(worker, &c.source)
    peer.upstream.transport.end(c)
    close(c.source.fd)
    c.source.fd = -1
    list_remove(&c.node)
    peer.connection_count -= 1
    if peer.connection_count == 0 and atomic_load32(&peer.upstream.host) == worker.id + 1:
        atomic_store32(&peer.upstream.host, 0)
    c.retired = 1
    give_back(c, stock)


cdef void give_back(Connection *c, Stock *stock) noexcept nogil:
    """A connection that is still queued, for its flush or its mail, goes back when that has run."""
    if c.flush.queued or c.again_posted:
        return
    c.next_free = stock.free_connections
    stock.free_connections = c


cdef bint worn(const Connection *c, const Settings *settings, int64_t now) noexcept nogil:
    return c.waiting == 0 and now - c.used > settings.expire or settings.max_age and now - c.opened > settings.max_age


cdef inline uint32_t depth_of(const Connection *c) noexcept nogil:
    """Questions that it takes at a time; of one in the making, as the last one took."""
    if c.open or c.peer.depth == 0:
        return c.framing.depth
    return c.peer.depth


cdef inline bint takes_more(const Connection *c, bint full) noexcept nogil:
    """full: there are as many connections as there may be."""
    if c.withheld and c.peer.connection_count < CONNECTIONS:
        return False
    return c.waiting < (CONNECTION_DEPTH if full else depth_of(c))


cdef Connection *choose(Peer *peer) noexcept nogil:
    """The oldest idle connection, else the one with the least to do; NULL: open one."""
    cdef Connection *c = connection_of(list_first(&peer.connections))
    cdef Connection *following
    cdef Connection *best = NULL
    cdef bint full = peer.connection_count >= CONNECTIONS_MAX       # then questions wait where they have to
    while c != NULL:
        following = connection_of(list_next(&peer.connections, &c.node))
        if not c.retired and worn(c, peer.share.settings, peer.share.worker.now):
            c.retired = 1
            if c.waiting == 0 and not c.busy:
                connection_close(c)
        elif not c.retired and takes_more(c, full) and (best == NULL or c.waiting < best.waiting):
            best = c
            if c.waiting == 0:
                break
        c = following
    if best != NULL and best.waiting and peer.upstream.protocol <= PROTOCOL_TLS and peer.connection_count < CONNECTIONS:
        return NULL                 # one of HTTP/2 or QUIC does for all
    return best


# ---- asking ----

cdef Connection *dialling(Peer *peer) noexcept nogil:
    """An encrypted connection in the making: questions whose connection was closed share one, whose handshake they pay."""
    cdef Connection *c = connection_of(list_last(&peer.connections))
    if c != NULL and not c.open and not c.retired and upstream_encrypts(peer.upstream) and c.waiting < depth_of(c):
        return c
    return NULL


cdef int connection_begin(Exchange *e, Peer *peer) noexcept nogil:
    cdef Worker *worker = peer.share.worker
    cdef Connection *c = dialling(peer) if e.alone else NULL
    cdef uint32_t id, tries = 0
    cdef uint32_t proto = PROTO_QUIC if peer.upstream.quic != NULL else PROTO_TCP if peer.upstream.tls == NULL else PROTO_TLS
    if not e.alone or c == NULL and peer.connection_count >= CONNECTIONS_MAX:
        c = choose(peer)
    e.opened = c == NULL
    if c == NULL:
        if peer.connection_count >= CONNECTIONS_MAX:
            snprintf(e.error, ERROR_MAX, b"dial %s %s: too many connections", upstream_network(peer.upstream), peer.upstream.text)
            return BROKEN
        c = open_connection(peer, e)
        if c == NULL:
            return BROKEN
    if peer.upstream.service == NULL:
        metric_add(peer.upstream.misses[proto] if e.opened else peer.upstream.hits[proto], worker.id, 1)
    id = random_next(&worker.random) & 0xFFFF
    while c.slots[id & (CONNECTION_SLOTS - 1)] != 0:
        tries += 1
        id = random_next(&worker.random) & 0xFFFF if tries < 32 else (id + 1) & 0xFFFF
    e.id = <uint16_t>id
    if c.open and c.current == 0:
        if connection_write(c, e) < 0:
            return BROKEN
        worker_flush(worker, &c.flush)
    c.slots[id & (CONNECTION_SLOTS - 1)] = <uint16_t>e.number
    c.waiting += 1
    e.way = WAY_CONNECTION
    e.connection = c
    if c.open or peer.upstream.service != NULL:         # the time for a request includes connecting
        peer.share.sent(e)
    return BEGUN


cdef void connection_forget(Exchange *e) noexcept nogil:
    cdef Connection *c = e.connection
    c.slots[e.id & (CONNECTION_SLOTS - 1)] = 0
    c.waiting -= 1
    if c.framing.forget != NULL:
        c.framing.forget(c, e)
    e.connection = NULL
    e.way = WAY_NONE
    if c.waiting:
        return
    c.used = c.peer.share.worker.now
    if not c.busy and connection_is_spare(c):
        connection_close(c)


cdef bint connection_is_spare(const Connection *c) noexcept nogil:
    cdef uint32_t idle = 0, most = c.peer.share.settings.max_idle
    cdef const Connection *other = connection_of(list_first(&c.peer.connections))
    if c.retired or most == 0:
        return c.retired
    while other != NULL:
        idle += other.waiting == 0
        other = connection_of(list_next(&c.peer.connections, &other.node))
    return idle > most


cdef void connection_suspect(Exchange *e) noexcept nogil:
    cdef Connection *c = e.connection
    if not c.framing.independent or c.heard < e.asked:
        c.retired = 1


# ---- what transports tell ----

cdef bint connection_opened(Connection *c) noexcept nogil:
    cdef Worker *worker = c.peer.share.worker
    worker.ops.timer_stop(worker, &c.dial)
    connection_note_dial(c.peer.upstream, worker.now - c.opened)
    c.peer.depth = c.framing.depth
    if c.framing.begin != NULL and not c.framing.begin(c):
        connection_broken(c, b"dial", 0, b"out of memory", False)
        return False
    c.open = 1
    ask_all(c, stocks[worker.id])
    return c.source.fd >= 0


cdef void ask_all(Connection *c, Stock *stock) noexcept nogil:
    """What waited for the connection leaves; what is too much for it goes to others."""
    cdef Share *share = c.peer.share
    cdef Exchange *e
    cdef uint32_t i, asked = 0
    c.busy = 1
    for i in range(CONNECTION_SLOTS):
        if c.slots[i] == 0:
            continue
        e = stock_exchange(stock, c.slots[i])
        if asked == c.framing.depth:
            share.again(e)
        elif connection_write(c, e) < 0:
            share.failed(e)
        else:
            asked += 1
            if c.peer.upstream.service == NULL:
                share.sent(e)
    c.busy = 0


cdef void on_dial_timeout(Timer *timer, Worker *worker) noexcept nogil:
    cdef Connection *c = <Connection *>timer.data
    connection_note_dial(c.peer.upstream, worker.now - c.opened)
    connection_broken(c, b"dial", 0, NULL, False)


cdef void on_flush(Flush *flush, Worker *worker) noexcept nogil:
    cdef Connection *c = <Connection *>flush.data
    if c.source.fd < 0:
        give_back(c, stocks[worker.id])
    else:
        c.peer.upstream.transport.flush(c)


cdef void connection_broken(Connection *c, const char *operation, int error, const char *failure, bint closed) noexcept nogil:
    cdef Share *share = c.peer.share
    cdef Stock *stock = stocks[share.worker.id]
    cdef Exchange *e
    cdef uint32_t i, number
    c.retired = 1
    c.busy = 1
    for i in range(CONNECTION_SLOTS):
        number = c.slots[i]
        if number == 0:
            continue
        e = stock_exchange(stock, number)
        if c.open and closed and not e.opened and not e.alone:
            connection_forget(e)
            e.alone = 1
            share.again(e)
            continue
        if failure != NULL:
            snprintf(e.error, ERROR_MAX, b"%s", failure)
        elif not c.open:
            upstream_error(e, b"dial", upstream_network(e.upstream), -1, b"connect", error)
        elif error == 0:
            snprintf(e.error, ERROR_MAX, b"EOF")
        else:
            upstream_error(e, operation, upstream_network(e.upstream), c.source.fd, operation, error)
        share.failed(e)
    c.busy = 0
    connection_close(c)


# ---- more in the next turn ----

cdef void connection_read_again(Connection *c) noexcept nogil:
    if not c.again_posted:
        c.again_posted = 1
        c.peer.share.worker.ops.post(c.peer.share.worker, &c.again)


cdef void on_again(Mail *mail, Worker *worker) noexcept nogil:
    cdef Connection *c = <Connection *>(<char *>mail - <size_t>&(<Connection *>NULL).again)
    c.again_posted = 0
    if c.source.fd < 0:
        give_back(c, stocks[worker.id])
    else:
        c.source.ready(&c.source, worker, EPOLLIN)


# ---- closing ----

cdef uint32_t connection_sweep(Peer *peer, int64_t before) noexcept nogil:
    cdef Connection *c = connection_of(list_first(&peer.connections))
    cdef Connection *following
    cdef uint32_t left = 0
    while c != NULL:
        following = connection_of(list_next(&peer.connections, &c.node))
        if c.waiting == 0 and c.used < before and not c.busy:
            connection_close(c)
        else:
            left += 1
        c = following
    return left
