"""DNS over UDP on the workers. The contract is in engine/io/udp.pxd."""
import socket

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from libc.errno cimport errno, EAGAIN, EINTR, EMSGSIZE
from fastdns.system.atomic cimport atomic_bump64
from fastdns.engine.io.transport cimport POLL_ALWAYS, ListenSocket, TransportWorker
from fastdns.walk.query cimport PREFETCH_QUERIES, TRANSPORT_UDP, WORKERS_MAX, Carrier, Query, ServerTable, Source, Worker
from fastdns._mux cimport query_accept, query_enter, query_release, query_run_all, query_streamed, query_take, query_write
from fastdns.proxy.policy cimport ProxyPolicy, proxy_strip
from fastdns.telemetry.metrics cimport metric_add
from fastdns.system.socket cimport (EPOLLIN, EPOLLOUT, IPPROTO_IP, IPPROTO_IPV6, MSG_DONTWAIT, SOCK_DGRAM, getsockname, in6_addr, in_addr, iovec,
                                    msghdr, recvmmsg, sendmmsg, sendmsg, setsockopt, sockaddr, sockaddr_in6, socklen_t)
from fastdns.system.address cimport address_from_octets, address_from_socket, address_to_octets, address_to_socket
from fastdns._wire cimport IGNORE, MESSAGE_MAX, Acceptance, wire_reject

cdef extern from "<netinet/in.h>" nogil:
    cdef struct in6_pktinfo:
        in6_addr ipi6_addr
        unsigned int ipi6_ifindex
    cdef struct in_pktinfo:
        int ipi_ifindex
        in_addr ipi_spec_dst
        in_addr ipi_addr
    enum: IP_MTU_DISCOVER
    enum: IP_PMTUDISC_DO
    enum: IP_PMTUDISC_WANT
    enum: IP_PKTINFO
    enum: IPV6_PKTINFO
    enum: IPV6_RECVPKTINFO

