"""Sockets and their ports. The contract is in transport/sockets.pxd."""
from libc.errno cimport EACCES, EADDRINUSE, errno
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset
from fastdns.api.worker cimport Worker, mux_worker_count
from fastdns.api.wire cimport store16
from fastdns.api.random cimport random_below
from fastdns.api.network cimport (AF_INET6, EPOLLIN, IPPROTO_IP, IPPROTO_IPV6, MSG_DONTWAIT, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, bind, close, connect,
                                  recv, sockaddr, sockaddr_in, sockaddr_in6, socket, socklen_t)
from fastdns.plugins.forward._cookies cimport cookies_check_address
from fastdns.plugins.forward._system cimport IPV6_RECVERR, IP_RECVERR, error_number_set, socket_option
from fastdns.plugins.forward._upstream cimport SEND_BATCH, SOCKETS_MAX, Peer, Settings, Socket, Stock, Upstream, stock_of, stocks

cdef enum:
    PORT_TRIES = 16                 # ports that others have, until the kernel chooses one
    SOCKET_FULL = 1000              # questions of one socket in all: ids must be free among SOCKET_SLOTS
    SOCKETS_LEAST = 16


cdef int bind_at_random(int fd, const Settings *settings, const Upstream *upstream, Worker *worker) noexcept nogil:
    """-1 and errno."""
    cdef uint8_t address[128]
    cdef bint v6 = (<const sockaddr *>upstream.address).sa_family == AF_INET6
    cdef socklen_t length = sizeof(sockaddr_in6) if v6 else sizeof(sockaddr_in)
    cdef uint32_t _i
    memset(address, 0, sizeof(address))
    (<sockaddr *>address).sa_family = (<const sockaddr *>upstream.address).sa_family
    if settings.source_length:
        memcpy(address, settings.source, settings.source_length)
        length = settings.source_length
    for _i in range(PORT_TRIES):
        store16(address + 2, settings.ports[random_below(&worker.random, settings.port_count)])     # sin_port and sin6_port
        if bind(fd, <const sockaddr *>address, length) == 0:
            return 0
        if errno != EADDRINUSE and errno != EACCES:
            return -1
    store16(address + 2, 0)
    return bind(fd, <const sockaddr *>address, length)


cdef int connected_socket(Peer *peer) noexcept nogil:
    """A descriptor; -1 and errno."""
    cdef const Upstream *upstream = peer.upstream
    cdef bint v6 = (<const sockaddr *>upstream.address).sa_family == AF_INET6
    cdef int fd = socket((<const sockaddr *>upstream.address).sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    cdef int status
    cdef uint8_t octet
    if fd < 0:
        return -1
    if (bind_at_random(fd, peer.share.settings, upstream, peer.share.worker) < 0
            or connect(fd, <const sockaddr *>upstream.address, upstream.address_length) < 0):
        status = errno
        close(fd)
        error_number_set(status)
        return -1
    socket_option(fd, IPPROTO_IPV6 if v6 else IPPROTO_IP, IPV6_RECVERR if v6 else IP_RECVERR, 1)
    while recv(fd, &octet, 1, MSG_DONTWAIT) >= 0:   # what anybody has sent between the two calls
        pass
    return fd


cdef Socket *open_socket(Peer *peer, socket_ready_func ready) noexcept nogil:
    """NULL and errno."""
    cdef Worker *worker = peer.share.worker
    cdef Stock *stock = stock_of(worker)
    cdef Socket *s
    cdef int fd = connected_socket(peer)
    cdef int status
    if fd < 0:
        return NULL
    s = stock.free_sockets
    if s != NULL:
        stock.free_sockets = s.next
    else:
        s = <Socket *>calloc(1, sizeof(Socket))
        if s == NULL:
            close(fd)
            return NULL
    s.peer = peer
    s.since = s.used = worker.now
    s.uses = s.waiting = s.large = 0    # and so the slots are free
    s.left = peer.share.settings.socket_uses
    s.retired = s.busy = 0
    s.source.fd = fd
    s.source.ready = ready
    s.source.data = s
    status = worker.ops.watch(worker, &s.source, EPOLLIN)
    if status < 0:
        close(fd)
        s.source.fd = -1
        s.next = stock.free_sockets
        stock.free_sockets = s
        error_number_set(-status)
        return NULL
    s.place = peer.socket_count
    peer.sockets[s.place] = s
    peer.socket_count += 1
    return s


cdef void close_socket(Socket *s) noexcept nogil:
    cdef Peer *peer = s.peer
    cdef Worker *worker = peer.share.worker
    cdef Stock *stock = stocks[worker.id]
    worker.ops.unwatch(worker, &s.source)
    close(s.source.fd)
    s.source.fd = -1
    peer.socket_count -= 1
    peer.sockets[s.place] = peer.sockets[peer.socket_count]
    peer.sockets[s.place].place = s.place
    s.next = stock.free_sockets
    stock.free_sockets = s


cdef void sockets_release(Socket *s) noexcept nogil:
    if s.retired and s.waiting == 0 and not s.busy:
        close_socket(s)


cdef inline bint may_open(const Peer *peer) noexcept nogil:
    cdef uint32_t most = peer.share.settings.sockets // (mux_worker_count if mux_worker_count else 1)
    return peer.socket_count < min(max(most, <uint32_t>SOCKETS_LEAST), <uint32_t>SOCKETS_MAX)


cdef Socket *standing(Peer *peer) noexcept nogil:
    """An open socket at random that can take more questions; NULL: there is none."""
    cdef uint32_t i, first
    cdef Socket *s
    if peer.socket_count == 0:
        return NULL
    first = random_below(&peer.share.worker.random, peer.socket_count)
    for i in range(peer.socket_count):
        s = peer.sockets[(first + i) % peer.socket_count]
        if s.uses < SOCKET_FULL:
            s.left = min(<uint32_t>SEND_BATCH, <uint32_t>SOCKET_FULL - s.uses)
            s.since = peer.share.worker.now
            return s
    return NULL


cdef Socket *sockets_renew(Peer *peer, socket_ready_func ready, bint *fresh) noexcept nogil:
    cdef Socket *former = peer.current
    cdef Socket *s = open_socket(peer, ready) if may_open(peer) else NULL
    fresh[0] = s != NULL
    if s == NULL:                       # the upstream is silent, or descriptors are out: what is there has to do
        s = standing(peer)
        if s == NULL:
            return NULL
    elif peer.share.settings.cookies:
        cookies_check_address(peer, s.source.fd)
    peer.current = s
    s.retired = 0
    if former != NULL and former != s:
        former.retired = 1
        sockets_release(former)
    return s


cdef uint32_t sockets_sweep(Peer *peer, int64_t before) noexcept nogil:
    cdef uint32_t i = 0
    cdef Socket *s
    while i < peer.socket_count:
        s = peer.sockets[i]
        if s.waiting or s.used >= before:
            i += 1
            continue
        if s == peer.current:
            peer.current = NULL
        close_socket(s)                 # and the last one comes into its place
    return peer.socket_count
