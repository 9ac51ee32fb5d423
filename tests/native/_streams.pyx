"""Fuzz targets over connections: what clients send over TCP, by DNS, HTTP/1.1 and HTTP/2, whole and cut anywhere.

A connection is the server's, over a pair of sockets, on a worker whose descriptors are watched here. All queries are refused: no zone is served.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from fastdns._wire cimport MESSAGE_MAX
from fastdns.engine.http.http1 cimport http1_protocol
from fastdns.engine.http.memory cimport http_blocks
from fastdns.engine.http.session cimport http2_protocol
from fastdns.engine.io.connection cimport AddressCount, StreamProtocol, StreamService, TcpWorker, connection_begin
from fastdns.engine.io.framing cimport dns_framing
from fastdns.message.reply cimport LargeReplyBuffer
from fastdns.system.address cimport Address
from fastdns.system.fairness cimport FairQueue, fair_init
from fastdns.system.list cimport list_init
from fastdns.system.socket cimport EPOLLIN, MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, close, poll, pollfd, recv, send, shutdown
from fastdns.telemetry.metrics cimport metrics_prepare
from fastdns.walk.query cimport (TRANSPORT_GRPC, TRANSPORT_HTTPS, TRANSPORT_TCP, ChainSet, Flush, Mail, Query, ServerTable, Source, Timer, Transport, Worker,
                                 WorkerOps, Zone)

cdef extern from "<sys/socket.h>" nogil:
    enum: AF_UNIX
    enum: SOCK_STREAM
    enum: SOCK_NONBLOCK
    enum: SOCK_CLOEXEC
    enum: SHUT_WR
    int socketpair(int domain, int type, int protocol, int *pair)

cdef extern from "<string.h>" nogil:
    void *memmem(const void *where, size_t length, const void *what, size_t size)

cdef enum:
    SOURCES = 8
    ROUNDS = 10000              # of a worker's loop, after which a connection hangs
    INPUT_MAX = 16384           # octets of an input that are sent
    POOL = 256

cdef struct Watched:
    Source *source
    uint32_t events

cdef struct Received:
    uint8_t *octets
    size_t used
    size_t size

cdef Worker worker
cdef WorkerOps ops
cdef ChainSet served
cdef ServerTable table
cdef Zone *slot = NULL
cdef TcpWorker tcp
cdef StreamService service
cdef AddressCount address
cdef Watched watched[SOURCES]


# ---- the worker ----

cdef int watch(Worker *self, Source *source, uint32_t events) noexcept nogil:
    cdef uint32_t i
    for i in range(SOURCES):
        if watched[i].source == NULL:
            watched[i].source = source
            watched[i].events = events
            return 0
    return -1


cdef int rewatch(Worker *self, Source *source, uint32_t events) noexcept nogil:
    cdef uint32_t i
    for i in range(SOURCES):
        if watched[i].source == source:
            watched[i].events = events
    return 0


cdef void unwatch(Worker *self, Source *source) noexcept nogil:
    cdef uint32_t i
    for i in range(SOURCES):
        if watched[i].source == source:
            watched[i].source = NULL


cdef void timer_start(Worker *self, Timer *timer, int64_t deadline) noexcept nogil:
    timer.deadline = deadline


cdef void timer_stop(Worker *self, Timer *timer) noexcept nogil:
    timer.deadline = 0


cdef void post(Worker *self, Mail *mail) noexcept nogil:
    mail.run(mail, self)


cdef void run_flushes() noexcept nogil:
    cdef Flush *flush
    while worker.flushes != NULL:
        flush = worker.flushes
        worker.flushes = flush.next
        flush.queued = 0
        flush.run(flush, &worker)


cdef bint turn() noexcept nogil:
    """One turn of the loop. False: nothing was readable."""
    cdef pollfd one
    cdef uint32_t i
    cdef bint ready = False
    for i in range(SOURCES):
        if watched[i].source != NULL and watched[i].events & EPOLLIN:
            one.fd = watched[i].source.fd
            one.events = POLLIN
            one.revents = 0
            if poll(&one, 1, 0) > 0 and one.revents & POLLIN:
                watched[i].source.ready(watched[i].source, &worker, EPOLLIN)
                ready = True
    run_flushes()
    return ready


cdef int make_worker() except -1:
    metrics_prepare(1)
    memset(&worker, 0, sizeof(worker))
    ops.watch = watch
    ops.rewatch = rewatch
    ops.unwatch = unwatch
    ops.timer_start = timer_start
    ops.timer_stop = timer_stop
    ops.post = post
    worker.workers = 1
    worker.now = 1000000000000
    worker.ops = &ops
    worker.set = &served
    worker.pool_limit = POOL
    worker.large.limit = 2
    worker.message = <uint8_t *>malloc(MESSAGE_MAX + 1024)
    worker.fair = <FairQueue *>malloc(sizeof(FairQueue))
    if worker.message == NULL or worker.fair == NULL or fair_init(worker.fair, worker.pool_limit) < 0:
        raise MemoryError
    list_init(&worker.waiting)
    memset(&served, 0, sizeof(served))
    memset(&table, 0, sizeof(table))
    table.slots = &slot
    table.read_timeout = table.idle_timeout = table.write_timeout = 5000
    served.servers[0] = &table
    served.listeners[0] = 1
    memset(&tcp, 0, sizeof(tcp))
    tcp.base.worker = &worker
    list_init(&tcp.connections)
    memset(&address, 0, sizeof(address))
    memset(&service, 0, sizeof(service))
    memset(watched, 0, sizeof(watched))
    address.references = 1
    service.references = 1              # never the last one
    service.address = &address
    return 0


make_worker()


cdef void free_memory() noexcept nogil:
    """Of what the worker keeps for the next connection."""
    cdef Query *q
    cdef LargeReplyBuffer *large
    cdef void *spare
    while worker.free != NULL:
        q = worker.free
        worker.free = q.next
        worker.pool_made -= 1
        free(q)
    while worker.large.free != NULL:
        large = worker.large.free
        worker.large.free = large.next
        worker.large.made -= 1
        free(large)
    while tcp.spare != NULL:
        spare = tcp.spare
        tcp.spare = (<void **>spare)[0]
        tcp.spares -= 1
        free(spare)


# ---- a client ----

cdef bint receive(int fd, Received *received) noexcept nogil:
    """What the server has sent. False: out of memory."""
    cdef ssize_t n = 1
    cdef uint8_t *more
    while n > 0:
        if received.size - received.used < 1024:
            more = <uint8_t *>realloc(received.octets, received.size + 16384)
            if more == NULL:
                return False
            received.octets = more
            received.size += 16384
        n = recv(fd, received.octets + received.used, received.size - received.used, MSG_DONTWAIT)
        if n > 0:
            received.used += n
    return True


cdef bint settle(int fd, Received *received) noexcept nogil:
    """Runs the loop until nothing is readable. False: that does not end."""
    cdef uint32_t i
    for i in range(ROUNDS):
        if not turn():
            return receive(fd, received)
        receive(fd, received)
    return False


cdef size_t next_piece(uint32_t *state) noexcept nogil:
    """Octets of a piece: all of them for the state 0, one for 1, else 1 to 8, and now and then up to 256."""
    if state[0] < 2:
        return 1 if state[0] else INPUT_MAX
    state[0] = state[0] * 1103515245u + 12345u | 2
    return 1 + ((state[0] >> 16) & (255 if state[0] & 0x7000000 == 0 else 7))


cdef const char *converse(const StreamProtocol *protocol, Transport transport, const uint8_t *octets, size_t size, uint32_t cuts,
                          Received *received) noexcept nogil:
    """A connection from its beginning to its end. cuts: how the octets come, see next_piece."""
    cdef int pair[2]
    cdef Address client
    cdef size_t at = 0, piece
    cdef bint settled
    memset(received, 0, sizeof(Received))
    memset(&client, 0, sizeof(client))
    client.family = 4
    if socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0:
        return NULL
    service.protocol = protocol
    service.transport = transport
    service.references += 1
    address.connections += 1
    if connection_begin(&tcp, protocol, &service, NULL, 0, 1, pair[0], &client, &client, worker.now) == NULL:
        return b"a connection does not begin"
    settled = settle(pair[1], received)
    while at < size and settled:
        piece = min(next_piece(&cuts), size - at)
        if send(pair[1], octets + at, piece, MSG_NOSIGNAL) != <ssize_t>piece:
            break                       # the server has closed it
        at += piece
        settled = settle(pair[1], received)
    shutdown(pair[1], SHUT_WR)
    settled = settle(pair[1], received) and settled
    close(pair[1])
    settled = settle(-1, received) and settled
    if not settled:
        return b"the loop does not end"
    if tcp.base.connections or address.connections or service.references != 1:
        return b"a connection does not end with its client"
    if tcp.octets or worker.parked:
        return b"octets of a connection are counted behind its end"
    if http_blocks(worker.id):
        return b"a connection's memory outlives it"
    free_memory()
    return NULL


cdef const char *check_stream(const StreamProtocol *protocol, Transport transport, const uint8_t *octets, size_t size, bint compared) noexcept nogil:
    """The first octet says how the others are cut: replies are those of octets that come at once."""
    cdef Received whole, cut
    cdef const char *failure
    if size < 1 or size > INPUT_MAX:
        return NULL
    failure = converse(protocol, transport, octets + 1, size - 1, 0, &whole)
    if failure == NULL:
        failure = converse(protocol, transport, octets + 1, size - 1, <uint32_t>octets[0] + 1, &cut)
        if failure == NULL and compared:
            level(&whole)
            level(&cut)
            if whole.used != cut.used or whole.used and memcmp(whole.octets, cut.octets, whole.used) != 0:
                failure = b"octets that come in pieces have other replies"
        free(cut.octets)
    free(whole.octets)
    return failure


cdef void level(Received *received) noexcept nogil:
    """Removes what depends on time, and the interim response that only a request in pieces gets."""
    cdef uint8_t *found
    while received.used:
        found = <uint8_t *>memmem(received.octets, received.used, b"HTTP/1.1 100 Continue\r\n\r\n", 25)
        if found == NULL:
            break
        memmove(found, found + 25, received.octets + received.used - found - 25)
        received.used -= 25
    found = received.octets
    while found != NULL and received.used:
        found = <uint8_t *>memmem(found, received.octets + received.used - found, b"\r\ndate: ", 8)
        if found != NULL and received.octets + received.used - found > 37:
            memset(found + 8, c"x", 29)
            found += 8
        else:
            found = NULL


# ---- targets ----

cdef const char *check_tcp(const uint8_t *octets, size_t size) noexcept nogil:
    """DNS over TCP (RFC 7766)."""
    return check_stream(&dns_framing, TRANSPORT_TCP, octets, size, True)


cdef const char *check_http(const uint8_t *octets, size_t size) noexcept nogil:
    """DNS over HTTP/1.1 (RFC 8484), or HTTP/2 where the client begins so."""
    cdef bint over = size > 4 and memcmp(octets + 1, b"PRI", 3) == 0
    return check_stream(&http1_protocol, TRANSPORT_HTTPS, octets, size, not over)


cdef const char *check_http2(const uint8_t *octets, size_t size) noexcept nogil:
    """HTTP/2 behind the client's preface and an empty SETTINGS frame; gRPC where the first octet is odd."""
    cdef uint8_t *all
    cdef const char *failure
    if size < 1 or size > INPUT_MAX - 64:
        return NULL
    all = <uint8_t *>malloc(1 + 24 + 9 + size)
    all[0] = octets[0]
    memcpy(all + 1, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33)
    memcpy(all + 34, octets + 1, size - 1)
    failure = check_stream(&http2_protocol, TRANSPORT_GRPC if octets[0] & 1 else TRANSPORT_HTTPS, all, 33 + size, False)
    free(all)
    return failure


def addresses() -> dict:
    """As of _targets."""
    return {"tcp": <size_t>&check_tcp, "http": <size_t>&check_http, "http2": <size_t>&check_http2}