cdef extern from "<netinet/udp.h>" nogil:
    enum: SOL_UDP

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <string.h>

    #ifndef UDP_SEGMENT
    #define UDP_SEGMENT 103
    #endif

    static inline struct cmsghdr *udp_cmsg(struct msghdr *m) { return CMSG_FIRSTHDR(m); }
    static inline struct cmsghdr *udp_cmsg_next(struct msghdr *m, struct cmsghdr *c) { return CMSG_NXTHDR(m, c); }
    static inline void *udp_cmsg_data(struct cmsghdr *c) { return CMSG_DATA(c); }
    static inline size_t udp_cmsg_space(size_t n) { return CMSG_SPACE(n); }
    static inline size_t udp_cmsg_len(size_t n) { return CMSG_LEN(n); }
    """
    enum: UDP_SEGMENT
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

cdef UdpBatch *batches[WORKERS_MAX]     # by Worker.id


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
        sock.batch.base.poll_at = POLL_ALWAYS


cdef void poll_sockets(TransportWorker *transport) noexcept nogil:
    """Takes a batch off each polled socket."""
    cdef UdpBatch *batch = <UdpBatch *>transport
    cdef Worker *worker = transport.worker
    cdef UdpSocket **at = &batch.polled
    cdef UdpSocket *sock
    cdef int n
    while at[0] != NULL:
        sock = at[0]
        n = receive(sock, worker)
        sock.steady = sock.steady + 1 if n < POLLED_BELOW else 0
        if (n > 0 and sock.steady < POLLED_AFTER) or worker.ops.watch(worker, &sock.base.source, EPOLLIN) < 0:
            at = &sock.next_polled
            continue
        at[0] = sock.next_polled
        sock.steady = 0
        sock.polled = 0
    transport.poll_at = POLL_ALWAYS if batch.polled != NULL else 0


cdef void udp_listen_end(ListenSocket *listening) noexcept nogil:
    cdef UdpSocket *sock = <UdpSocket *>listening
    cdef Worker *worker = listening.transport.worker
    cdef UdpSocket **at = &sock.batch.polled
    give_up(sock)
    if not sock.polled:
        worker.ops.unwatch(worker, &listening.source)
        return
    while at[0] != sock:
        at = &at[0].next_polled
    at[0] = sock.next_polled
    sock.steady = 0
    sock.polled = 0
    sock.batch.base.poll_at = POLL_ALWAYS if sock.batch.polled != NULL else 0


cdef inline int receive(UdpSocket *sock, Worker *worker) noexcept nogil:
    """Takes up a batch of queries; how many there were."""
    cdef UdpBatch *batch = sock.batch
    cdef int i, n
    for i in range(BATCH):
        batch.received[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6)
        batch.received[i].msg_hdr.msg_controllen = CONTROL_SIZE if sock.wildcard else 0
    n = recvmmsg(sock.base.source.fd, batch.received, BATCH, MSG_DONTWAIT, NULL)
    sock.take(sock, worker, n)
    return n


cdef int udp_read(UdpSocket *sock, Worker *worker) noexcept nogil:
    return receive(sock, worker)


cdef inline void read_addresses(const UdpSocket *sock, int i, Address *client, Address *local) noexcept nogil:
    address_from_socket(client, &sock.batch.peers[i])
    local[0] = sock.local
    if sock.wildcard:
        local_from_control(&sock.batch.received[i].msg_hdr, local)


cdef void udp_addresses(const UdpSocket *sock, int i, Address *client, Address *local) noexcept nogil:
    read_addresses(sock, i, client, local)


cdef void udp_receive(UdpSocket *sock, Worker *worker, int n) noexcept nogil:
    cdef Query *queries[PREFETCH_QUERIES]
    cdef const ServerTable *server = worker.set.servers[sock.base.listener]
    cdef const ProxyPolicy *policy = server.proxy if server != NULL else NULL
    cdef uint32_t count
    cdef int i = 0
    while i < n:
        count = 0
        while i < n and count < PREFETCH_QUERIES:
            queries[count] = accept_datagram(worker, sock, i) if policy == NULL else accept_proxied(worker, sock, policy, i)
            if queries[count] != NULL:
                count += 1
            i += 1
        query_run_all(queries, count)


cdef inline Query *accept_datagram(Worker *worker, UdpSocket *sock, int i) noexcept nogil:
    """The query in a datagram, its chain found; NULL when it is none, or is answered already."""
    cdef UdpBatch *batch = sock.batch
    cdef Query *q = query_take(worker)
    if q == NULL:
        return NULL
    read_addresses(sock, i, &q.client, &q.local)
    if query_accept(q, batch.received_octets + <size_t>i * RECEIVE_STRIDE, batch.received[i].msg_len, TRANSPORT_UDP, sock.base.listener,
                    sock.base.generation, &UDP, sock) and query_enter(q):
        return q
    return NULL


cdef Query *accept_proxied(Worker *worker, UdpSocket *sock, const ProxyPolicy *policy, int i) noexcept nogil:
    """The same where a proxy may have put a PROXY header before the query: the client is the header's, and the reply goes to the proxy."""
    cdef UdpBatch *batch = sock.batch
    cdef const uint8_t *datagram = batch.received_octets + <size_t>i * RECEIVE_STRIDE
    cdef Query *q = query_take(worker)
    cdef int size
    if q == NULL:
        return NULL
    address_from_socket(&q.peer, &batch.peers[i])
    size = proxy_strip(policy, datagram, batch.received[i].msg_len, &q.peer, worker.now, worker.id, &q.client)
    if size < 0:
        query_release(q)
        return NULL
    q.local = sock.local
    if sock.wildcard:
        local_from_control(&batch.received[i].msg_hdr, &q.local)
    if query_accept(q, datagram + size, batch.received[i].msg_len - size, TRANSPORT_UDP, sock.base.listener, sock.base.generation, &PROXIED, sock) and (
            query_enter(q)):
        return q
    return NULL


# ---- out ----

