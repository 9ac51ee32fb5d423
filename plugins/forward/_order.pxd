"""Which upstream is asked next."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.api.memory cimport atomic_add32, atomic_load32, atomic_load_ns
from fastdns.api.random cimport random_below
from fastdns.plugins.forward._instance cimport Forward, POLICY_RANDOM, POLICY_ROUND_ROBIN
from fastdns.plugins.forward._health cimport health_begin
from fastdns.plugins.forward._upstream cimport Exchange, MILLISECOND, Peer, Settings, Share, Upstream, upstream_peer

cdef enum:
    SILENCE = 800                   # ms without a reply, after which others are asked first

cdef inline void set_order(Forward *forward, Exchange *e) noexcept nogil:
    """The upstreams in configuration order, turned by round_robin; random draws as it goes (see next_upstream)."""
    cdef uint32_t i, n = forward.settings.count, first = 0
    if forward.policy == POLICY_ROUND_ROBIN:
        first = atomic_add32(&forward.turn, 1) % n
    if n == 1:
        e.order[0] = 0
        return
    if forward.policy != POLICY_ROUND_ROBIN or first == 0:
        for i in range(n):
            e.order[i] = <uint8_t>i
        return
    e.order[0] = <uint8_t>first
    for i in range(1, n):
        e.order[i] = <uint8_t>(i - 1 if i <= first else i)

cdef inline Upstream *next_upstream(Forward *forward, Exchange *e) noexcept nogil:
    cdef uint32_t n = forward.settings.count, drawn
    cdef uint8_t swapped
    if e.step >= n:
        e.step = 0
        e.known_down = 0
    if forward.policy == POLICY_RANDOM and e.step < n - 1 and e.failed + e.failovers < n:
        drawn = e.step + random_below(&e.share.worker.random, n - e.step)
        swapped = e.order[e.step]
        e.order[e.step] = e.order[drawn]
        e.order[drawn] = swapped
    e.step += 1
    return &forward.settings.upstreams[e.order[e.step - 1]]

cdef inline bint is_down(const Settings *settings, Upstream *upstream) noexcept nogil:
    """Whether more probes have failed than `max_fails` allows."""
    return settings.max_fails and atomic_load32(&upstream.fails) > settings.max_fails

cdef inline bint silent(Share *share, Upstream *upstream) noexcept nogil:
    """Whether an upstream owes replies for some time, and no probe has found it alive since. If so it is probed."""
    cdef Peer *peer = upstream_peer(share, upstream)
    if (share.settings.max_fails == 0 or peer.quiet == 0 or share.worker.now - peer.quiet < SILENCE * <int64_t>MILLISECOND
            or atomic_load_ns(&upstream.alive) > peer.quiet):
        return False
    health_begin(peer)
    return True
