"""DNS over UDP on the workers. The contract is in engine/io/udp.pxd."""
from libc.errno cimport errno, EAGAIN, EINTR, EMSGSIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset
from fastdns._mux cimport query_accept, query_enter, query_release, query_run_all, query_streamed, query_take, query_write
from fastdns._wire cimport IGNORE, Acceptance, wire_reject
from fastdns.engine.io.aging cimport Aging, aging_begin, aging_end, aging_judge, aging_of
from fastdns.engine.io.backlog cimport backlog_drain, backlog_free, backlog_hold, backlog_lose, udp_fragment
from fastdns.engine.io.datagram cimport (BATCH, CONTROL_SIZE, RECEIVE_STRIDE, SEND_ALIGNMENT, SEND_SIZE, UdpBatch, pktinfo_read, udp_address,
                                         udp_addresses)
from fastdns.engine.io.transport cimport ListenSocket, TransportWorker
from fastdns.engine.io.udp_socket cimport udp_batch_new, udp_describe, udp_listen_begin, udp_listen_end, udp_options, udp_poll
from fastdns.proxy.policy cimport ProxyPolicy, proxy_strip
from fastdns.proxy.tlvs cimport ProxyTlvs, tlvs_unref
from fastdns.system.atomic cimport atomic_peek32
from fastdns.system.address cimport Address, address_from_socket
from fastdns.system.socket cimport MSG_DONTWAIT, SOCK_DGRAM, iovec, msghdr, sendmmsg, sendmsg, sockaddr_in6
from fastdns.walk.query cimport PREFETCH_QUERIES, TRANSPORT_UDP, WORKERS_MAX, Carrier, Query, ServerTable

cdef struct Tagged:                 # of a query whose PROXY header has TLVs
    UdpSocket *sock
    ProxyTlvs *tlvs                 # a reference
    Tagged *next                    # of spare_tagged

cdef Tagged *spare_tagged[WORKERS_MAX]      # as many as there were at a time; no more than queries


# ---- queries ----

cdef void udp_receive(UdpSocket *sock, Worker *worker, int n) noexcept nogil:
    cdef Query *queries[PREFETCH_QUERIES]
    cdef const ServerTable *server = worker.set.servers[sock.base.listener]
    cdef const ProxyPolicy *policy = server.proxy if server != NULL else NULL
    cdef const Aging *aging = aging_of(server)
    cdef uint32_t count
    cdef int i = 0
    if sock.ages or atomic_peek32(&aging.wanted):
        receive_aged(sock, worker, policy, aging, n)
        return
    while i < n:
        count = 0
        while i < n and count < PREFETCH_QUERIES:
            queries[count] = accept_datagram(worker, sock, i, False) if policy == NULL else accept_proxied(worker, sock, policy, i, False)
            if queries[count] != NULL:
                count += 1
            i += 1
        query_run_all(queries, count)


cdef void receive_aged(UdpSocket *sock, Worker *worker, const ProxyPolicy *policy, const Aging *aging, int n) noexcept nogil:
    """The same where a plugin asks how long queries have been in the socket, and maybe for those that are too old to be dropped."""
    cdef Query *queries[PREFETCH_QUERIES]
    cdef UdpBatch *batch = sock.batch
    cdef uint32_t count = 0
    cdef int i
    batch.stale = 0                     # the buffers are those of all sockets of the worker
    if not sock.ages:
        aging_begin(sock)               # the batch that is here has none yet
        memset(batch.ages, 0, sizeof(batch.ages))
        batch.read = worker.now
    elif atomic_peek32(&aging.wanted):
        aging_judge(sock, worker, aging, n)
    else:
        aging_end(sock)
        memset(batch.ages, 0, sizeof(batch.ages))
        batch.read = worker.now
    for i in range(n):
        if batch.stale >> i & 1:
            continue
        queries[count] = accept_datagram(worker, sock, i, True) if policy == NULL else accept_proxied(worker, sock, policy, i, True)
        if queries[count] != NULL:
            count += 1
        if count == PREFETCH_QUERIES:
            query_run_all(queries, count)
            count = 0
    query_run_all(queries, count)


cdef inline Query *accept_datagram(Worker *worker, UdpSocket *sock, int i, bint aged) noexcept nogil:
    """The query in a datagram, its chain found; NULL when it is none, or is answered already."""
    cdef UdpBatch *batch = sock.batch
    cdef Query *q = query_take(worker)
    if q == NULL:
        return NULL
    udp_addresses(sock, i, &q.client, &q.local)
    if query_accept(q, batch.received_octets + <size_t>i * RECEIVE_STRIDE, batch.received[i].msg_len, TRANSPORT_UDP, sock.base.listener,
                    sock.base.generation, &UDP, sock):
        if aged:
            q.received = batch.read - batch.ages[i]
        if query_enter(q):
            return q
    return NULL


