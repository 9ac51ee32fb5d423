"""Questions over another worker's connection. The contract is in _guest.pxd.

The question travels as mail and becomes an exchange there that nobody waits for; its end travels back. Mail runs in the order of posting, so a guest
arrives before its instance can be taken down: that waits for the query which sent it.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport Mail, Worker, mux_worker_count, mux_workers
from fastdns.api.memory cimport atomic_load32
from fastdns.plugins.forward._connection cimport connection_begin
from fastdns.plugins.forward._upstream cimport (BEGUN, BROKEN, REQUEST_INLINE, Exchange, Peer, Share, WAY_GUEST, WAY_NONE, exchange_give,
                                                exchange_returned, exchange_take, upstream_peer)

cdef enum:
    GUESTS = 4                  # with a host at one time; with more to ask a worker makes a connection of its own

cdef struct Guest:
    Mail mail
    Worker *home
    guest_share_func share
    void *owner                 # the instance
    uint32_t upstream           # its position there
    Exchange *exchange          # at home
    uint32_t generation
    uint32_t lane
    uint8_t id[2]               # of the request at home
    uint16_t question_length
    uint32_t limit
    uint32_t size
    uint8_t *request            # behind the struct
    uint8_t *reply              # malloc'ed
    uint32_t reply_size
    char error[ERROR_MAX]


cdef bint guest_wanted(Peer *peer) noexcept nogil:
    cdef uint32_t host = atomic_load32(&peer.upstream.host)
    return (host != 0 and host - 1 != peer.share.worker.id and host <= mux_worker_count and peer.connection_count == 0
            and peer.guests < GUESTS)


cdef int guest_begin(Exchange *e, Peer *peer, guest_share_func share) noexcept nogil:
    cdef Guest *guest = <Guest *>calloc(1, sizeof(Guest) + e.size)
    cdef uint32_t host = atomic_load32(&peer.upstream.host)
    cdef Worker *worker
    if guest == NULL or host == 0:
        free(guest)
        snprintf(e.error, ERROR_MAX, b"out of memory")
        return BROKEN
    worker = mux_workers[host - 1]
    guest.home = peer.share.worker
    guest.share = share
    guest.owner = peer.share.owner
    guest.upstream = <uint32_t>(peer.upstream - peer.share.settings.upstreams)
    guest.exchange = e
    guest.generation = e.generation
    guest.lane = e.lane
    memcpy(guest.id, e.request, 2)
    guest.question_length = e.question_length
    guest.limit = e.limit
    guest.size = e.size
    guest.request = <uint8_t *>&guest[1]
    memcpy(guest.request, e.request, e.size)
    guest.mail.run = arrive
    e.way = WAY_GUEST
    peer.guests += 1
    worker.ops.post(worker, &guest.mail)
    return BEGUN


cdef void guest_forget(Exchange *e) noexcept nogil:
    upstream_peer(e.share, e.upstream).guests -= 1
    e.lane += 1
    e.way = WAY_NONE


# ---- at the host ----

cdef void arrive(Mail *mail, Worker *worker) noexcept nogil:
    cdef Guest *guest = <Guest *>mail
    cdef Share *share = guest.share(guest.owner, worker)
    cdef Exchange *e = exchange_take(share) if share != NULL else NULL
    if e != NULL and guest.size > REQUEST_INLINE:
        e.large = <uint8_t *>malloc(guest.size)
        if e.large == NULL:
            exchange_give(e)
            e = NULL
    if e == NULL:
        snprintf(guest.error, ERROR_MAX, b"out of memory")
        go_home(guest)
        return
    e.guest = guest
    e.request = e.large if e.large != NULL else e.octets
    memcpy(e.request, guest.request, guest.size)
    e.size = guest.size
    e.question_length = guest.question_length
    e.limit = guest.limit
    e.by_tcp = 1
    e.begun = worker.now
    e.upstream = &share.settings.upstreams[guest.upstream]
    share.waiting += 1
    if not share.sweep.deadline:
        worker.ops.timer_start(worker, &share.sweep, worker.now + share.settings.expire)
    if connection_begin(e, &share.peers[guest.upstream]) < 0:
        guest_end(e, NULL, 0)


cdef void guest_end(Exchange *e, const uint8_t *packet, uint32_t length) noexcept nogil:
    cdef Guest *guest = <Guest *>e.guest
    e.share.waiting -= 1
    memcpy(guest.error, e.error, ERROR_MAX)
    exchange_give(e)
    if packet != NULL:
        guest.reply = <uint8_t *>malloc(length)
        if guest.reply == NULL:
            snprintf(guest.error, ERROR_MAX, b"out of memory")
        else:
            memcpy(guest.reply, packet, length)
            memcpy(guest.reply, guest.id, 2)
            guest.reply_size = length
    go_home(guest)


cdef void go_home(Guest *guest) noexcept nogil:
    guest.mail.run = return_home
    guest.home.ops.post(guest.home, &guest.mail)


cdef void return_home(Mail *mail, Worker *worker) noexcept nogil:
    cdef Guest *guest = <Guest *>mail
    cdef Exchange *e = guest.exchange
    if e.generation == guest.generation and e.way == WAY_GUEST and e.lane == guest.lane:
        exchange_returned(e, guest.reply, guest.reply_size, guest.error)
    free(guest.reply)
    free(guest)
