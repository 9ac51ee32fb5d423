"""Questions over UDP. The contract is in transport/datagram.pxd.

A socket is connected, so the kernel takes datagrams from the upstream only; a reply counts when it also has the id and the question. Everything else
is passed over, and the wait goes on. ICMP errors count only for the question that they quote with its id: IP_RECVERR keeps that quotation.
"""
from libc.errno cimport EAGAIN, ECONNREFUSED, EINTR, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.worker cimport Flush, Source, Worker, worker_flush
from fastdns.api.wire cimport HEADER_SIZE, load16, store16, wire_answers
from fastdns.api.metrics cimport metric_add
from fastdns.api.random cimport random_next
from fastdns.api.network cimport EPOLLIN, MSG_DONTWAIT, MSG_TRUNC, recv, recvmmsg, send, sendmmsg
from fastdns.plugins.forward.transport.sockets cimport socket_is_worn, sockets_release, sockets_renew
from fastdns.plugins.forward._system cimport icmp_error
from fastdns.plugins.forward._upstream cimport (BEGUN, BROKEN, RECEIVE_BATCH, RECEIVE_SIZE, SEND_BATCH, SOCKET_SLOTS, Exchange, Peer, Share, Socket,
                                                Stock, WAY_NONE, WAY_UDP, stock_exchange, stocks, upstream_error)

cdef enum:
    ROUNDS = 4                      # batches taken from one socket before others have their turn
    SEND_RETRIES = 4                # errors of earlier datagrams that a send may report


# ---- asking ----

cdef int datagram_begin(Exchange *e, Peer *peer) noexcept nogil:
    cdef Worker *worker = peer.share.worker
    cdef Socket *s
    cdef uint32_t id, tries
    cdef bint fresh = False
    while True:                         # a flush may break exchanges, whose next attempt may queue here
        s = peer.current
        if s != NULL and not socket_is_worn(s) and peer.batched < SEND_BATCH:
            break
        if peer.batched:
            flush_batch(peer)
            continue
        s = sockets_renew(peer, on_ready, &fresh)
        if s == NULL:
            upstream_error(e, b"dial", b"udp", -1, b"socket", errno)
            return BROKEN
        break
    id = random_next(&worker.random) & 0xFFFF
    tries = 0
    while s.slots[id & (SOCKET_SLOTS - 1)] != 0:
        tries += 1
        id = random_next(&worker.random) & 0xFFFF if tries < 32 else (id + 1) & 0xFFFF
    s.slots[id & (SOCKET_SLOTS - 1)] = <uint16_t>e.number
    s.uses += 1
    s.left -= 1
    s.used = worker.now
    s.waiting += 1
    s.large += e.limit > RECEIVE_SIZE
    e.way = WAY_UDP
    e.id = <uint16_t>id
    e.socket = s
    e.queued = 1
    store16(e.request, id)
    peer.batch[peer.batched] = e
    peer.batched += 1
    worker_flush(worker, &peer.flush)
    metric_add(peer.upstream.misses[0] if fresh else peer.upstream.hits[0], worker.id, 1)
    return BEGUN


cdef void datagram_repeat(Exchange *e) noexcept nogil:
    if not e.queued and e.socket.source.fd >= 0:
        send(e.socket.source.fd, e.request, e.size, MSG_DONTWAIT)


cdef void datagram_forget(Exchange *e) noexcept nogil:
    cdef Socket *s = e.socket
    cdef Peer *peer = s.peer
    cdef uint32_t i
    if e.queued:
        for i in range(peer.batched):
            if peer.batch[i] == e:
                peer.batched -= 1
                peer.batch[i] = peer.batch[peer.batched]
                break
        e.queued = 0
    s.slots[e.id & (SOCKET_SLOTS - 1)] = 0
    s.waiting -= 1
    s.large -= e.limit > RECEIVE_SIZE
    e.socket = NULL
    e.way = WAY_NONE
    sockets_release(s)


