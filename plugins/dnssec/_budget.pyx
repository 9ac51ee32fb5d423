"""The budget of signatures. The contract is in _budget.pxd."""
from libc.stdint cimport int64_t, uint64_t
from fastdns.api.memory cimport atomic_peek_ns, atomic_swap_ns
from fastdns.api.random cimport hash_octets, hash_seed

cdef enum:
    AHEAD = 1000000000          # ns that may be spoken for
    AHEAD_ANYBODY = 500000000
    AHEAD_NETWORKS = 750000000
    BURST = 250000000           # ns that an account may be ahead before a reply


cdef bint account_take(Budget *budget, int64_t now, int64_t cost, uint64_t zone, uint64_t network) noexcept nogil:
    """Takes from the part of a network in a zone, or of the zone (network 0)."""
    cdef uint64_t octets[2]
    cdef int64_t *account
    cdef int64_t old
    octets[0] = zone
    octets[1] = network
    account = &budget.accounts[hash_octets(<const unsigned char *>octets, sizeof(octets), hash_seed) & (BUDGET_ACCOUNTS - 1)]
    while True:
        old = atomic_peek_ns(account)
        if old - now > BURST:
            return False
        if atomic_swap_ns(account, old, max(old, now) + cost):
            return True


cdef bint budget_take(Budget *budget, int64_t now, int64_t cost, uint64_t zone, uint64_t network) noexcept nogil:
    cdef int64_t old, end
    cdef bint charged = False
    while True:
        old = atomic_peek_ns(&budget.until)
        end = max(old, now) + cost
        if end - now > AHEAD:
            return False
        if end - now > AHEAD_ANYBODY and not charged:
            if end - now > AHEAD_NETWORKS:
                charged = account_take(budget, now, cost * ZONE_SHARE, zone, 0)
            else:
                charged = account_take(budget, now, cost * NETWORK_SHARE, zone, network + 1)
            if not charged:
                return False
        if atomic_swap_ns(&budget.until, old, end):
            return True
