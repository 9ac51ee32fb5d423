"""UDP sockets of workers. The contract is in engine/io/udp_socket.pxd."""
import socket

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, malloc
from fastdns._wire cimport MESSAGE_MAX
from fastdns.engine.io.backlog cimport backlog_end
from fastdns.engine.io.datagram cimport BATCH, CONTROL_SIZE, IP_PKTINFO, RECEIVE_CONTROL_SIZE, RECEIVE_SIZE, RECEIVE_STRIDE, SEND_SIZE
from fastdns.engine.io.transport cimport POLL_ALWAYS
from fastdns.system.address cimport address_from_socket
from fastdns.system.socket cimport EPOLLIN, MSG_DONTWAIT, getsockname, recvmmsg, sockaddr, sockaddr_in6, socklen_t
from fastdns.walk.query cimport WORKERS_MAX, ServerTable, Source

cdef extern from "<netinet/in.h>" nogil:
    enum: IP_MTU_DISCOVER
    enum: IP_PMTUDISC_DO
    enum: IPV6_RECVPKTINFO

cdef enum:
    RECEIVE_BUFFER = 4194304        # octets the kernel may hold for a socket: the default of 200 KB is some 200 queries
    # A socket in epoll has its waiters looked through for every reply that leaves, 0.1 µs each. One with enough to do is polled instead.
    POLLED_FROM = 16                # queries in a batch,
    POLLED_BELOW = 4                # and when to go back,
    POLLED_AFTER = 8                # after so many such batches in a row
    # A socket with a budget for latency gathers queries after as many reads in a row that follow the last one within half of it; so many that find
    # at most one query end it.
    GATHER_BELOW = 2
    GATHER_END = 4

cdef UdpBatch *batches[WORKERS_MAX]     # by Worker.id


# ---- reading ----

cdef void on_datagrams(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    """One recvmmsg, no draining: what is left makes the socket ready again."""
    cdef UdpSocket *sock = <UdpSocket *>source
    cdef int64_t budget = latency_budget(sock, worker)
    cdef bint soon = worker.now - sock.read < budget // 2
    cdef int n = receive(sock, worker)
    sock.read = worker.now
    if n < POLLED_FROM and not soon:
        sock.steady = 0
        return
    sock.steady += 1
    if sock.steady < POLLED_AFTER:
        return
    worker.ops.unwatch(worker, source)
    sock.steady = 0
    sock.polled = 1
    sock.due = worker.now + budget if budget and n < POLLED_FROM else 0
    sock.next_polled = sock.batch.polled
    sock.batch.polled = sock
    sock.batch.base.poll_at = next_read(sock.batch)


cdef inline int64_t latency_budget(const UdpSocket *sock, const Worker *worker) noexcept nogil:
    """For how long queries may be gathered; 0: not at all."""
    cdef const ServerTable *server = worker.set.servers[sock.base.listener]
    return server.latency if server != NULL else 0


cdef int64_t next_read(const UdpBatch *batch) noexcept nogil:
    """As TransportWorker.poll_at."""
    cdef const UdpSocket *sock = batch.polled
    cdef int64_t first = 0
    while sock != NULL:
        if sock.due == 0:
            return POLL_ALWAYS
        if first == 0 or sock.due < first:
            first = sock.due
        sock = sock.next_polled
    return first


cdef void udp_poll(TransportWorker *transport) noexcept nogil:
    """Takes a batch off each socket out of epoll whose time has come."""
    cdef UdpBatch *batch = <UdpBatch *>transport
    cdef Worker *worker = transport.worker
    cdef UdpSocket **at = &batch.polled
    cdef UdpSocket *sock
    while at[0] != NULL:
        sock = at[0]
        if sock.due > worker.now or not is_over(sock, worker, receive(sock, worker)) or worker.ops.watch(worker, &sock.base.source, EPOLLIN) < 0:
            at = &sock.next_polled
            continue
        at[0] = sock.next_polled
        sock.steady = 0
        sock.polled = 0
    transport.poll_at = next_read(batch)


cdef inline bint is_over(UdpSocket *sock, Worker *worker, int n) noexcept nogil:
    """Whether epoll does better, now that n queries were there; if not, when to read again."""
    cdef int64_t budget = latency_budget(sock, worker)
    if budget == 0:
        sock.due = 0
        sock.steady = sock.steady + 1 if n < POLLED_BELOW else 0
        return n <= 0 or sock.steady >= POLLED_AFTER
    sock.due = worker.now + budget if n < POLLED_FROM else 0        # one with enough to do waits for nothing
    sock.steady = sock.steady + 1 if n < GATHER_BELOW else 0
    return sock.steady >= GATHER_END


cdef void udp_listen_end(ListenSocket *listening) noexcept nogil:
    cdef UdpSocket *sock = <UdpSocket *>listening
    cdef Worker *worker = listening.transport.worker
    cdef UdpSocket **at = &sock.batch.polled
    backlog_end(sock)
    if not sock.polled:
        worker.ops.unwatch(worker, &listening.source)
        return
    while at[0] != sock:
        at = &at[0].next_polled
    at[0] = sock.next_polled
    sock.steady = 0
    sock.polled = 0
    sock.batch.base.poll_at = next_read(sock.batch)


cdef inline int receive(UdpSocket *sock, Worker *worker) noexcept nogil:
    """Takes up a batch of queries; how many there were."""
    cdef UdpBatch *batch = sock.batch
    cdef int i, n
    for i in range(BATCH):
        batch.received[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6)
        batch.received[i].msg_hdr.msg_controllen = RECEIVE_CONTROL_SIZE if sock.wildcard or sock.ages else 0
    n = recvmmsg(sock.base.source.fd, batch.received, BATCH, MSG_DONTWAIT, NULL)
    sock.take(sock, worker, n)
    return n


cdef int udp_read(UdpSocket *sock, Worker *worker) noexcept nogil:
    return receive(sock, worker)


# ---- sockets and buffers ----

cdef int udp_options(object sock, bint wildcard) except -1:
    # The kernel counts twice what was asked for. A socket that was handed over may have more, and queries in it.
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < 2 * RECEIVE_BUFFER:
        try:
            sock.setsockopt(socket.SOL_SOCKET, 33, RECEIVE_BUFFER)          # SO_RCVBUFFORCE, for the privileged
        except OSError:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    # What is never cut needs no identification (RFC 6864), which costs 2 % of an answer. udp_fragment takes it back: maybe it has, in the process
    # that serves a bound socket too.
    if not sock.getsockname()[1]:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    if wildcard:
        sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
    return 0


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


cdef UdpBatch *udp_batch_new(Worker *worker, const TransportOps *ops) noexcept nogil:
    cdef UdpBatch *batch = <UdpBatch *>calloc(1, sizeof(UdpBatch))
    cdef int i
    if batch == NULL:
        return NULL
    batch.base.ops = ops
    batch.base.worker = worker
    batches[worker.id] = batch
    batch.received_octets = <uint8_t *>malloc(<size_t>BATCH * RECEIVE_STRIDE)
    batch.received_control = <uint8_t *>calloc(BATCH, RECEIVE_CONTROL_SIZE)
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
        batch.received[i].msg_hdr.msg_control = batch.received_control + i * RECEIVE_CONTROL_SIZE
        batch.sent[i].msg_hdr.msg_iov = &batch.sent_iov[i]
        batch.sent[i].msg_hdr.msg_iovlen = 1
    return batch
