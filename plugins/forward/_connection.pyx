"""Questions over connections. The contract is in _connection.pxd."""
from libc.errno cimport EAGAIN, ECONNRESET, EINPROGRESS, EINTR, EPIPE, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport Flush, Source, Timer, Worker, worker_flush
from fastdns.api.metrics cimport metric_add
from fastdns.api.memory cimport atomic_load32, atomic_peek_ns, atomic_poke_ns, atomic_store32
from fastdns.api.random cimport random_next
from fastdns.api.network cimport EPOLLIN, EPOLLOUT, IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY, close, connect, sockaddr
from fastdns.api.tls cimport tls_protocol
from fastdns.plugins.forward._doh cimport HTTP1_FRAMING
from fastdns.plugins.forward._framing cimport DNS_FRAMING
from fastdns.plugins.forward._http2 cimport HTTP2_FRAMING
from fastdns.plugins.forward._stream cimport (STREAM_FAILED, STREAM_WAITS, StreamState, stream_begin, stream_end, stream_handshake, stream_pending,
                                              stream_receive, stream_send)
from fastdns.plugins.forward._system cimport socket_connected, socket_error, socket_option
from fastdns.plugins.forward._upstream cimport (BEGUN, BROKEN, CONNECTION_DEPTH, CONNECTIONS, CONNECTIONS_MAX, CONNECTION_SLOTS, Connection, Exchange,
                                                OUT_KEPT, PROTOCOL_GRPC, Peer, Settings, Share, Stock, Upstream, WAY_NONE, WAY_TCP, stock_exchange, stock_of,
                                                stocks, upstream_error, upstream_network, upstream_socket)

cdef enum:
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
        upstream_error(e, b"dial", upstream_network(peer.upstream), -1, b"socket", errno)
        return NULL
    socket_option(fd, IPPROTO_TCP, TCP_NODELAY, 1)
    if connect(fd, <const sockaddr *>peer.upstream.address, peer.upstream.address_length) < 0 and errno != EINPROGRESS:
        upstream_error(e, b"dial", upstream_network(peer.upstream), -1, b"connect", errno)
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
    c.framing = DNS_FRAMING
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
        upstream_error(e, b"dial", upstream_network(peer.upstream), -1, b"epoll_ctl", -status)
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
    if c.framing.free != NULL:
        c.framing.free(c)
    stream_end(c)
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


cdef inline uint32_t depth_of(const Connection *c) noexcept nogil:
    """Questions that it takes at a time; of one in the making, as the last one took."""
    if c.open or c.peer.depth == 0:
        return c.framing.depth
    return c.peer.depth


cdef Connection *choose(Peer *peer) noexcept nogil:
    """The oldest idle connection, else the one with the least to do; NULL: open one."""
    cdef Connection *c = peer.connections
    cdef Connection *following
    cdef Connection *best = NULL
    cdef bint full = peer.connection_count >= CONNECTIONS_MAX       # then questions wait where they have to
    while c != NULL:
        following = c.next
        if not c.retired and worn(c, peer.share.settings, peer.share.worker.now):
            c.retired = 1
            if c.waiting == 0 and not c.busy:
                close_connection(c)
        elif not c.retired and c.waiting < (CONNECTION_DEPTH if full else depth_of(c)) and (best == NULL or c.waiting < best.waiting):
            best = c
            if c.waiting == 0:
                break
        c = following
    if best != NULL and best.waiting and peer.upstream.service == NULL and peer.connection_count < CONNECTIONS:
        return NULL                 # one of HTTP/2 does for all
    return best


# ---- asking ----

cdef Connection *dialling(Peer *peer) noexcept nogil:
    """A connection over TLS in the making: questions whose connection was closed share one, whose handshake they pay."""
    if peer.last != NULL and not peer.last.open and not peer.last.retired and peer.upstream.tls != NULL and peer.last.waiting < depth_of(peer.last):
        return peer.last
    return NULL


