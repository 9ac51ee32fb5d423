"""DNS over QUIC. The contract is in transport/doq.pxd.

Questions wait on their connection while the upstream allows no more streams, or the path no more octets (`Connection.withheld`). What comes is
acknowledged together with the next question, or after a few milliseconds.
"""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.wire cimport HEADER_SIZE, load16, store16
from fastdns.api.worker cimport Source, Timer, Worker, worker_flush
from fastdns.api.network cimport MSG_DONTWAIT, MSG_TRUNC, SOCK_DGRAM, recvmmsg, sockaddr
from fastdns.api.quic cimport (QUIC_CLOSED, QUIC_OPEN, quic_cancel, quic_close, quic_connect, quic_deadline, quic_expire, quic_failure, quic_feed,
                               quic_free, quic_read, quic_readable, quic_state, quic_streams_left, quic_transmit, quic_write)
from fastdns.plugins.forward.transport.connection cimport connection_broken, connection_close, connection_is_spare, connection_note_dial, connection_opened
from fastdns.plugins.forward._upstream cimport (CONNECTION_DEPTH, CONNECTION_SLOTS, Connection, Doq, Exchange, Framing, Partial, Peer, RECEIVE_BATCH, Stock,
                                                Transport, exchange_returned, stock_exchange, stocks)

cdef enum:
    ROUNDS = 4                      # reads from one connection before others have their turn
    ACKNOWLEDGE_AT = 2              # datagrams that came (RFC 9000 13.2.2),
    ACKNOWLEDGE_AFTER = 10000000    # ns; or at the latest
    TIMER_SLACK = 4000000           # ns: a timer that is due so much too early is left alone
    STREAMS_MAX = 0x0FFFFFFF        # of one connection
    # RFC 9250 8.4
    DOQ_NO_ERROR = 0
    DOQ_PROTOCOL_ERROR = 2
    DOQ_REQUEST_CANCELLED = 3


# ---- begin and end ----

cdef bint begin(Connection *c) noexcept nogil:
    cdef Peer *peer = c.peer
    cdef Worker *worker = peer.share.worker
    c.framing = STREAMS
    c.doq = <Doq *>calloc(1, sizeof(Doq))
    if c.doq == NULL:
        return False
    c.doq.timer.fire = on_time
    c.doq.timer.data = c
    if quic_connect(&c.doq.quic, peer.upstream.quic, c.source.fd, <const sockaddr *>peer.upstream.address, peer.upstream.address_length,
                    peer.upstream.server_name, &peer.ticket, &worker.random) < 0:
        return False
    worker_flush(worker, &c.flush)
    return True


cdef void end(Connection *c) noexcept nogil:
    """What is said last is not said again: the socket goes, and the kernel tells an upstream that has not heard it."""
    cdef Worker *worker = c.peer.share.worker
    cdef uint32_t i
    if c.doq == NULL:
        return
    worker.ops.timer_stop(worker, &c.doq.timer)
    if c.doq.quic.quic != NULL:
        if quic_state(&c.doq.quic) != QUIC_CLOSED:
            quic_close(&c.doq.quic, DOQ_NO_ERROR, b"")
        quic_transmit(&c.doq.quic, stocks[worker.id].records)
        quic_free(&c.doq.quic)
    for i in range(CONNECTION_SLOTS):
        free(c.doq.partial[i])
    free(c.doq)
    c.doq = NULL


cdef bint ended(Connection *c) noexcept nogil:
    """Whether the connection is closed: then it is gone."""
    cdef char failure[ERROR_MAX]
    if quic_state(&c.doq.quic) != QUIC_CLOSED:
        return False
    quic_failure(&c.doq.quic, c.peer.upstream.server_name, failure, sizeof(failure))
    if not c.open:
        connection_note_dial(c.peer.upstream, c.peer.share.worker.now - c.opened)
    connection_broken(c, b"read", 0, failure, True)
    return True


# ---- packets ----

cdef void flush(Connection *c) noexcept nogil:
    cdef Worker *worker = c.peer.share.worker
    cdef int error
    if c.withheld:
        send_withheld(c)
    c.doq.unacknowledged = 0
    error = quic_transmit(&c.doq.quic, stocks[worker.id].records)
    if error:
        connection_broken(c, b"write", error, NULL, True)
    elif not ended(c):
        set_timer(c, quic_deadline(&c.doq.quic, worker.now))


cdef void set_timer(Connection *c, int64_t at) noexcept nogil:
    """It is left alone where it fires no later than it has to: it is set again then."""
    cdef Timer *timer = &c.doq.timer
    cdef Worker *worker = c.peer.share.worker
    if at and (timer.deadline == 0 or timer.deadline > at + TIMER_SLACK):
        worker.ops.timer_start(worker, timer, at)


cdef void on_time(Timer *timer, Worker *worker) noexcept nogil:
    cdef Connection *c = <Connection *>timer.data
    quic_expire(&c.doq.quic)
    worker_flush(worker, &c.flush)


