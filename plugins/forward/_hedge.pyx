"""Second questions. The contract is in _hedge.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.api.memory cimport list_append, list_container, list_first, list_remove, ListNode
from fastdns.api.metrics cimport metric_add
from fastdns.api.network cimport address_prefix
from fastdns.api.query cimport Query
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.wire cimport RCODE_NOERROR, RCODE_NXDOMAIN
from fastdns.api.worker cimport Timer, Worker
from fastdns.plugins.forward._instance cimport Forward
from fastdns.plugins.forward._order cimport is_down, next_upstream, silent
from fastdns.plugins.forward._pair cimport pair_begin, pair_end
from fastdns.plugins.forward._taps cimport taps_tell
from fastdns.plugins.forward._upstream cimport (BROKEN, COOKIE_SPACE, HEDGE_DUE, LATENCY_CELLS, REQUEST_INLINE, Exchange, Latencies, Peer, Settings, Share,
                                                TokenBuckets, Upstream, exchange_give, exchange_take, upstream_peer)
from fastdns.plugins.forward._waiters cimport tell_waiters, waiters_move
from fastdns.plugins.recorder._asked cimport FATE_DISCARDED

cdef extern from * nogil:
    int __builtin_clzll(unsigned long long) noexcept

cdef enum:
    TOKEN = 100
    NETWORK_MAX = 16 * TOKEN         # that a bucket holds, in hundredths of a token
    ZONE_MAX = 4 * TOKEN
    # A cell of latencies is an eighth of a power of two; the first ones are below 65 us, the last one is of 4 s and more.
    LATENCY_SHIFT = 13
    LATENCY_LEAST = 100             # replies, before the quantile is known
    LATENCY_FRESH = 32              # replies, after which it is taken anew
    LATENCY_MOST = 2048             # replies, after which all count half


# ---- a share ----

cdef bint hedge_init(Share *share) noexcept nogil:
    cdef uint32_t i
    share.hedge_buckets = <TokenBuckets *>calloc(1, sizeof(TokenBuckets))
    if share.hedge_buckets == NULL:
        return False
    for i in range(share.settings.count):
        share.peers[i].hedge.fire = on_late
        share.peers[i].hedge.data = &share.peers[i]
    return True


cdef void hedge_free(Share *share) noexcept nogil:
    cdef uint32_t i
    for i in range(share.settings.count):
        share.worker.ops.timer_stop(share.worker, &share.peers[i].hedge)
    free(share.hedge_buckets)
    share.hedge_buckets = NULL


# ---- the budget ----

cdef void hedge_fill(Exchange *e, const Query *q) noexcept nogil:
    cdef const Settings *settings = e.share.settings
    cdef TokenBuckets *buckets = e.share.hedge_buckets
    cdef uint64_t network = address_prefix(&q.client)
    cdef uint32_t labels = q.name.labels
    e.network = <uint8_t>hash_octets(<const uint8_t *>&network, sizeof(network), hash_seed)
    e.zone = <uint8_t>(q.name.hash[labels - settings.hedge_labels if labels > settings.hedge_labels else 0] >> 24)
    fill(&buckets.networks[e.network], settings.hedge_percent, NETWORK_MAX)
    fill(&buckets.zones[e.zone], settings.hedge_percent, ZONE_MAX)


cdef inline void fill(uint16_t *bucket, uint32_t by, uint32_t most) noexcept nogil:
    cdef uint32_t held = bucket[0] + by
    bucket[0] = <uint16_t>(held if held < most else most)


cdef inline bint has_tokens(const Exchange *e) noexcept nogil:
    return e.share.hedge_buckets.networks[e.network] >= TOKEN and e.share.hedge_buckets.zones[e.zone] >= TOKEN


cdef inline void take_tokens(const Exchange *e) noexcept nogil:
    e.share.hedge_buckets.networks[e.network] -= TOKEN
    e.share.hedge_buckets.zones[e.zone] -= TOKEN


# ---- when ----

cdef void hedge_expect(Exchange *e, Peer *peer) noexcept nogil:
    cdef const Settings *settings = e.share.settings
    cdef int64_t delay = settings.hedge_delay if settings.hedge_quantile == 0 else peer.latencies.quantile
    if delay == 0 or delay >= settings.read_timeout or e.first != NULL or e.second != NULL:
        return
    e.hedge_at = e.asked + delay
    e.hedging |= HEDGE_DUE
    list_append(&peer.expected, &e.hedge_node)
    if not peer.hedge.deadline:
        e.share.worker.ops.timer_start(e.share.worker, &peer.hedge, e.hedge_at)


cdef void hedge_forget(Exchange *e) noexcept nogil:
    list_remove(&e.hedge_node)
    e.hedging &= <uint8_t>~HEDGE_DUE


cdef inline Exchange *first_of(Peer *peer) noexcept nogil:
    cdef ListNode *node = list_first(&peer.expected)
    return <Exchange *>list_container(node, <size_t>&(<Exchange *>NULL).hedge_node)


cdef void on_late(Timer *timer, Worker *worker) noexcept nogil:
    cdef Peer *peer = <Peer *>timer.data
    cdef Exchange *e
    while True:
        e = first_of(peer)
        if e == NULL or e.hedge_at > worker.now:
            break
        hedge_forget(e)
        ask_another(e)
    if e != NULL and not timer.deadline:
        worker.ops.timer_start(worker, timer, e.hedge_at)


cdef inline uint32_t latency_cell(int64_t took) noexcept nogil:
    cdef uint64_t units = <uint64_t>took >> LATENCY_SHIFT
    cdef uint32_t power, cell
    if units < 8:
        return 0
    power = 60 - <uint32_t>__builtin_clzll(units)
    cell = power * 8 + (<uint32_t>(units >> power) & 7)
    return cell if cell < LATENCY_CELLS else LATENCY_CELLS - 1


cdef void hedge_learn(Peer *peer, int64_t took) noexcept nogil:
    cdef Latencies *latencies = &peer.latencies
    if peer.share.settings.hedge_quantile == 0 or took < 0:
        return
    latencies.cells[latency_cell(took)] += 1
    latencies.count += 1
    latencies.fresh += 1
    if latencies.fresh >= LATENCY_FRESH and latencies.count >= LATENCY_LEAST:
        latencies.fresh = 0
        take_quantile(latencies, peer.share.settings.hedge_quantile)


cdef void take_quantile(Latencies *latencies, uint32_t percent) noexcept nogil:
    cdef uint32_t i, halved = 0, slower = 0, cell = LATENCY_CELLS
    cdef uint32_t most = latencies.count * (100 - percent) // 100
    while cell > 0:
        cell -= 1
        slower += latencies.cells[cell]
        if slower > most:
            break
    latencies.quantile = (<int64_t>(8 + (cell & 7) + 1) << (cell >> 3)) << LATENCY_SHIFT
    if latencies.count >= LATENCY_MOST:
        for i in range(LATENCY_CELLS):
            latencies.cells[i] >>= 1
            halved += latencies.cells[i]
        latencies.count = halved


# ---- the second question ----

cdef Upstream *another(Forward *forward, Exchange *e) noexcept nogil:
    """The next upstream of this round that answers, as far as is known; NULL: there is none."""
    cdef Upstream *upstream
    while e.step < forward.settings.count:
        upstream = next_upstream(forward, e)
        if upstream != e.upstream and not is_down(&forward.settings, upstream) and not silent(e.share, upstream):
            return upstream
    return NULL


cdef void ask_another(Exchange *e) noexcept nogil:
    cdef Forward *forward = <Forward *>e.share.owner
    cdef uint32_t worker = e.share.worker.id
    cdef Exchange *second
    cdef Upstream *upstream
    cdef int status
    if e.waiters == NULL:
        return
    if not has_tokens(e):
        metric_add(forward.settings.withheld, worker, 1)
        return
    upstream = another(forward, e)
    second = copy(e) if upstream != NULL else NULL
    if second == NULL:
        return
    take_tokens(e)
    second.upstream = upstream
    second.first = e
    e.second = second
    metric_add(upstream.hedged, worker, 1)
    status = e.share.begin(second)
    pair_begin(e, second)
    if status == BROKEN:
        e.share.failed(second)


cdef Exchange *copy(Exchange *e) noexcept nogil:
    """Another exchange with the question; what the upstream's letters and cookie have made of it is undone when it is sent. NULL: out of memory."""
    cdef Exchange *second = exchange_take(e.share)
    if second == NULL:
        return NULL
    second.request = second.octets
    if e.size + COOKIE_SPACE > REQUEST_INLINE:
        second.large = <uint8_t *>malloc(e.size + COOKIE_SPACE)
        if second.large == NULL:
            exchange_give(second)
            return NULL
        second.request = second.large
    memcpy(second.request, e.request, e.size)
    second.waiters = e.waiters
    second.hash = e.hash
    second.size = e.size
    second.question_length = e.question_length
    second.limit = e.limit
    second.signed = e.signed
    second.by_tcp = e.by_tcp
    second.mixed = e.mixed
    second.cookie = e.cookie
    second.opt = e.opt
    second.opt_added = e.opt_added
    second.opt_fixed = e.opt_fixed
    second.bare_size = e.bare_size
    second.network = e.network
    second.zone = e.zone
    return second


