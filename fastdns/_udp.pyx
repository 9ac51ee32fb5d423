"""DNS over UDP on the workers. The contract is in _udp.pxd."""
import socket

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, malloc
from libc.string cimport memcpy, memset
from libc.errno cimport errno, EINTR
from fastdns._atomic cimport atomic_bump64
from fastdns._mux cimport Carrier, Query, Worker, TRANSPORT_UDP, query_release, query_run, query_streamed, query_take, query_write
from fastdns._socket cimport (EPOLLIN, IPPROTO_IP, IPPROTO_IPV6, MSG_DONTWAIT, address_from_octets, address_from_socket, address_to_octets,
                              address_to_socket, getsockname, in6_addr, in_addr, iovec, msghdr, recvmmsg, sendmmsg, sendmsg, sockaddr,
                              sockaddr_in6, socklen_t)
from fastdns._wire cimport ACCEPT, IGNORE, MESSAGE_MAX, Acceptance, wire_accept, wire_reject

cdef extern from "<netinet/in.h>" nogil:
    cdef struct in6_pktinfo:
        in6_addr ipi6_addr
        unsigned int ipi6_ifindex
    cdef struct in_pktinfo:
        int ipi_ifindex
        in_addr ipi_spec_dst
        in_addr ipi_addr
    enum: IP_PKTINFO
    enum: IPV6_PKTINFO
    enum: IPV6_RECVPKTINFO

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <string.h>

    static inline struct cmsghdr *udp_cmsg(struct msghdr *m) { return CMSG_FIRSTHDR(m); }
    static inline struct cmsghdr *udp_cmsg_next(struct msghdr *m, struct cmsghdr *c) { return CMSG_NXTHDR(m, c); }
    static inline void *udp_cmsg_data(struct cmsghdr *c) { return CMSG_DATA(c); }
    static inline size_t udp_cmsg_space(size_t n) { return CMSG_SPACE(n); }
    static inline size_t udp_cmsg_len(size_t n) { return CMSG_LEN(n); }
    """
    cdef struct cmsghdr:
        size_t cmsg_len
        int cmsg_level
        int cmsg_type
    cmsghdr *udp_cmsg(msghdr *m) noexcept nogil
    cmsghdr *udp_cmsg_next(msghdr *m, cmsghdr *c) noexcept nogil
    void *udp_cmsg_data(cmsghdr *c) noexcept nogil
    size_t udp_cmsg_space(size_t n) noexcept nogil
    size_t udp_cmsg_len(size_t n) noexcept nogil

cdef enum:
    RECEIVE_BUFFER = 4194304        # octets the kernel may hold for a socket: the default of 200 KB is some 200 queries
    # A socket in epoll has its waiters looked through for every reply that leaves, 0.1 µs each. One with enough to do is polled instead.
    POLLED_FROM = 16                # queries in a batch,
    POLLED_BELOW = 4                # and when to go back,
    POLLED_AFTER = 8                # after so many such batches in a row


# ---- in ----

cdef inline void local_from_control(msghdr *message, Address *local) noexcept nogil:
    """The address a query came to, from PKTINFO."""
    cdef cmsghdr *c = udp_cmsg(message)
    cdef in6_pktinfo *six
    cdef in_pktinfo *four
    while c != NULL:
        if c.cmsg_level == IPPROTO_IPV6 and c.cmsg_type == IPV6_PKTINFO:
            six = <in6_pktinfo *>udp_cmsg_data(c)
            address_from_octets(local, six.ipi6_addr.s6_addr)
            local.scope = six.ipi6_ifindex
            return
        if c.cmsg_level == IPPROTO_IP and c.cmsg_type == IP_PKTINFO:
            four = <in_pktinfo *>udp_cmsg_data(c)
            local.family = 4
            memcpy(local.octets, &four.ipi_addr, 4)
            local.scope = <uint32_t>four.ipi_ifindex
            return
        c = udp_cmsg_next(message, c)


cdef void on_datagrams(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    """One recvmmsg, no draining: what is left makes the socket ready again."""
    cdef UdpSocket *sock = <UdpSocket *>source
    if receive(sock, worker) < POLLED_FROM:
        sock.steady = 0
        return
    sock.steady += 1
    if sock.steady == POLLED_AFTER:
        worker.ops.unwatch(worker, source)
        sock.steady = 0
        sock.polled = 1
        sock.next_polled = sock.batch.polled
        sock.batch.polled = sock


cdef void udp_poll(UdpBatch *batch, Worker *worker) noexcept nogil:
    cdef UdpSocket **at = &batch.polled
    cdef UdpSocket *sock
    cdef int n
    while at[0] != NULL:
        sock = at[0]
        n = receive(sock, worker)
        sock.steady = sock.steady + 1 if n < POLLED_BELOW else 0
        if (n > 0 and sock.steady < POLLED_AFTER) or worker.ops.watch(worker, &sock.source, EPOLLIN) < 0:
            at = &sock.next_polled
            continue
        at[0] = sock.next_polled
        sock.steady = 0
        sock.polled = 0


cdef void udp_unwatch(UdpSocket *sock, Worker *worker) noexcept nogil:
    cdef UdpSocket **at = &sock.batch.polled
    if not sock.polled:
        worker.ops.unwatch(worker, &sock.source)
        return
    while at[0] != sock:
        at = &at[0].next_polled
    at[0] = sock.next_polled
    sock.steady = 0
    sock.polled = 0


cdef inline int receive(UdpSocket *sock, Worker *worker) noexcept nogil:
    """Takes up a batch of queries; how many there were."""
    cdef UdpBatch *batch = sock.batch
    cdef int i, n
    for i in range(BATCH):
        batch.received[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6)
        batch.received[i].msg_hdr.msg_controllen = CONTROL_SIZE if sock.wildcard else 0
    n = recvmmsg(sock.source.fd, batch.received, BATCH, MSG_DONTWAIT, NULL)
    udp_take_up(sock, worker, n)
    return n


cdef void udp_take_up(UdpSocket *sock, Worker *worker, int n) noexcept nogil:
    cdef int i
    for i in range(n):
        on_datagram(worker, sock, i)


cdef inline void on_datagram(Worker *worker, UdpSocket *sock, int i) noexcept nogil:
    cdef UdpBatch *batch = sock.batch
    cdef uint8_t rcode
    cdef Acceptance how
    cdef Query *q = query_take(worker)
    if q == NULL:
        return
    q.packet = batch.received_octets + <size_t>i * RECEIVE_STRIDE
    q.packet_length = batch.received[i].msg_len
    how = wire_accept(q.packet, q.packet_length, &q.message, &q.first_name, &rcode)
    if how == IGNORE:
        query_release(q)
        return
    q.transport = TRANSPORT_UDP
    q.carrier = &UDP
    q.connection = sock
    q.listener = sock.listener
    q.received = worker.now
    address_from_socket(&q.client, &batch.peers[i])
    q.local = sock.local
    if sock.wildcard:
        local_from_control(&batch.received[i].msg_hdr, &q.local)
    q.set = worker.set
    q.server = q.set.servers[sock.listener]
    if how != ACCEPT:
        send_rejection(batch, q, how, rcode)
        query_release(q)
    elif q.server == NULL:          # this configuration does not serve the address (any more)
        query_release(q)
    else:
        query_run(q)


# ---- out ----

cdef inline void address_reply(Query *q, msghdr *message, sockaddr_in6 *peer, uint8_t *control_octets) noexcept nogil:
    """Where a reply goes, and on a wildcard socket where it comes from: the address the query came to."""
    cdef UdpSocket *sock = <UdpSocket *>q.connection
    cdef cmsghdr *c
    cdef in6_pktinfo *six
    cdef in_pktinfo *four
    message.msg_name = peer
    message.msg_namelen = address_to_socket(&q.client, sock.family, peer)
    message.msg_controllen = 0
    message.msg_control = NULL
    if not sock.wildcard:
        return
    message.msg_control = control_octets
    message.msg_controllen = CONTROL_SIZE
    c = udp_cmsg(message)
    if sock.family == 6:
        c.cmsg_level = IPPROTO_IPV6
        c.cmsg_type = IPV6_PKTINFO
        c.cmsg_len = udp_cmsg_len(sizeof(in6_pktinfo))
        six = <in6_pktinfo *>udp_cmsg_data(c)
        address_to_octets(&q.local, six.ipi6_addr.s6_addr)
        # Link-local addresses mean nothing without their interface; for others routing decides.
        six.ipi6_ifindex = q.local.scope if q.local.family == 6 and q.local.octets[0] == 0xFE and q.local.octets[1] & 0xC0 == 0x80 else 0
        message.msg_controllen = udp_cmsg_space(sizeof(in6_pktinfo))
    else:
        c.cmsg_level = IPPROTO_IP
        c.cmsg_type = IP_PKTINFO
        c.cmsg_len = udp_cmsg_len(sizeof(in_pktinfo))
        four = <in_pktinfo *>udp_cmsg_data(c)
        four.ipi_ifindex = 0
        memcpy(&four.ipi_spec_dst, q.local.octets, 4)
        memset(&four.ipi_addr, 0, 4)
        message.msg_controllen = udp_cmsg_space(sizeof(in_pktinfo))


cdef uint8_t *next_send(UdpBatch *batch, Query *q) noexcept nogil:
    """Where the next reply of this batch goes; `sent` follows."""
    cdef uint32_t i
    if batch.sent_count == BATCH:
        udp_flush(batch)
    i = batch.sent_count
    batch.sent_count += 1
    batch.sent_fd[i] = (<UdpSocket *>q.connection).source.fd
    address_reply(q, &batch.sent[i].msg_hdr, &batch.sent_peers[i], batch.sent_control + i * CONTROL_SIZE)
    batch.sent_iov[i].iov_base = batch.sent_octets + batch.sent_used
    return batch.sent_octets + batch.sent_used


cdef inline void sent(UdpBatch *batch, size_t length) noexcept nogil:
    """The reply that `next_send` made room for has so many octets."""
    batch.sent_iov[batch.sent_count - 1].iov_len = length
    batch.sent_used += (length + SEND_ALIGNMENT - 1) & ~<size_t>(SEND_ALIGNMENT - 1)


cdef void send_datagram(Query *q) noexcept nogil:
    cdef UdpBatch *batch = (<UdpSocket *>q.connection).batch
    cdef uint8_t *out
    if q.reply.message_size > SEND_SIZE:
        send_big(batch, q)
        return
    out = next_send(batch, q)
    sent(batch, query_write(q, out))


cdef void send_big(UdpBatch *batch, Query *q) noexcept nogil:
    cdef msghdr message
    cdef iovec iov
    cdef sockaddr_in6 peer
    cdef uint8_t control_octets[CONTROL_SIZE]
    memset(&message, 0, sizeof(message))
    memset(control_octets, 0, sizeof(control_octets))
    address_reply(q, &message, &peer, control_octets)
    iov.iov_base = batch.big
    iov.iov_len = query_write(q, batch.big)
    message.msg_iov = &iov
    message.msg_iovlen = 1
    if sendmsg((<UdpSocket *>q.connection).source.fd, &message, MSG_DONTWAIT) < 0:
        atomic_bump64(&batch.send_errors, 1)


cdef void send_rejection(UdpBatch *batch, Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    cdef uint8_t *out = next_send(batch, q)
    sent(batch, wire_reject(q.packet, &q.message, how, rcode, out))


cdef void datagram_dropped(Query *q) noexcept nogil:
    pass


cdef void datagram_stream(Query *q) noexcept nogil:
    q.stream.close(q.stream)        # no transfer over UDP: the handler that streams has refused before
    query_streamed(q, 0)

cdef Carrier UDP
UDP.send = send_datagram
UDP.dropped = datagram_dropped
UDP.stream = datagram_stream


cdef void udp_flush(UdpBatch *batch) noexcept nogil:
    """Sends the batch: one sendmmsg for each run of replies of one socket."""
    cdef uint32_t i = 0, end
    cdef int n
    while i < batch.sent_count:
        end = i + 1
        while end < batch.sent_count and batch.sent_fd[end] == batch.sent_fd[i]:
            end += 1
        while i < end:
            n = sendmmsg(batch.sent_fd[i], &batch.sent[i], end - i, MSG_DONTWAIT)
            if n > 0:
                i += n
            elif n < 0 and errno == EINTR:
                continue
            else:                   # this one cannot be sent (no route, buffer full); the others may
                atomic_bump64(&batch.send_errors, 1)
                i += 1
    batch.sent_count = 0
    batch.sent_used = 0


# ---- what it stands on ----

cdef int udp_options(sock, bint wildcard) except -1:
    try:
        sock.setsockopt(socket.SOL_SOCKET, 33, RECEIVE_BUFFER)          # SO_RCVBUFFORCE, for the privileged
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    if wildcard:
        sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
    return 0


cdef void udp_describe(UdpSocket *sock, UdpBatch *batch, int fd, uint32_t listener, uint8_t family, bint wildcard) noexcept nogil:
    cdef sockaddr_in6 name
    cdef socklen_t length = sizeof(name)
    sock.batch = batch
    sock.source.fd = fd
    sock.source.ready = on_datagrams
    sock.listener = listener
    sock.family = family
    sock.wildcard = wildcard
    getsockname(fd, <sockaddr *>&name, &length)
    address_from_socket(&sock.local, &name)


cdef int udp_init(UdpBatch *batch) noexcept nogil:
    cdef int i
    batch.received_octets = <uint8_t *>malloc(<size_t>BATCH * RECEIVE_STRIDE)
    batch.received_control = <uint8_t *>calloc(BATCH, CONTROL_SIZE)
    batch.sent_octets = <uint8_t *>malloc(<size_t>BATCH * SEND_SIZE)
    batch.sent_control = <uint8_t *>calloc(BATCH, CONTROL_SIZE)
    batch.big = <uint8_t *>malloc(MESSAGE_MAX + 1)
    if batch.received_octets == NULL or batch.received_control == NULL or batch.sent_octets == NULL or batch.sent_control == NULL or batch.big == NULL:
        return -1
    for i in range(BATCH):
        batch.received_iov[i].iov_base = batch.received_octets + <size_t>i * RECEIVE_STRIDE
        batch.received_iov[i].iov_len = RECEIVE_SIZE
        batch.received[i].msg_hdr.msg_iov = &batch.received_iov[i]
        batch.received[i].msg_hdr.msg_iovlen = 1
        batch.received[i].msg_hdr.msg_name = &batch.peers[i]
        batch.received[i].msg_hdr.msg_control = batch.received_control + i * CONTROL_SIZE
        batch.sent[i].msg_hdr.msg_iov = &batch.sent_iov[i]
        batch.sent[i].msg_hdr.msg_iovlen = 1
    return 0