cdef Query *accept_proxied(Worker *worker, UdpSocket *sock, const ProxyPolicy *policy, int i, bint aged) noexcept nogil:
    """The same where a proxy may have put a PROXY header before the query: the client is the header's, and the reply goes to the proxy."""
    cdef UdpBatch *batch = sock.batch
    cdef const uint8_t *datagram = batch.received_octets + <size_t>i * RECEIVE_STRIDE
    cdef Query *q = query_take(worker)
    cdef const Carrier *carrier = &PROXIED
    cdef void *connection = sock
    cdef ProxyTlvs *tlvs = NULL
    cdef int size
    if q == NULL:
        return NULL
    address_from_socket(&q.peer, &batch.peers[i])
    size = proxy_strip(policy, datagram, batch.received[i].msg_len, &q.peer, worker.now, worker.id, &q.client, &tlvs)
    if size < 0:
        query_release(q)
        return NULL
    q.local = sock.local
    if sock.wildcard:
        pktinfo_read(&batch.received[i].msg_hdr, &q.local)
    if tlvs != NULL:
        connection = tagged_new(worker, sock, tlvs)
        if connection == NULL:
            query_release(q)
            return NULL
        carrier = &TAGGED
    if query_accept(q, datagram + size, batch.received[i].msg_len - size, TRANSPORT_UDP, sock.base.listener, sock.base.generation, carrier, connection):
        if aged:
            q.received = batch.read - batch.ages[i]
        if query_enter(q):
            return q
    return NULL


# ---- replies ----

cdef inline void address_reply(const Query *q, const Address *to, msghdr *message, sockaddr_in6 *peer, uint8_t *control_octets) noexcept nogil:
    udp_address(<UdpSocket *>q.connection, to, &q.local, message, peer, control_octets)


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
        if errno != EINTR and not (errno == EMSGSIZE and udp_fragment(<UdpSocket *>q.connection)):
            backlog_lose(<UdpSocket *>q.connection)
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


# ---- behind proxies, with the TLVs of a header: the query's connection is a Tagged ----

cdef Tagged *tagged_new(Worker *worker, UdpSocket *sock, ProxyTlvs *tlvs) noexcept nogil:
    """Takes over the reference. NULL: out of memory."""
    cdef Tagged *tagged = spare_tagged[worker.id]
    if tagged != NULL:
        spare_tagged[worker.id] = tagged.next
    else:
        tagged = <Tagged *>malloc(sizeof(Tagged))
        if tagged == NULL:
            tlvs_unref(tlvs, worker.id)
            return NULL
    tagged.sock = sock
    tagged.tlvs = tlvs
    return tagged


cdef void untag(Query *q) noexcept nogil:
    """It is as any other query behind a proxy from now on."""
    cdef Tagged *tagged = <Tagged *>q.connection
    q.connection = tagged.sock
    tlvs_unref(tagged.tlvs, q.worker.id)
    tagged.next = spare_tagged[q.worker.id]
    spare_tagged[q.worker.id] = tagged


cdef void reject_tagged(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    untag(q)
    reject_proxied(q, how, rcode)


cdef void send_tagged(Query *q) noexcept nogil:
    untag(q)
    send_proxied(q)


cdef void tagged_dropped(Query *q) noexcept nogil:
    untag(q)


cdef void tagged_stream(Query *q) noexcept nogil:
    """The done hooks, which run at its end, see no TLVs any more."""
    untag(q)
    q.carrier = &PROXIED
    datagram_stream(q)


cdef const ProxyTlvs *tagged_tlvs(const Query *q) noexcept nogil:
    return (<const Tagged *>q.connection).tlvs


cdef Carrier TAGGED
TAGGED.reject = reject_tagged
TAGGED.unserved = tagged_dropped
TAGGED.send = send_tagged
TAGGED.dropped = tagged_dropped
TAGGED.stream = tagged_stream
TAGGED.tlvs = tagged_tlvs


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
            elif n < 0 and (errno == EINTR or (errno == EMSGSIZE and udp_fragment(sock))):
                continue
            elif sock.backlog != NULL and errno == EAGAIN:
                while i < end:
                    backlog_hold(sock, &batch.sent[i].msg_hdr)
                    i += 1
            else:                   # this one cannot be sent (no route, buffer full); the others may
                backlog_lose(sock)
                i += 1
    batch.sent_count = 0
    batch.sent_used = 0
    if batch.held != NULL:
        backlog_drain(batch)


# ---- the transport ----

cdef TransportWorker *init(Worker *worker) noexcept nogil:
    return <TransportWorker *>udp_batch_new(worker, &udp_transport)


cdef ListenSocket *socket_new() noexcept nogil:
    return <ListenSocket *>calloc(1, sizeof(UdpSocket))


cdef void socket_free(ListenSocket *listening) noexcept nogil:
    backlog_free(<UdpSocket *>listening)
    free(listening)


cdef void describe(ListenSocket *listening, uint8_t family, bint wildcard) noexcept nogil:
    udp_describe(<UdpSocket *>listening, <UdpBatch *>listening.transport, family, wildcard, udp_receive)

udp_transport.socket_type = SOCK_DGRAM
udp_transport.init = init
udp_transport.poll = udp_poll
udp_transport.flush = flush_batch
udp_transport.close_all = NULL
udp_transport.socket_new = socket_new
udp_transport.socket_free = socket_free
udp_transport.options = udp_options
udp_transport.describe = describe
udp_transport.listen_begin = udp_listen_begin
udp_transport.listen_end = udp_listen_end
