"""Health checks. The contract is in _health.pxd.

A probe is a question for NS over a socket of its own; any reply with its id is a sign of life, whatever its code. Over TLS and QUIC it is an exchange that
nobody waits for, on a connection of its own.
"""
from libc.errno cimport EAGAIN, EINPROGRESS, errno
from libc.stdint cimport uint16_t, uint32_t, int64_t
from libc.string cimport memcpy, memset
from fastdns.api.worker cimport Source, Timer, Worker
from fastdns.api.wire cimport CLASS_IN, HEADER_SIZE, TYPE_NS, load16, store16
from fastdns.api.metrics cimport metric_add
from fastdns.api.memory cimport atomic_add32, atomic_exchange32, atomic_store32
from fastdns.api.random cimport random_next
from fastdns.api.network cimport EPOLLIN, EPOLLOUT, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_DGRAM, SOCK_STREAM, close, connect, recv, send, sockaddr
from fastdns.plugins.forward.transport.connection cimport connection_begin, connection_suspect
from fastdns.plugins.forward._system cimport socket_connected, socket_error
from fastdns.plugins.forward._upstream cimport (BROKEN, PROTOCOL_DNS, Exchange, Peer, Probe, Settings, WAY_CONNECTION, exchange_give, exchange_take,
                                                upstream_alive, upstream_socket)

cdef enum:
    PROBE_TIMEOUT = 1000000000      # ns
    LEAST_INTERVAL = 10000000       # `health_check 0s` would never rest


cdef void health_init(Peer *peer) noexcept nogil:
    cdef Probe *probe = &peer.probe
    probe.peer = peer
    probe.source.fd = -1
    probe.source.ready = on_ready
    probe.source.data = probe
    probe.timer.fire = on_timer
    probe.timer.data = probe


cdef void health_begin(Peer *peer) noexcept nogil:
    if peer.probe.running or atomic_exchange32(&peer.upstream.probing, 1):
        return
    peer.probe.running = 1
    ask(&peer.probe)


cdef void health_end(Peer *peer) noexcept nogil:
    cdef Probe *probe = &peer.probe
    if probe.running:
        close_probe(probe)
        peer.share.worker.ops.timer_stop(peer.share.worker, &probe.timer)
        probe.running = 0
        atomic_store32(&peer.upstream.probing, 0)


cdef void health_failed(Peer *peer) noexcept nogil:
    failed(&peer.probe)


cdef void health_answered(Peer *peer) noexcept nogil:
    succeeded(&peer.probe)


cdef void close_probe(Probe *probe) noexcept nogil:
    cdef Worker *worker = probe.peer.share.worker
    cdef Exchange *e = probe.exchange
    if e != NULL:
        probe.exchange = NULL
        if e.way == WAY_CONNECTION:
            connection_suspect(e)
        probe.peer.share.leave(e)
        exchange_give(e)
    if probe.source.fd >= 0:
        worker.ops.unwatch(worker, &probe.source)
        close(probe.source.fd)
        probe.source.fd = -1


cdef void write_request(Probe *probe) noexcept nogil:
    """The question, behind the two octets of its length that TCP wants."""
    cdef const Settings *settings = probe.peer.share.settings
    cdef uint32_t used = 2 + HEADER_SIZE
    memset(probe.request, 0, used)
    probe.id = <uint16_t>random_next(&probe.peer.share.worker.random)
    store16(probe.request + 2, probe.id)
    probe.request[4] = settings.probe_flags
    probe.request[7] = 1
    memcpy(probe.request + used, settings.probe_name, settings.probe_name_length)
    used += settings.probe_name_length
    store16(probe.request + used, TYPE_NS)
    store16(probe.request + used + 2, CLASS_IN)
    probe.size = used + 4
    store16(probe.request, probe.size - 2)


