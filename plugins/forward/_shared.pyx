"""Questions over another worker's connection. The contract is in _shared.pxd.

The question travels as mail and becomes an exchange there that nobody waits for; its end travels back. Mail runs in the order of posting, so a shared request
arrives before its instance can be taken down: that waits for the query which sent it.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport Mail, Worker, mux_worker_count, mux_workers
from fastdns.api.memory cimport atomic_load32
from fastdns.plugins.forward.transport.connection cimport connection_begin
from fastdns.plugins.forward._upstream cimport (BEGUN, BROKEN, REQUEST_INLINE, Exchange, Peer, Share, WAY_SHARED, WAY_NONE, exchange_give,
                                                exchange_returned, exchange_take, upstream_peer)

cdef enum:
    SHARED_MAX = 4                  # with a host at one time; with more to ask a worker makes a connection of its own

cdef struct SharedRequest:
    Mail mail
    Worker *home
    share_find_func share
    void *owner                 # the instance
    uint32_t upstream           # its position there
    Exchange *exchange          # at home
    uint32_t generation
    uint32_t abandoned
    uint8_t id[2]               # of the request at home
    uint16_t question_length
    uint32_t limit
    uint32_t size
    uint8_t *request            # behind the struct
    uint8_t *reply              # malloc'ed
    uint32_t reply_size
    char error[ERROR_MAX]
    uint16_t status             # of gRPC, likewise


cdef bint shared_wanted(Peer *peer) noexcept nogil:
    cdef uint32_t host = atomic_load32(&peer.upstream.host)
    return (host != 0 and host - 1 != peer.share.worker.id and host <= mux_worker_count and peer.connection_count == 0
            and peer.shared_requests < SHARED_MAX)


cdef int shared_begin(Exchange *e, Peer *peer, share_find_func share) noexcept nogil:
    cdef SharedRequest *shared = <SharedRequest *>calloc(1, sizeof(SharedRequest) + e.size)
    cdef uint32_t host = atomic_load32(&peer.upstream.host)
    cdef Worker *worker
    if shared == NULL or host == 0:
        free(shared)
        snprintf(e.error, ERROR_MAX, b"out of memory")
        return BROKEN
    worker = mux_workers[host - 1]
    shared.home = peer.share.worker
    shared.share = share
    shared.owner = peer.share.owner
    shared.upstream = <uint32_t>(peer.upstream - peer.share.settings.upstreams)
    shared.exchange = e
    shared.generation = e.generation
    shared.abandoned = e.abandoned
    memcpy(shared.id, e.request, 2)
    shared.question_length = e.question_length
    shared.limit = e.limit
    shared.size = e.size
    shared.request = <uint8_t *>&shared[1]
    memcpy(shared.request, e.request, e.size)
    shared.mail.run = arrive
    e.way = WAY_SHARED
    peer.shared_requests += 1
    worker.ops.post(worker, &shared.mail)
    return BEGUN


cdef void shared_forget(Exchange *e) noexcept nogil:
    upstream_peer(e.share, e.upstream).shared_requests -= 1
    e.abandoned += 1
    e.way = WAY_NONE


# ---- at the host ----

cdef void arrive(Mail *mail, Worker *worker) noexcept nogil:
    cdef SharedRequest *shared = <SharedRequest *>mail
    cdef Share *share = shared.share(shared.owner, worker)
    cdef Exchange *e = exchange_take(share) if share != NULL else NULL
    if e != NULL and shared.size > REQUEST_INLINE:
        e.large = <uint8_t *>malloc(shared.size)
        if e.large == NULL:
            exchange_give(e)
            e = NULL
    if e == NULL:
        snprintf(shared.error, ERROR_MAX, b"out of memory")
        send_back(shared)
        return
    e.shared = shared
    e.request = e.large if e.large != NULL else e.octets
    memcpy(e.request, shared.request, shared.size)
    e.size = shared.size
    e.question_length = shared.question_length
    e.limit = shared.limit
    e.by_tcp = 1
    e.begun = worker.now
    e.upstream = &share.settings.upstreams[shared.upstream]
    share.waiting += 1
    if not share.sweep.deadline:
        worker.ops.timer_start(worker, &share.sweep, worker.now + share.settings.expire)
    if connection_begin(e, &share.peers[shared.upstream]) < 0:
        shared_end(e, NULL, 0)


cdef void shared_end(Exchange *e, const uint8_t *packet, uint32_t length) noexcept nogil:
    cdef SharedRequest *shared = <SharedRequest *>e.shared
    e.share.waiting -= 1
    memcpy(shared.error, e.error, ERROR_MAX)
    shared.status = e.status
    exchange_give(e)
    if packet != NULL:
        shared.reply = <uint8_t *>malloc(length)
        if shared.reply == NULL:
            snprintf(shared.error, ERROR_MAX, b"out of memory")
        else:
            memcpy(shared.reply, packet, length)
            memcpy(shared.reply, shared.id, 2)
            shared.reply_size = length
    send_back(shared)


cdef void send_back(SharedRequest *shared) noexcept nogil:
    shared.mail.run = return_home
    shared.home.ops.post(shared.home, &shared.mail)


cdef void return_home(Mail *mail, Worker *worker) noexcept nogil:
    cdef SharedRequest *shared = <SharedRequest *>mail
    cdef Exchange *e = shared.exchange
    if e.generation == shared.generation and e.way == WAY_SHARED and e.abandoned == shared.abandoned:
        e.status = shared.status
        exchange_returned(e, shared.reply, shared.reply_size, shared.error)
    free(shared.reply)
    free(shared)