cdef int connection_begin(Exchange *e, Peer *peer) noexcept nogil:
    cdef Worker *worker = peer.share.worker
    cdef Connection *c = dialling(peer) if e.alone else NULL
    cdef uint32_t id, tries = 0, proto = 1 if peer.upstream.tls == NULL else 2      # tcp, tcp-tls
    if not e.alone or c == NULL and peer.connection_count >= CONNECTIONS_MAX:
        c = choose(peer)
    e.opened = c == NULL
    if c == NULL:
        if peer.connection_count >= CONNECTIONS_MAX:
            snprintf(e.error, ERROR_MAX, b"dial tcp %s: too many connections", peer.upstream.text)
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
        if c.framing.write(c, e) < 0:
            return BROKEN
        worker_flush(worker, &c.flush)
    c.slots[id & (CONNECTION_SLOTS - 1)] = <uint16_t>e.number
    c.waiting += 1
    e.way = WAY_TCP
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
    cdef Connection *c = e.connection
    if c.session == NULL or c.heard < e.asked:          # on HTTP/2 one slow answer says nothing of the others
        c.retired = 1


# ---- writing ----

cdef void write_out(Connection *c) noexcept nogil:
    cdef Worker *worker = c.peer.share.worker
    cdef ssize_t n
    cdef uint8_t wanted = 0
    while True:
        if c.out_sent == c.out_used:
            c.out_sent = 0
            c.out_used = 0
            if c.framing.fill != NULL and c.framing.fill(c) < 0:
                broken(c, b"write", 0, c.failure)
                return
            if c.out_used == 0:
                break
        n = stream_send(c, c.out + c.out_sent, c.out_used - c.out_sent)
        if n >= 0:
            c.out_sent += <uint32_t>n
        elif errno == EAGAIN:
            wanted = 1
            break
        elif errno != EINTR:
            broken(c, b"write", errno, NULL)
            return
    if not wanted and c.out_size > OUT_KEPT:
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
    elif c.open and not c.watching_out:
        write_out(c)


# ---- events ----

cdef void on_dial_timeout(Timer *timer, Worker *worker) noexcept nogil:
    cdef Connection *c = <Connection *>timer.data
    note_dial(c.peer.upstream, worker.now - c.opened)
    broken(c, b"dial", 0, NULL)


