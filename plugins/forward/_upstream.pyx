"""Memory of exchanges, sockets, and the texts of what went wrong. The contract is in _upstream.pxd."""
from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strerror
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport Worker
from fastdns.api.wire cimport wire_answers
from fastdns.api.memory cimport atomic_store32, atomic_store_ns, list_append, list_init, list_remove
from fastdns.api.network cimport SOCK_CLOEXEC, SOCK_NONBLOCK, bind, close, sockaddr, socket
from fastdns.plugins.forward._system cimport error_number_set, socket_address_text, socket_local_text

cdef enum:
    AF_UNIX = 1
    CHUNKS = 1024               # of 64 exchanges: more than the pool of queries ever has


cdef bint share_begin(Share *share, Worker *worker, Settings *settings, void *owner) noexcept nogil:
    cdef uint32_t i
    share.peers = <Peer *>calloc(settings.count, sizeof(Peer))
    if share.peers == NULL:
        return False
    share.worker = worker
    share.settings = settings
    share.owner = owner
    list_init(&share.pending)
    list_init(&share.paused)
    share.timeout.data = share
    share.sweep.data = share
    for i in range(settings.count):
        share.peers[i].share = share
        share.peers[i].upstream = &settings.upstreams[i]
        list_init(&share.peers[i].connections)
        list_init(&share.peers[i].expected)
    return True


cdef Stock *stock_make(Worker *worker) noexcept nogil:
    cdef Stock *stock = <Stock *>calloc(1, sizeof(Stock))
    cdef uint32_t i
    if stock == NULL:
        return NULL
    stock.chunks = <Exchange **>calloc(CHUNKS, sizeof(Exchange *))
    if stock.chunks == NULL:
        free(stock)
        return NULL
    for i in range(SEND_BATCH):
        stock.sent[i].msg_hdr.msg_iov = &stock.sent_spans[i]
        stock.sent[i].msg_hdr.msg_iovlen = 1
    for i in range(RECEIVE_BATCH):
        stock.received_spans[i].iov_base = stock.octets[i]
        stock.received_spans[i].iov_len = RECEIVE_SIZE
        stock.received[i].msg_hdr.msg_iov = &stock.received_spans[i]
        stock.received[i].msg_hdr.msg_iovlen = 1
    stocks[worker.id] = stock
    return stock


cdef bint add_chunk(Stock *stock) noexcept nogil:
    cdef Exchange *chunk
    cdef uint32_t i
    if stock.made >= CHUNKS * 64 - 64:
        return False
    chunk = <Exchange *>calloc(64, sizeof(Exchange))
    if chunk == NULL:
        return False
    stock.chunks[stock.made >> 6] = chunk
    for i in range(64):
        chunk[i].number = stock.made + i + 1
        chunk[i].next_free = stock.free
        stock.free = &chunk[i]
    stock.made += 64
    return True


cdef Exchange *exchange_take(Share *share) noexcept nogil:
    cdef Stock *stock = stock_of(share.worker)
    cdef Exchange *e
    if stock == NULL or (stock.free == NULL and not add_chunk(stock)):
        return NULL
    e = stock.free
    stock.free = e.next_free
    e.share = share
    e.waiters = NULL
    e.shared = NULL
    e.same = NULL
    e.request = NULL
    e.large = NULL
    e.upstream = NULL
    e.socket = NULL
    e.connection = NULL
    e.stream = NULL
    e.second = NULL
    e.first = NULL
    e.failed = 0
    e.status = 0
    e.cookie = 0
    e.opt = 0
    e.opt_added = 0
    e.opt_fixed = 0
    e.bad_cookies = 0
    e.probe = 0
    e.finishing = 0
    e.signed = 0
    e.step = 0
    e.known_down = 0
    e.passed = 0
    e.failovers = 0
    e.way = WAY_NONE
    e.way_tcp = 0
    e.alone = 0
    e.opened = 0
    e.queued = 0
    e.repeats = 0
    e.plain = 0
    e.mixed = 0
    e.exact = 0
    e.trial = 0
    e.refused = 0
    e.hedging = 0
    e.timed = 0
    e.error[0] = 0
    return e


cdef void exchange_give(Exchange *e) noexcept nogil:
    cdef Stock *stock = stocks[e.share.worker.id]
    e.generation += 1
    if e.large != NULL:
        free(e.large)
        e.large = NULL
    e.next_free = stock.free
    stock.free = e


cdef void exchange_wait(Exchange *e, int64_t deadline) noexcept nogil:
    cdef Share *share = e.share
    if e.timed:
        exchange_unwait(e)
    e.deadline = deadline
    e.timed = 1
    list_append(&share.pending, &e.node)
    if not share.timeout.deadline:
        share.worker.ops.timer_start(share.worker, &share.timeout, e.deadline)


cdef void exchange_unwait(Exchange *e) noexcept nogil:
    list_remove(&e.node)
    e.timed = 0


cdef void exchange_returned(Exchange *e, const uint8_t *reply, uint32_t size, const char *error) noexcept nogil:
    if reply == NULL:
        snprintf(e.error, ERROR_MAX, b"%s", error)
        e.share.failed(e)
    elif e.upstream.protocol == PROTOCOL_GRPC or e.probe:        # who asked looks at it
        e.share.answered(e, reply, size, False)
    elif not wire_answers(reply, size, e.request, e.question_length) or not e.share.answered(e, reply, size, False):
        snprintf(e.error, ERROR_MAX, b"dns: bad reply")
        e.share.failed(e)


cdef const char *upstream_network(const Upstream *upstream) noexcept nogil:
    if (<const sockaddr *>upstream.address).sa_family == AF_UNIX:
        return b"unix"
    return upstream.transport.network


cdef int upstream_socket(const Settings *settings, const Upstream *upstream, int type) noexcept nogil:
    cdef int fd = socket((<const sockaddr *>upstream.address).sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    cdef int kept
    if fd >= 0 and settings.source_length and bind(fd, <const sockaddr *>settings.source, settings.source_length) < 0:
        kept = errno
        close(fd)
        error_number_set(kept)
        return -1
    return fd


cdef void upstream_error(Exchange *e, const char *operation, const char *network, int fd, const char *call, int error) noexcept nogil:
    cdef char local[64]
    cdef char *reason
    cdef char first
    cdef bint named = True
    local[0] = 0
    if fd >= 0:
        socket_local_text(fd, local)
    elif e.share.settings.source_length:
        socket_address_text(<const sockaddr *>e.share.settings.source, local)
    else:
        named = False
    if error == 0:
        snprintf(e.error, ERROR_MAX, b"%s %s %s%s%s: i/o timeout", operation, network, local, <const char *>(b"->" if named else b""), e.upstream.text)
        return
    reason = strerror(error)
    first = reason[0]
    if c'A' <= first <= c'Z':
        first += 32
    snprintf(e.error, ERROR_MAX, b"%s %s %s%s%s: %s: %c%s", operation, network, local, <const char *>(b"->" if named else b""), e.upstream.text,
             call, first, reason + 1)


cdef void upstream_alive(Upstream *upstream, int64_t now) noexcept nogil:
    atomic_store32(&upstream.fails, 0)
    atomic_store_ns(&upstream.alive, now)
    atomic_store32(&upstream.probing, 0)
