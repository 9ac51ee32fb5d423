"""Questions over UDP. The contract is in _datagram.pxd.

A socket is connected, so the kernel takes datagrams from the upstream only; a reply counts when it also has the id and the question. Everything else
is passed over, and the wait goes on. ICMP errors count only for the question that they quote with its id: IP_RECVERR keeps that quotation.
"""
from libc.errno cimport EAGAIN, ECONNREFUSED, EINTR, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdlib cimport calloc
from libc.string cimport memset
from fastdns.api.worker cimport Flush, Source, Worker, worker_flush
from fastdns.api.wire cimport HEADER_SIZE, load16, store16, wire_answers
from fastdns.api.metrics cimport metric_add
from fastdns.api.random cimport random_below, random_next
from fastdns.api.network cimport (AF_INET6, EPOLLIN, IPPROTO_IP, IPPROTO_IPV6, MSG_DONTWAIT, MSG_TRUNC, SOCK_DGRAM, SOL_SOCKET, SO_RCVBUF, close,
                                  connect, recv, recvmmsg, send, sendmmsg, sockaddr)
from fastdns.plugins.forward._system cimport IPV6_RECVERR, IP_RECVERR, error_number_set, icmp_error, socket_option
from fastdns.plugins.forward._upstream cimport (BEGUN, BROKEN, RECEIVE_BATCH, RECEIVE_SIZE, RETIRED_MAX, SEND_BATCH, SOCKETS, SOCKET_AGE,
                                                SOCKET_SLOTS, SOCKET_USES, Exchange, Peer, Settings, Share, Socket, Stock, WAY_NONE, WAY_UDP,
                                                stock_exchange, stock_of, stocks, upstream_error, upstream_socket)

cdef enum:
    RECEIVE_BUFFER = 1048576        # asked of the kernel, which gives at most net.core.rmem_max
    ROUNDS = 4                      # batches taken from one socket before others have their turn
    SEND_RETRIES = 4                # errors of earlier datagrams that a send may report


# ---- sockets ----

cdef Socket *open_socket(Peer *peer) noexcept nogil:
    """A connected socket with a port of the kernel's random choice; NULL and errno."""
    cdef Worker *worker = peer.share.worker
    cdef Stock *stock = stock_of(worker)
    cdef Socket *s
    cdef int fd = upstream_socket(peer.share.settings, peer.upstream, SOCK_DGRAM)
    cdef int status, v6
    if fd < 0:
        return NULL
    v6 = (<const sockaddr *>peer.upstream.address).sa_family == AF_INET6
    if connect(fd, <const sockaddr *>peer.upstream.address, peer.upstream.address_length) < 0:
        status = errno
        close(fd)
        error_number_set(status)
        return NULL
    socket_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER)
    socket_option(fd, IPPROTO_IPV6 if v6 else IPPROTO_IP, IPV6_RECVERR if v6 else IP_RECVERR, 1)
    s = stock.free_sockets
    if s != NULL:
        stock.free_sockets = s.next
        memset(s, 0, sizeof(Socket))
    else:
        s = <Socket *>calloc(1, sizeof(Socket))
        if s == NULL:
            close(fd)
            return NULL
    s.peer = peer
    s.opened = worker.now
    s.source.fd = fd
    s.source.ready = on_ready
    s.source.data = s
    status = worker.ops.watch(worker, &s.source, EPOLLIN)
    if status < 0:
        close(fd)
        s.source.fd = -1
        s.next = stock.free_sockets
        stock.free_sockets = s
        error_number_set(-status)
        return NULL
    return s


cdef void close_socket(Socket *s) noexcept nogil:
    cdef Worker *worker = s.peer.share.worker
    cdef Stock *stock = stocks[worker.id]
    worker.ops.unwatch(worker, &s.source)
    close(s.source.fd)
    s.source.fd = -1
    s.next = stock.free_sockets
    stock.free_sockets = s


cdef void retire(Socket *s) noexcept nogil:
    """No new questions; late replies are still taken."""
    s.retired = 1
    if s.waiting == 0 and not s.busy:
        close_socket(s)
        return
    s.next = s.peer.retired
    s.peer.retired = s
    s.peer.retired_count += 1


cdef void close_retired(Socket *s) noexcept nogil:
    """The last reply to a retired socket is there, or given up."""
    cdef Socket **at = &s.peer.retired
    if s.busy or s.waiting:
        return
    while at[0] != NULL and at[0] != s:
        at = &at[0].next
    if at[0] == s:
        at[0] = s.next
        s.peer.retired_count -= 1
    close_socket(s)


cdef bint worn(const Socket *s, const Settings *settings, int64_t now) noexcept nogil:
    cdef int64_t age = now - s.opened
    return (s.uses >= SOCKET_USES or age > SOCKET_AGE or now - s.used > settings.expire and s.uses
            or settings.max_age and age > settings.max_age)


cdef Socket *choose(Peer *peer, bint *fresh) noexcept nogil:
    """One of the sockets at random; one that is used up makes place for another."""
    cdef uint32_t place = random_below(&peer.share.worker.random, SOCKETS)
    cdef Socket *s = peer.sockets[place]
    cdef Socket *other
    cdef uint32_t i
    fresh[0] = False
    if s != NULL and not worn(s, peer.share.settings, peer.share.worker.now):
        return s
    if s != NULL and peer.retired_count >= RETIRED_MAX and s.uses < SOCKET_USES:
        return s                        # the upstream is silent, and descriptors are not endless
    other = open_socket(peer) if peer.retired_count < RETIRED_MAX else NULL
    if other == NULL:                   # out of descriptors: whatever is there has to do
        for i in range(SOCKETS):
            if peer.sockets[i] != NULL and peer.sockets[i].uses < SOCKET_USES:
                return peer.sockets[i]
        return NULL
    if s != NULL:
        retire(s)
    peer.sockets[place] = other
    fresh[0] = True
    return other


# ---- asking ----

cdef int datagram_begin(Exchange *e, Peer *peer) noexcept nogil:
    cdef Worker *worker = peer.share.worker
    cdef Socket *s
    cdef uint32_t id, tries
    cdef bint fresh = False
    while True:                         # a flush may break exchanges, whose next attempt may queue here
        s = peer.current
        if s != NULL and s.uses < SOCKET_USES and peer.batched < SEND_BATCH:
            break
        if peer.batched:
            flush_batch(peer)
            continue
        s = choose(peer, &fresh)
        if s == NULL:
            upstream_error(e, b"dial", b"udp", -1, b"socket", errno)
            return BROKEN
        peer.current = s
        break
    id = random_next(&worker.random) & 0xFFFF
    tries = 0
    while s.slots[id & (SOCKET_SLOTS - 1)] != 0:
        tries += 1
        id = random_next(&worker.random) & 0xFFFF if tries < 32 else (id + 1) & 0xFFFF
    s.slots[id & (SOCKET_SLOTS - 1)] = <uint16_t>e.number
    s.uses += 1
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
    if s.retired and s.waiting == 0:
        close_retired(s)


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
    peer.current = NULL                 # the next batch takes another socket
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
    if s.retired and s.waiting == 0:
        close_retired(s)


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


# ---- closing ----

cdef uint32_t datagram_sweep(Peer *peer, int64_t before) noexcept nogil:
    cdef uint32_t i, left = peer.retired_count
    cdef Socket *s
    for i in range(SOCKETS):
        s = peer.sockets[i]
        if s == NULL:
            continue
        if s.waiting == 0 and s.used < before and s != peer.current:
            peer.sockets[i] = NULL
            close_socket(s)
        else:
            left += 1
    return left