cdef inline void write_address(const UdpSocket *sock, const Address *client, const Address *local, msghdr *message, sockaddr_in6 *peer,
                               uint8_t *control_octets) noexcept nogil:
    cdef cmsghdr *c
    cdef in6_pktinfo *six
    cdef in_pktinfo *four
    message.msg_name = peer
    message.msg_namelen = address_to_socket(client, sock.family, peer)
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
        address_to_octets(local, six.ipi6_addr.s6_addr)
        # Link-local addresses mean nothing without their interface; for others routing decides.
        six.ipi6_ifindex = local.scope if local.family == 6 and local.octets[0] == 0xFE and local.octets[1] & 0xC0 == 0x80 else 0
        message.msg_controllen = udp_cmsg_space(sizeof(in6_pktinfo))
    else:
        c.cmsg_level = IPPROTO_IP
        c.cmsg_type = IP_PKTINFO
        c.cmsg_len = udp_cmsg_len(sizeof(in_pktinfo))
        four = <in_pktinfo *>udp_cmsg_data(c)
        four.ipi_ifindex = 0
        memcpy(&four.ipi_spec_dst, local.octets, 4)
        memset(&four.ipi_addr, 0, 4)
        message.msg_controllen = udp_cmsg_space(sizeof(in_pktinfo))


cdef void udp_address(const UdpSocket *sock, const Address *client, const Address *local, msghdr *message, sockaddr_in6 *peer,
                      uint8_t *control_octets) noexcept nogil:
    write_address(sock, client, local, message, peer, control_octets)


cdef void udp_segment(msghdr *message, uint8_t *control_octets, uint16_t size) noexcept nogil:
    cdef cmsghdr *c = <cmsghdr *>(control_octets + message.msg_controllen)
    message.msg_control = control_octets
    c.cmsg_level = SOL_UDP
    c.cmsg_type = UDP_SEGMENT
    c.cmsg_len = udp_cmsg_len(sizeof(uint16_t))
    memcpy(udp_cmsg_data(c), &size, sizeof(uint16_t))
    message.msg_controllen += udp_cmsg_space(sizeof(uint16_t))


cdef inline void address_reply(const Query *q, const Address *to, msghdr *message, sockaddr_in6 *peer, uint8_t *control_octets) noexcept nogil:
    write_address(<UdpSocket *>q.connection, to, &q.local, message, peer, control_octets)


cdef uint8_t *next_send(UdpBatch *batch, const Query *q, const Address *to) noexcept nogil:
    """Where the next reply of this batch goes; `sent` follows."""
    cdef uint32_t i
    if batch.sent_count == BATCH:
        flush_batch(&batch.base)
    i = batch.sent_count
    batch.sent_count += 1
    batch.sent_socket[i] = <UdpSocket *>q.connection
    address_reply(q, to, &batch.sent[i].msg_hdr, &batch.sent_peers[i], batch.sent_control + i * CONTROL_SIZE)
    batch.sent_iov[i].iov_base = batch.sent_octets + batch.sent_used
    return batch.sent_octets + batch.sent_used


cdef inline void sent(UdpBatch *batch, size_t length) noexcept nogil:
    """Ends the reply that `next_send` has begun: its length in octets."""
    batch.sent_iov[batch.sent_count - 1].iov_len = length
    batch.sent_used += (length + SEND_ALIGNMENT - 1) & ~<size_t>(SEND_ALIGNMENT - 1)


cdef inline void send_to(Query *q, const Address *to) noexcept nogil:
    cdef UdpBatch *batch = (<UdpSocket *>q.connection).batch
    cdef uint8_t *out
    if q.reply.message_size > SEND_SIZE:
        send_big(batch, q, to)
        return
    out = next_send(batch, q, to)
    sent(batch, query_write(q, out))


cdef void send_datagram(Query *q) noexcept nogil:
    send_to(q, &q.client)


cdef void send_proxied(Query *q) noexcept nogil:
    send_to(q, &q.peer)


cdef void send_big(UdpBatch *batch, Query *q, const Address *to) noexcept nogil:
    cdef msghdr message
    cdef iovec iov
    cdef sockaddr_in6 peer
    cdef uint8_t control_octets[CONTROL_SIZE]
    memset(&message, 0, sizeof(message))
    memset(control_octets, 0, sizeof(control_octets))
    address_reply(q, to, &message, &peer, control_octets)
    iov.iov_base = batch.big
    iov.iov_len = query_write(q, batch.big)
    message.msg_iov = &iov
    message.msg_iovlen = 1
    while sendmsg((<UdpSocket *>q.connection).base.source.fd, &message, MSG_DONTWAIT) < 0:
        if errno != EINTR and not (errno == EMSGSIZE and begin_fragments(<UdpSocket *>q.connection)):
            lose(<UdpSocket *>q.connection)
            return