cdef void ask_encrypted(Probe *probe) noexcept nogil:
    cdef Peer *peer = probe.peer
    cdef Worker *worker = peer.share.worker
    cdef Exchange *e = exchange_take(peer.share)
    probe.exchange = e
    if e == NULL:
        failed(probe)
        return
    e.probe = 1
    e.upstream = peer.upstream
    e.alone = 1
    e.begun = e.asked = worker.now
    e.size = probe.size - 2
    e.request = e.octets
    memcpy(e.octets, probe.request + 2, e.size)
    e.question_length = <uint16_t>(e.size - HEADER_SIZE)
    if connection_begin(e, peer) == BROKEN:
        failed(probe)
        return
    probe.asking = 1
    worker.ops.timer_start(worker, &probe.timer, worker.now + PROBE_TIMEOUT)


cdef void ask(Probe *probe) noexcept nogil:
    cdef Peer *peer = probe.peer
    cdef Worker *worker = peer.share.worker
    cdef bint tcp = peer.share.settings.force_tcp
    cdef int fd
    write_request(probe)
    if peer.upstream.protocol != PROTOCOL_DNS:
        ask_encrypted(probe)
        return
    fd = upstream_socket(peer.share.settings, peer.upstream, SOCK_STREAM if tcp else SOCK_DGRAM)
    probe.got = 0
    probe.connected = 0
    if fd < 0:
        failed(probe)
        return
    probe.source.fd = fd
    if connect(fd, <const sockaddr *>peer.upstream.address, peer.upstream.address_length) < 0 and errno != EINPROGRESS:
        close(fd)
        probe.source.fd = -1
        failed(probe)
        return
    if worker.ops.watch(worker, &probe.source, EPOLLIN | EPOLLOUT if tcp else EPOLLIN) < 0:
        close(fd)
        probe.source.fd = -1
        failed(probe)
        return
    if not tcp and send(fd, probe.request + 2, probe.size - 2, MSG_DONTWAIT) < 0:
        failed(probe)
        return
    probe.asking = 1
    worker.ops.timer_start(worker, &probe.timer, worker.now + PROBE_TIMEOUT)


cdef void failed(Probe *probe) noexcept nogil:
    cdef Peer *peer = probe.peer
    cdef Worker *worker = peer.share.worker
    cdef int64_t interval = peer.share.settings.interval
    close_probe(probe)
    probe.asking = 0
    atomic_add32(&peer.upstream.fails, 1)
    metric_add(peer.upstream.failures, worker.id, 1)
    worker.ops.timer_start(worker, &probe.timer, worker.now + (interval if interval > LEAST_INTERVAL else LEAST_INTERVAL))


cdef void succeeded(Probe *probe) noexcept nogil:
    cdef Peer *peer = probe.peer
    close_probe(probe)
    probe.asking = 0
    peer.share.worker.ops.timer_stop(peer.share.worker, &probe.timer)
    probe.running = 0
    upstream_alive(peer.upstream, peer.share.worker.now)


cdef void on_timer(Timer *timer, Worker *worker) noexcept nogil:
    cdef Probe *probe = <Probe *>timer.data
    if probe.asking:
        failed(probe)
    else:
        ask(probe)


cdef void on_ready(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef Probe *probe = <Probe *>source.data
    cdef ssize_t n
    cdef uint32_t head = 2 if probe.peer.share.settings.force_tcp else 0
    if source.fd < 0:
        return
    if head and not probe.connected:
        if not socket_connected(source.fd):
            if socket_error(source.fd):
                failed(probe)
            return
        probe.connected = 1
        worker.ops.rewatch(worker, source, EPOLLIN)
        if send(source.fd, probe.request, probe.size, MSG_DONTWAIT | MSG_NOSIGNAL) != probe.size:
            failed(probe)
            return
    n = recv(source.fd, probe.reply + (probe.got if head else 0), sizeof(probe.reply) - (probe.got if head else 0), MSG_DONTWAIT)
    if n < 0 and errno == EAGAIN:
        return
    if n < 0 or head and n == 0:
        failed(probe)
        return
    probe.got = probe.got + <uint32_t>n if head else <uint32_t>n
    if probe.got < head + HEADER_SIZE:
        return                          # a runt, or the beginning of the message
    if load16(probe.reply + head) == probe.id and probe.reply[head + 2] & 0x80:
        succeeded(probe)
    elif head:
        failed(probe)