cdef void flush_batch(Peer *peer) noexcept nogil:
    """Sends what is queued. A datagram that cannot be sent breaks its exchange; what the queue of the device has no room for counts as lost."""
    cdef Stock *stock = stocks[peer.share.worker.id]
    cdef Exchange *batch[SEND_BATCH]
    cdef uint32_t generations[SEND_BATCH]
    cdef uint32_t i, count = peer.batched, broken = 0, retries = 0
    cdef int done, fd, status
    cdef Share *share = peer.share
    if count == 0:
        return
    fd = peer.current.source.fd
    peer.batched = 0
    for i in range(count):
        peer.batch[i].queued = 0
        stock.sent_spans[i].iov_base = peer.batch[i].request
        stock.sent_spans[i].iov_len = peer.batch[i].size
        batch[i] = peer.batch[i]
    i = 0
    while i < count:
        done = sendmmsg(fd, &stock.sent[i], count - i, MSG_DONTWAIT)
        if done > 0:
            i += <uint32_t>done
            continue
        status = errno
        if (status == EINTR or status == ECONNREFUSED) and retries < SEND_RETRIES:
            retries += 1                # told once for an earlier datagram, and gone now
            continue
        if status != EAGAIN:
            upstream_error(batch[i], b"write", b"udp", fd, b"write", status)
            batch[broken] = batch[i]
            generations[broken] = batch[i].generation
            broken += 1
        i += 1
    for i in range(broken):
        if batch[i].generation == generations[i] and batch[i].way == WAY_UDP:
            share.failed(batch[i])


cdef void datagram_flush(Flush *flush, Worker *worker) noexcept nogil:
    flush_batch(<Peer *>flush.data)


# ---- replies ----

cdef inline Exchange *find(Socket *s, Stock *stock, uint16_t id) noexcept nogil:
    cdef Exchange *e
    cdef uint32_t number = s.slots[id & (SOCKET_SLOTS - 1)]
    if number == 0:
        return NULL
    e = stock_exchange(stock, number)
    return e if e.id == id and e.socket == s else NULL


cdef inline void take(Socket *s, Stock *stock, const uint8_t *packet, uint32_t length, bint cut) noexcept nogil:
    cdef Exchange *e
    if length < HEADER_SIZE:
        return
    e = find(s, stock, load16(packet))
    if e != NULL and not e.queued and wire_answers(packet, length, e.request, e.question_length):
        s.peer.share.answered(e, packet, length if length < e.limit else e.limit, cut or length > e.limit)


cdef void take_errors(Socket *s, Stock *stock) noexcept nogil:
    """ICMP errors: each breaks the question whose datagram it quotes, id and all."""
    cdef uint8_t quoted[512]
    cdef int n, error
    cdef Exchange *e
    cdef uint32_t _i
    for _i in range(64):
        n = icmp_error(s.source.fd, quoted, sizeof(quoted), &error)
        if n < 0:
            return
        if n < HEADER_SIZE or error == 0:
            continue
        e = find(s, stock, load16(quoted))
        if e != NULL and not e.queued:
            upstream_error(e, b"read", b"udp", s.source.fd, b"read", error)
            s.peer.share.failed(e)


cdef void on_ready(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef Socket *s = <Socket *>source.data
    cdef Stock *stock = stocks[worker.id]
    cdef int i, n, _round
    if source.fd < 0:
        return
    s.busy = 1
    if s.large:
        take_singly(s, stock)
    else:
        for _round in range(ROUNDS):
            n = recvmmsg(source.fd, stock.received, RECEIVE_BATCH, MSG_DONTWAIT, NULL)
            if n < 0:
                if errno != EAGAIN:
                    take_errors(s, stock)
                break
            for i in range(n):
                take(s, stock, stock.octets[i], stock.received[i].msg_len, stock.received[i].msg_hdr.msg_flags & MSG_TRUNC != 0)
            if n < RECEIVE_BATCH:
                break
    if events & ~<uint32_t>EPOLLIN:
        take_errors(s, stock)
    s.busy = 0
    sockets_release(s)


cdef void take_singly(Socket *s, Stock *stock) noexcept nogil:
    """For clients that take replies longer than RECEIVE_SIZE."""
    cdef ssize_t n
    cdef int _i
    for _i in range(RECEIVE_BATCH):
        n = recv(s.source.fd, stock.big, 65535, MSG_DONTWAIT)
        if n < 0:
            if errno != EAGAIN:
                take_errors(s, stock)
            return
        take(s, stock, stock.big, <uint32_t>n, False)