cdef void end(Exchange *e) noexcept nogil:
    e.share.leave(e)
    exchange_give(e)


cdef void hedge_end(Exchange *second) noexcept nogil:
    second.first.second = NULL
    end(second)


cdef void hedge_drop(Exchange *first) noexcept nogil:
    pair_end(first.second, FATE_DISCARDED, 0)
    drop(first)


cdef void hedge_abandon(Exchange *first, Query *last) noexcept nogil:
    first.waiters = last                # whose metadata dnstap may want
    tell_taps(first)
    first.waiters = NULL
    drop(first)


cdef void drop(Exchange *first) noexcept nogil:
    cdef Exchange *second = first.second
    cdef Peer *peer = upstream_peer(first.share, second.upstream)
    if peer.quiet == second.asked:
        peer.quiet = 0                  # it was not waited for long enough to tell
    tell_taps(second)
    hedge_end(second)


cdef void hedge_promote(Exchange *first) noexcept nogil:
    cdef Exchange *second = first.second
    first.second = NULL
    second.first = NULL
    second.begun = first.begun
    memcpy(second.order, first.order, sizeof(first.order))
    second.step = first.step
    second.known_down = first.known_down
    second.passed = first.passed
    second.failovers = first.failovers
    second.failed = first.failed
    waiters_move(first, second)
    end(first)
    tell_waiters(second)


cdef bint hedge_wins(Exchange *second, uint32_t rcode, bint failover) noexcept nogil:
    cdef Exchange *first = second.first
    if failover:
        first.failovers += 1            # it has had its turn
    if failover or rcode != RCODE_NOERROR and rcode != RCODE_NXDOMAIN:
        return False
    # The first question is answered late, or never: at least that long.
    hedge_learn(upstream_peer(first.share, first.upstream), first.share.worker.now - first.asked)
    tell_taps(first)
    pair_end(first, FATE_DISCARDED, 0)
    metric_add(second.upstream.hedge_wins, second.share.worker.id, 1)
    return True


cdef void tell_taps(Exchange *e) noexcept nogil:
    """To dnstap: a question without a reply."""
    cdef Forward *forward = <Forward *>e.share.owner
    if forward.tap_count:
        taps_tell(forward.taps, forward.tap_count, e, NULL, 0)
