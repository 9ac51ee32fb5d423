"""Replies that the kernel does not take. The contract is in engine/io/backlog.pxd."""
from libc.errno cimport errno, EAGAIN, EINTR, EMSGSIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from fastdns.engine.io.datagram cimport BACKLOG_MAX, Backlog, Held
from fastdns.system.atomic cimport atomic_bump64
from fastdns.system.socket cimport EPOLLIN, EPOLLOUT, IPPROTO_IP, MSG_DONTWAIT, iovec, sendmsg, setsockopt
from fastdns.telemetry.metrics cimport metric_add

cdef extern from "<netinet/in.h>" nogil:
    enum: IP_MTU_DISCOVER
    enum: IP_PMTUDISC_WANT


cdef void backlog_lose(UdpSocket *sock) noexcept nogil:
    atomic_bump64(&sock.batch.base.send_errors, 1)
    if sock.backlog != NULL:
        metric_add(sock.backlog.cell, sock.backlog.worker.id, 1)


cdef bint udp_fragment(UdpSocket *sock) noexcept nogil:
    cdef int how = IP_PMTUDISC_WANT
    if sock.fragments:
        return False
    sock.fragments = 1
    return setsockopt(sock.base.source.fd, IPPROTO_IP, IP_MTU_DISCOVER, &how, sizeof(how)) == 0


cdef void backlog_hold(UdpSocket *sock, const msghdr *message) noexcept nogil:
    cdef Backlog *backlog = sock.backlog
    cdef Held *held
    cdef uint32_t length = <uint32_t>message.msg_iov.iov_len
    cdef uint8_t *octets = NULL
    if not backlog.closed:
        octets = <uint8_t *>malloc(length)
    if octets == NULL:
        backlog_lose(sock)
        return
    if backlog.count == BACKLOG_MAX:
        free(backlog.replies[backlog.first].octets)
        backlog.first = (backlog.first + 1) % BACKLOG_MAX
        backlog.count -= 1
        backlog_lose(sock)
    if backlog.count == 0:
        sock.next_held = sock.batch.held
        sock.batch.held = sock
    held = &backlog.replies[(backlog.first + backlog.count) % BACKLOG_MAX]
    backlog.count += 1
    memcpy(&held.peer, message.msg_name, message.msg_namelen)
    held.peer_length = message.msg_namelen
    held.control_length = <uint32_t>message.msg_controllen
    if held.control_length:
        memcpy(held.control, message.msg_control, held.control_length)
    memcpy(octets, message.msg_iov.iov_base, length)
    held.octets = octets
    held.length = length


cdef void drain(UdpSocket *sock) noexcept nogil:
    """Sends the newest, and so on, as many as the kernel takes."""
    cdef Backlog *backlog = sock.backlog
    cdef Held *held
    cdef msghdr message
    cdef iovec iov
    memset(&message, 0, sizeof(message))
    message.msg_iov = &iov
    message.msg_iovlen = 1
    while backlog.count:
        held = &backlog.replies[(backlog.first + backlog.count - 1) % BACKLOG_MAX]
        message.msg_name = &held.peer
        message.msg_namelen = held.peer_length
        message.msg_control = held.control if held.control_length else NULL
        message.msg_controllen = held.control_length
        iov.iov_base = held.octets
        iov.iov_len = held.length
        if sendmsg(sock.base.source.fd, &message, MSG_DONTWAIT) < 0:
            if errno == EINTR or (errno == EMSGSIZE and udp_fragment(sock)):
                continue
            if errno == EAGAIN:
                return
            backlog_lose(sock)
        free(held.octets)
        backlog.count -= 1


cdef void backlog_drain(UdpBatch *batch) noexcept nogil:
    cdef UdpSocket **at = &batch.held
    cdef UdpSocket *sock
    while at[0] != NULL:
        sock = at[0]
        drain(sock)
        await_writable(sock)
        if sock.backlog.count:
            at = &sock.next_held
        else:
            at[0] = sock.next_held


cdef void await_writable(UdpSocket *sock) noexcept nogil:
    """Has epoll say when the socket takes more, as long as there is something left. One that is polled is tried every turn anyway."""
    cdef Backlog *backlog = sock.backlog
    cdef Worker *worker = backlog.worker
    if sock.polled or backlog.closed:
        backlog.awaited = 0
    elif backlog.count:
        # Again each time: polling may have ended meanwhile, and with it what epoll knew.
        backlog.awaited = worker.ops.rewatch(worker, &sock.base.source, EPOLLIN | EPOLLOUT) == 0
    elif backlog.awaited:
        backlog.awaited = 0
        worker.ops.rewatch(worker, &sock.base.source, EPOLLIN)


cdef int udp_hold(UdpSocket *sock, Worker *worker, uint32_t cell) noexcept nogil:
    cdef Backlog *backlog = sock.backlog
    if backlog == NULL:
        backlog = <Backlog *>calloc(1, sizeof(Backlog))
        if backlog == NULL:
            return -1
        backlog.worker = worker
        sock.backlog = backlog
    backlog.cell = cell
    return 0


cdef void backlog_end(UdpSocket *sock) noexcept nogil:
    cdef Backlog *backlog = sock.backlog
    cdef UdpSocket **at = &sock.batch.held
    if backlog == NULL or backlog.closed:
        return
    drain(sock)
    backlog.closed = 1
    while at[0] != NULL:
        if at[0] == sock:
            at[0] = sock.next_held
            break
        at = &at[0].next_held
    while backlog.count:
        backlog.count -= 1
        free(backlog.replies[(backlog.first + backlog.count) % BACKLOG_MAX].octets)
        backlog_lose(sock)


cdef void backlog_free(UdpSocket *sock) noexcept nogil:
    if sock.backlog == NULL:
        return
    while sock.backlog.count:
        sock.backlog.count -= 1
        free(sock.backlog.replies[(sock.backlog.first + sock.backlog.count) % BACKLOG_MAX].octets)
    free(sock.backlog)