cdef inline void reject_to(Query *q, const Address *to, Acceptance how, uint8_t rcode) noexcept nogil:
    cdef UdpBatch *batch = (<UdpSocket *>q.connection).batch
    cdef uint8_t *out
    if how != IGNORE:
        out = next_send(batch, q, to)
        sent(batch, wire_reject(q.packet, &q.message, how, rcode, out))


cdef void reject_datagram(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    reject_to(q, &q.client, how, rcode)


cdef void reject_proxied(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    reject_to(q, &q.peer, how, rcode)


cdef void datagram_dropped(Query *q) noexcept nogil:
    pass


cdef void datagram_stream(Query *q) noexcept nogil:
    q.stream.close(q.stream)        # no transfer over UDP: the handler that streams has refused before
    query_streamed(q, 0)

cdef Carrier UDP
UDP.reject = reject_datagram
UDP.unserved = datagram_dropped
UDP.send = send_datagram
UDP.dropped = datagram_dropped
UDP.stream = datagram_stream

cdef Carrier PROXIED                # of a listening address behind proxies
PROXIED.reject = reject_proxied
PROXIED.unserved = datagram_dropped
PROXIED.send = send_proxied
PROXIED.dropped = datagram_dropped
PROXIED.stream = datagram_stream


cdef void flush_batch(TransportWorker *transport) noexcept nogil:
    """Sends the batch: one sendmmsg for each run of replies of one socket."""
    cdef UdpBatch *batch = <UdpBatch *>transport
    cdef uint32_t i = 0, end
    cdef int n
    cdef UdpSocket *sock
    while i < batch.sent_count:
        sock = batch.sent_socket[i]
        end = i + 1
        while end < batch.sent_count and batch.sent_socket[end] == sock:
            end += 1
        while i < end:
            n = sendmmsg(sock.base.source.fd, &batch.sent[i], end - i, MSG_DONTWAIT)
            if n > 0:
                i += n
            elif n < 0 and (errno == EINTR or (errno == EMSGSIZE and begin_fragments(sock))):
                continue
            elif sock.backlog != NULL and errno == EAGAIN:
                while i < end:
                    hold(sock, &batch.sent[i].msg_hdr)
                    i += 1
            else:                   # this one cannot be sent (no route, buffer full); the others may
                lose(sock)
                i += 1
    batch.sent_count = 0
    batch.sent_used = 0
    if batch.held != NULL:
        drain_all(batch)


# ---- replies that the kernel does not take yet ----

cdef void lose(UdpSocket *sock) noexcept nogil:
    """A reply will not be sent."""
    atomic_bump64(&sock.batch.base.send_errors, 1)
    if sock.backlog != NULL:
        metric_add(sock.backlog.cell, sock.backlog.worker.id, 1)


cdef bint begin_fragments(UdpSocket *sock) noexcept nogil:
    """A reply is larger than its path takes: from now on the kernel may cut what this socket sends. False where it may already."""
    cdef int how = IP_PMTUDISC_WANT
    if sock.fragments:
        return False
    sock.fragments = 1
    return setsockopt(sock.base.source.fd, IPPROTO_IP, IP_MTU_DISCOVER, &how, sizeof(how)) == 0


cdef void hold(UdpSocket *sock, const msghdr *message) noexcept nogil:
    """Adds a reply; a full backlog drops the oldest."""
    cdef Backlog *backlog = sock.backlog
    cdef Held *held
    cdef uint32_t length = <uint32_t>message.msg_iov.iov_len
    cdef uint8_t *octets = NULL
    if not backlog.closed:
        octets = <uint8_t *>malloc(length)
    if octets == NULL:
        lose(sock)
        return
    if backlog.count == BACKLOG_MAX:
        free(backlog.replies[backlog.first].octets)
        backlog.first = (backlog.first + 1) % BACKLOG_MAX
        backlog.count -= 1
        lose(sock)
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
            if errno == EINTR or (errno == EMSGSIZE and begin_fragments(sock)):
                continue
            if errno == EAGAIN:
                return
            lose(sock)
        free(held.octets)
        backlog.count -= 1


cdef void drain_all(UdpBatch *batch) noexcept nogil:
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


cdef void give_up(UdpSocket *sock) noexcept nogil:
    """The socket is about to close: what the kernel does not take now is lost, and so is whatever comes later and does not go out at once."""
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
        lose(sock)


cdef void socket_free(ListenSocket *listening) noexcept nogil:
    cdef UdpSocket *sock = <UdpSocket *>listening
    if sock.backlog != NULL:
        while sock.backlog.count:
            sock.backlog.count -= 1
            free(sock.backlog.replies[(sock.backlog.first + sock.backlog.count) % BACKLOG_MAX].octets)
        free(sock.backlog)
    free(sock)


# ---- sockets and buffers ----

cdef int udp_options(object sock, bint wildcard) except -1:
    try:
        sock.setsockopt(socket.SOL_SOCKET, 33, RECEIVE_BUFFER)          # SO_RCVBUFFORCE, for the privileged
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    # What is never cut needs no identification (RFC 6864), which costs 2 % of an answer. begin_fragments takes it back.
    sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    if wildcard:
        sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
    return 0


cdef ListenSocket *socket_new() noexcept nogil:
    return <ListenSocket *>calloc(1, sizeof(UdpSocket))


cdef void describe(ListenSocket *listening, uint8_t family, bint wildcard) noexcept nogil:
    udp_describe(<UdpSocket *>listening, <UdpBatch *>listening.transport, family, wildcard, udp_receive)


cdef void udp_describe(UdpSocket *sock, UdpBatch *batch, uint8_t family, bint wildcard, udp_take_func take) noexcept nogil:
    cdef sockaddr_in6 name
    cdef socklen_t length = sizeof(name)
    sock.batch = batch
    sock.take = take
    sock.base.source.ready = on_datagrams
    sock.family = family
    sock.wildcard = wildcard
    getsockname(sock.base.source.fd, <sockaddr *>&name, &length)
    address_from_socket(&sock.local, &name)


cdef int udp_listen_begin(ListenSocket *listening) noexcept nogil:
    return listening.transport.worker.ops.watch(listening.transport.worker, &listening.source, 0)


cdef UdpBatch *udp_batch(uint32_t worker) noexcept nogil:
    return batches[worker]


cdef TransportWorker *init(Worker *worker) noexcept nogil:
    cdef UdpBatch *batch = <UdpBatch *>calloc(1, sizeof(UdpBatch))
    cdef int i
    if batch == NULL:
        return NULL
    batch.base.ops = &udp_transport
    batch.base.worker = worker
    batches[worker.id] = batch
    batch.received_octets = <uint8_t *>malloc(<size_t>BATCH * RECEIVE_STRIDE)
    batch.received_control = <uint8_t *>calloc(BATCH, CONTROL_SIZE)
    batch.sent_octets = <uint8_t *>malloc(<size_t>BATCH * SEND_SIZE)
    batch.sent_control = <uint8_t *>calloc(BATCH, CONTROL_SIZE)
    batch.big = <uint8_t *>malloc(MESSAGE_MAX + 1)
    if batch.received_octets == NULL or batch.received_control == NULL or batch.sent_octets == NULL or batch.sent_control == NULL or batch.big == NULL:
        return NULL
    for i in range(BATCH):
        batch.received_iov[i].iov_base = batch.received_octets + <size_t>i * RECEIVE_STRIDE
        batch.received_iov[i].iov_len = RECEIVE_SIZE
        batch.received[i].msg_hdr.msg_iov = &batch.received_iov[i]
        batch.received[i].msg_hdr.msg_iovlen = 1
        batch.received[i].msg_hdr.msg_name = &batch.peers[i]
        batch.received[i].msg_hdr.msg_control = batch.received_control + i * CONTROL_SIZE
        batch.sent[i].msg_hdr.msg_iov = &batch.sent_iov[i]
        batch.sent[i].msg_hdr.msg_iovlen = 1
    return &batch.base

udp_transport.socket_type = SOCK_DGRAM
udp_transport.init = init
udp_transport.poll = poll_sockets
udp_transport.flush = flush_batch
udp_transport.close_all = NULL
udp_transport.socket_new = socket_new
udp_transport.socket_free = socket_free
udp_transport.options = udp_options
udp_transport.describe = describe
udp_transport.listen_begin = udp_listen_begin
udp_transport.listen_end = udp_listen_end
