"""Connections over TCP, with or without TLS. The contract is in transport/tcp.pxd."""
from libc.errno cimport EAGAIN, ECONNRESET, EINTR, EPIPE, errno
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport Source, Worker, worker_flush
from fastdns.api.network cimport EPOLLIN, EPOLLOUT, IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY
from fastdns.api.tls cimport tls_protocol
from fastdns.plugins.forward.transport.connection cimport (connection_broken, connection_close, connection_is_spare,
                                                           connection_note_dial, connection_opened, connection_read_again, connection_write)
from fastdns.plugins.forward.transport.doh cimport HTTP1_FRAMING
from fastdns.plugins.forward.transport.excess cimport excess_end
from fastdns.plugins.forward.transport.http2 cimport HTTP2_FRAMING
from fastdns.plugins.forward.transport.stream cimport (STREAM_FAILED, STREAM_WAITS, StreamState, stream_begin, stream_end, stream_handshake,
                                                       stream_pending, stream_receive, stream_send)
from fastdns.plugins.forward._system cimport socket_connected, socket_error, socket_option
from fastdns.plugins.forward._upstream cimport (CONNECTION_SLOTS, EXCESS_OCTETS, Connection, Exchange, OUT_KEPT, PROTOCOL_GRPC,
                                                Stock, Transport, stock_exchange,
                                                stocks)

cdef enum:
    ROUNDS = 4                      # reads from one connection before others have their turn
    RECORDS = 64                    # likewise over TLS, where each is a record,
    TURN_MAX = 131072               # and the octets of them


# ---- begin and end ----

cdef bint begin(Connection *c) noexcept nogil:
    socket_option(c.source.fd, IPPROTO_TCP, TCP_NODELAY, 1)
    c.watching_out = 1
    return True


cdef void end(Connection *c) noexcept nogil:
    if c.framing.free != NULL:
        c.framing.free(c)
    stream_end(c)
    free(c.out)
    c.out = NULL
    free(c.partial)
    c.partial = NULL


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
                connection_broken(c, b"write", 0, c.failure, False)
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
            broken(c, b"write", errno)
            return
    if not wanted and c.out_size > OUT_KEPT:
        free(c.out)
        c.out = NULL
        c.out_size = 0
    if wanted != c.watching_out:
        c.watching_out = wanted
        worker.ops.rewatch(worker, &c.source, EPOLLIN | EPOLLOUT if wanted else EPOLLIN)


cdef void flush(Connection *c) noexcept nogil:
    if c.open and not c.watching_out:
        write_out(c)


# ---- events ----

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
    if not c.again_posted and (events & ~<uint32_t>EPOLLOUT or not opened and stream_pending(c)):
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
                connection_note_dial(c.peer.upstream, worker.now - c.opened)
                connection_broken(c, b"dial", error, NULL, False)
            return False
        c.connected = 1
        if not stream_begin(c):
            connection_broken(c, b"dial", 0, b"out of memory", False)
            return False
    state = stream_handshake(c, stock, failure)
    if state == STREAM_FAILED:
        connection_note_dial(c.peer.upstream, worker.now - c.opened)
        connection_broken(c, b"dial", 0, failure, False)
    elif state == STREAM_WAITS:
        worker.ops.rewatch(worker, &c.source, EPOLLIN | EPOLLOUT if c.watching_out else EPOLLIN)
    elif not choose_framing(c):
        connection_broken(c, b"dial", 0, c.failure, False)
    elif connection_opened(c):
        c.watching_out = 1              # write_out makes sure of what is watched
        write_out(c)
        return c.source.fd >= 0
    return False


cdef bint choose_framing(Connection *c) noexcept nogil:
    """What the two have agreed on (RFC 7301). False: c.failure says why it will not do."""
    cdef uint32_t length = 0
    cdef const uint8_t *name = tls_protocol(c.tls, &length) if c.tls != NULL else NULL
    cdef bint http2 = length == 2 and memcmp(name, b"h2", 2) == 0
    if c.peer.upstream.protocol == PROTOCOL_GRPC and c.tls != NULL and not http2:
        c.failure = b"tls: credentials: cannot check peer: missing selected ALPN property"
        return False
    if c.peer.upstream.service != NULL:
        c.framing = HTTP2_FRAMING if http2 or c.tls == NULL else HTTP1_FRAMING
    return True


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
        elif connection_write(c, e) < 0:
            c.peer.share.failed(e)
        else:
            worker_flush(c.peer.share.worker, &c.flush)


cdef void read_in(Connection *c) noexcept nogil:
    """Reads a turn's share of what is there; whole replies are handed out, the beginning of the next one is kept."""
    cdef Stock *stock = stocks[c.peer.share.worker.id]
    cdef uint8_t *into = stock.big
    cdef uint32_t used, taken = 0
    cdef int64_t done
    cdef ssize_t n
    cdef int round = 0, rounds = ROUNDS if c.tls == NULL else RECORDS, error = 0
    cdef bint ended = False
    c.busy = 1
    while round < rounds and taken < TURN_MAX:
        round += 1
        used = c.partial_used
        if used == sizeof(stock.big):
            excess_end(c, EXCESS_OCTETS, b"a reply does not end")
            break
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
        taken += <uint32_t>n
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
    if c.failure != NULL:
        connection_broken(c, b"read", 0, c.failure, False)
    elif ended:
        broken(c, b"read", error)
    elif c.waiting == 0 and connection_is_spare(c):
        connection_close(c)
    elif error != EAGAIN and stream_pending(c):
        connection_read_again(c)


cdef void broken(Connection *c, const char *operation, int error) noexcept nogil:
    """error: of the socket, 0 for its end."""
    connection_broken(c, operation, error, NULL, error == 0 or error == ECONNRESET or error == EPIPE)


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


cdef Transport transport
transport.socket_type = SOCK_STREAM
transport.network = b"tcp"
transport.begin = begin
transport.ready = on_ready
transport.flush = flush
transport.end = end
TCP_TRANSPORT = &transport