cdef void on_ready(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef Connection *c = <Connection *>source.data
    cdef bint opened
    if source.fd < 0:
        return
    opened = c.open
    if not opened:
        if not finish_dial(c):
            return
    elif events & EPOLLOUT:
        write_out(c)
        if source.fd < 0:
            return
    if events & ~<uint32_t>EPOLLOUT or not opened and stream_pending(c):
        read_in(c)


cdef bint finish_dial(Connection *c) noexcept nogil:
    """Goes on with connecting. True: questions have left."""
    cdef Worker *worker = c.peer.share.worker
    cdef Stock *stock = stocks[worker.id]
    cdef char failure[ERROR_MAX]
    cdef StreamState state
    cdef int error
    if not c.connected:
        if not socket_connected(c.source.fd):
            error = socket_error(c.source.fd)
            if error:
                note_dial(c.peer.upstream, worker.now - c.opened)
                broken(c, b"dial", error, NULL)
            return False
        c.connected = 1
        if not stream_begin(c):
            broken(c, b"dial", 0, b"out of memory")
            return False
    state = stream_handshake(c, stock, failure)
    if state == STREAM_FAILED:
        note_dial(c.peer.upstream, worker.now - c.opened)
        broken(c, b"dial", 0, failure)
    elif state == STREAM_WAITS:
        worker.ops.rewatch(worker, &c.source, EPOLLIN | EPOLLOUT if c.watching_out else EPOLLIN)
    else:
        worker.ops.timer_stop(worker, &c.dial)
        note_dial(c.peer.upstream, worker.now - c.opened)
        if not begin_framing(c):
            broken(c, b"dial", 0, c.failure)
            return False
        c.open = 1
        c.watching_out = 1              # write_out makes sure of what is watched
        ask_all(c, stock)
        return c.source.fd >= 0
    return False


cdef bint begin_framing(Connection *c) noexcept nogil:
    """What the two have agreed on (RFC 7301). False: c.failure says why it will not do."""
    cdef uint32_t length = 0
    cdef const uint8_t *name = tls_protocol(c.tls, &length) if c.tls != NULL else NULL
    cdef bint http2 = length == 2 and memcmp(name, b"h2", 2) == 0
    if c.peer.upstream.protocol == PROTOCOL_GRPC and c.tls != NULL and not http2:
        c.failure = b"tls: credentials: cannot check peer: missing selected ALPN property"
        return False
    if c.peer.upstream.service != NULL:
        c.framing = HTTP2_FRAMING if http2 or c.tls == NULL else HTTP1_FRAMING
    c.peer.depth = c.framing.depth
    if c.framing.begin != NULL and not c.framing.begin(c):
        c.failure = b"out of memory"
        return False
    return True


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
        elif c.framing.write(c, e) < 0:
            share.failed(e)
        else:
            asked += 1
            if c.peer.upstream.service == NULL:
                share.sent(e)
    c.busy = 0
    write_out(c)


cdef void ask_next(Connection *c, Stock *stock) noexcept nogil:
    """On HTTP/1.1 one question follows the other; those that wait for a connection that ends go elsewhere."""
    cdef Exchange *e
    cdef uint32_t i
    for i in range(CONNECTION_SLOTS):
        if c.slots[i] == 0 or c.current:
            continue
        e = stock_exchange(stock, c.slots[i])
        if c.retired:
            c.peer.share.again(e)
        elif c.framing.write(c, e) < 0:
            c.peer.share.failed(e)
        else:
            worker_flush(c.peer.share.worker, &c.flush)


cdef void read_in(Connection *c) noexcept nogil:
    """Reads what is there; whole replies are handed out, the beginning of the next one is kept."""
    cdef Stock *stock = stocks[c.peer.share.worker.id]
    cdef uint8_t *into = stock.big
    cdef uint32_t used
    cdef int64_t done
    cdef ssize_t n
    cdef int round = 0, error = 0
    cdef bint ended = False
    c.busy = 1
    while round < ROUNDS or stream_pending(c):
        round += 1
        used = c.partial_used
        if used:
            memcpy(into, c.partial, used)
        n = stream_receive(c, stock, into + used, sizeof(stock.big) - used)
        if n <= 0:
            error = errno if n < 0 else 0
            ended = n == 0 or (error != EAGAIN and error != EINTR)
            if n == 0 and c.framing.ended != NULL:
                c.framing.ended(c)
            break
        c.heard = c.peer.share.worker.now
        used += <uint32_t>n
        done = c.framing.read(c, into, used)
        if done >= 0 and not keep_partial(c, into + done, used - <uint32_t>done):
            c.failure = b"out of memory"
        if c.failure != NULL:
            ended = True
            break
        if c.tls == NULL and <size_t>n < sizeof(stock.big) - (used - <uint32_t>n):
            break
    if c.framing.depth == 1 and c.waiting and not ended:
        ask_next(c, stock)
    c.busy = 0
    if ended:
        broken(c, b"read", error, c.failure)
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


cdef void broken(Connection *c, const char *operation, int error, const char *failure) noexcept nogil:
    """The connection is gone. Questions that went out on a kept one are asked again on one of their own: the upstream may just have tired of it.

    failure: why, where it is no error of the socket."""
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
        if failure != NULL:
            snprintf(e.error, ERROR_MAX, b"%s", failure)
        elif not c.open:
            upstream_error(e, b"dial", upstream_network(e.upstream), -1, b"connect", error)
        elif not e.opened and not e.alone and (error == 0 or error == ECONNRESET or error == EPIPE):
            connection_forget(e)
            e.alone = 1
            share.again(e)
            continue
        elif error == 0:
            snprintf(e.error, ERROR_MAX, b"EOF")
        else:
            upstream_error(e, operation, upstream_network(e.upstream), c.source.fd, operation, error)
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