cdef void on_ready(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef Connection *c = <Connection *>source.data
    cdef int error
    if source.fd < 0:
        return
    error = receive(c, stocks[worker.id])
    if not c.open and quic_state(&c.doq.quic) == QUIC_OPEN:
        connection_opened(c)
        worker_flush(worker, &c.flush)
    if c.open:
        c.busy = 1
        read_replies(c, stocks[worker.id])
        c.busy = 0
    if ended(c):
        return
    if error:
        connection_broken(c, b"read", error, NULL, True)
    elif c.waiting == 0 and connection_is_spare(c):
        connection_close(c)
    elif not c.open or c.withheld or c.doq.unacknowledged >= ACKNOWLEDGE_AT:
        worker_flush(worker, &c.flush)
    else:
        set_timer(c, worker.now + ACKNOWLEDGE_AFTER)


cdef int receive(Connection *c, Stock *stock) noexcept nogil:
    """Feeds the datagrams that are there. The socket's error, or 0."""
    cdef int i, n, _round
    for _round in range(ROUNDS):
        n = recvmmsg(c.source.fd, stock.received, RECEIVE_BATCH, MSG_DONTWAIT, NULL)
        if n < 0:
            return 0 if errno == EAGAIN or errno == EINTR else errno
        for i in range(n):
            if not stock.received[i].msg_hdr.msg_flags & MSG_TRUNC:
                quic_feed(&c.doq.quic, stock.octets[i], stock.received[i].msg_len)
        c.heard = c.peer.share.worker.now
        c.doq.unacknowledged += <uint32_t>n
        if n < RECEIVE_BATCH:
            break
    return 0


# ---- questions ----

cdef int write_question(Connection *c, Exchange *e) noexcept nogil:
    cdef uint32_t place = e.id & (CONNECTION_SLOTS - 1)
    cdef int sent
    store16(e.request, 0)
    c.doq.sent[place] = 0
    sent = 0 if c.withheld else send_question(c, e, place)
    if sent < 0:
        forget_place(c, place)
        snprintf(e.error, ERROR_MAX, b"quic: the stream was closed")
        return -1
    if sent == 0:
        c.doq.withheld[place] = 1
        c.withheld += 1
    return 0


cdef int send_question(Connection *c, Exchange *e, uint32_t place) noexcept nogil:
    """1: all of it has left; 0: the rest has to wait; -1: the upstream has closed the stream."""
    cdef Doq *doq = c.doq
    cdef uint8_t *octets = stocks[c.peer.share.worker.id].records
    cdef uint32_t at, size
    cdef ssize_t n
    if doq.streams[place] == 0:
        if quic_streams_left(&doq.quic) == 0:
            return 0
        doq.opened += 1
        doq.streams[place] = doq.opened
        doq.places[doq.opened & (CONNECTION_SLOTS - 1)] = <uint8_t>place
        c.retired |= doq.opened == STREAMS_MAX
    while doq.sent[place] < e.size + 2:
        at = doq.sent[place]
        if at < 2:                      # as much as there is room for behind the length
            store16(octets, e.size)
            size = min(e.size + 2, <uint32_t>sizeof(stocks[0].records))
            memcpy(octets + 2, e.request, size - 2)
            n = quic_write(&doq.quic, stream_of(doq, place), octets + at, size - at, size == e.size + 2)
            size -= at
        else:
            size = e.size + 2 - at
            n = quic_write(&doq.quic, stream_of(doq, place), e.request + at - 2, size, True)
        if n < 0:
            return -1
        doq.sent[place] += <uint32_t>n
        if <uint32_t>n < size:
            return 0
    return 1


cdef void send_withheld(Connection *c) noexcept nogil:
    cdef Stock *stock = stocks[c.peer.share.worker.id]
    cdef Exchange *e
    cdef uint32_t i
    cdef int sent
    if not c.open:
        return
    c.busy = 1
    for i in range(CONNECTION_SLOTS):
        if not c.doq.withheld[i] or c.slots[i] == 0:
            continue
        e = stock_exchange(stock, c.slots[i])
        sent = send_question(c, e, i)
        if sent < 0:
            snprintf(e.error, ERROR_MAX, b"quic: the stream was closed")
            c.peer.share.failed(e)
        elif sent:
            c.doq.withheld[i] = 0
            c.withheld -= 1
    c.busy = 0


cdef inline uint64_t stream_of(const Doq *doq, uint32_t place) noexcept nogil:
    """Streams that a client opens in both directions are 0, 4, 8, … (RFC 9000 2.1)."""
    return 4 * <uint64_t>(doq.streams[place] - 1)


cdef void forget_question(Connection *c, Exchange *e) noexcept nogil:
    """The upstream need not answer any more (RFC 9250 4.3.1)."""
    cdef uint32_t place = e.id & (CONNECTION_SLOTS - 1)
    if c.doq.streams[place]:
        quic_cancel(&c.doq.quic, stream_of(c.doq, place), c.doq.sent[place] < e.size + 2, DOQ_REQUEST_CANCELLED)
        worker_flush(c.peer.share.worker, &c.flush)
    forget_place(c, place)


cdef void forget_place(Connection *c, uint32_t place) noexcept nogil:
    c.withheld -= c.doq.withheld[place]
    c.doq.withheld[place] = 0
    c.doq.streams[place] = 0
    free(c.doq.partial[place])
    c.doq.partial[place] = NULL


# ---- replies ----

cdef int32_t find_place(const Doq *doq, uint64_t stream) noexcept nogil:
    """Of the question on a stream; -1: nobody waits for it."""
    cdef uint64_t number = stream // 4 + 1
    cdef uint32_t i = doq.places[number & (CONNECTION_SLOTS - 1)]
    if doq.streams[i] == number:
        return <int32_t>i
    for i in range(CONNECTION_SLOTS):
        if doq.streams[i] == number:
            return <int32_t>i
    return -1


cdef void read_replies(Connection *c, Stock *stock) noexcept nogil:
    cdef int64_t stream = quic_readable(&c.doq.quic)
    while stream >= 0:
        read_reply(c, stock, <uint64_t>stream)
        stream = quic_readable(&c.doq.quic)


cdef void read_reply(Connection *c, Stock *stock, uint64_t stream) noexcept nogil:
    cdef int32_t place = find_place(c.doq, stream)
    cdef Partial *partial = c.doq.partial[place] if place >= 0 else NULL
    cdef Exchange *e
    cdef uint8_t *octets = stock.big
    cdef uint32_t used = 0
    cdef uint64_t code = 0
    cdef bint last = False
    cdef ssize_t n = 0
    if partial != NULL:
        used = partial.used
        memcpy(octets, partial.octets, used)
    while not last and used < sizeof(stock.big):
        n = quic_read(&c.doq.quic, stream, octets + used, sizeof(stock.big) - used, &last, &code)
        if n < 0:
            break
        used += <uint32_t>n
    if place < 0:
        return
    e = stock_exchange(stock, c.slots[place])
    if n == -2:
        forget_place(c, <uint32_t>place)
        snprintf(e.error, ERROR_MAX, b"stream %llu canceled by remote with error code 0x%llx", <unsigned long long>stream, <unsigned long long>code)
        c.peer.share.failed(e)
    elif used >= 2 and used - 2 >= load16(octets):
        forget_place(c, <uint32_t>place)
        take_reply(c, e, octets + 2, load16(octets), used - 2)
    elif last and used == 0:
        forget_place(c, <uint32_t>place)
        snprintf(e.error, ERROR_MAX, b"EOF")
        c.peer.share.failed(e)
    elif last:
        forget_place(c, <uint32_t>place)
        refuse(c, e, b"doq: the reply is cut")
    elif not keep_partial(c, <uint32_t>place, octets, used):
        snprintf(e.error, ERROR_MAX, b"out of memory")
        c.peer.share.failed(e)


cdef void take_reply(Connection *c, Exchange *e, uint8_t *packet, uint32_t length, uint32_t got) noexcept nogil:
    if got > length:
        refuse(c, e, b"doq: more than one reply on a stream")
    elif length < HEADER_SIZE:
        refuse(c, e, b"doq: the reply is no message")
    elif load16(packet) != 0:
        refuse(c, e, b"doq: the reply has an id")
    else:
        exchange_returned(e, packet, length, NULL)


cdef void refuse(Connection *c, Exchange *e, const char *why) noexcept nogil:
    """The upstream breaks the protocol: the connection ends (RFC 9250 4.3.3)."""
    quic_close(&c.doq.quic, DOQ_PROTOCOL_ERROR, why)
    c.retired = 1
    snprintf(e.error, ERROR_MAX, b"%s", why)
    c.peer.share.failed(e)


cdef bint keep_partial(Connection *c, uint32_t place, const uint8_t *octets, uint32_t used) noexcept nogil:
    """The beginning of a reply. Its length says how much there will be."""
    cdef Partial *partial = c.doq.partial[place]
    cdef uint32_t size = load16(octets) + 2 if used >= 2 else 2
    if partial == NULL or partial.size < size:
        free(partial)
        partial = <Partial *>malloc(sizeof(Partial) + size)
        c.doq.partial[place] = partial
        if partial == NULL:
            return False
        partial.size = size
    partial.used = used
    memcpy(partial.octets, octets, used)
    return True


cdef Framing streams
streams.write = write_question
streams.depth = CONNECTION_DEPTH
streams.independent = 1
streams.forget = forget_question
cdef const Framing *STREAMS = &streams

cdef Transport transport
transport.socket_type = SOCK_DGRAM
transport.network = b"udp"
transport.begin = begin
transport.ready = on_ready
transport.flush = flush
transport.end = end
DOQ_TRANSPORT = &transport
