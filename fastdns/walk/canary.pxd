"""Two configurations at the same time: which one a client gets, and what each has answered.

A control thread stores one pointer in the configuration that serves, `ChainSet.canary`, which releases the other configuration to the workers; each
query acquires it. The other one is complete before, and constant. To take it back the pointer becomes NULL: queries that have chosen it by then are of
a batch that began before, so after an epoch none chooses it, and once none is counted in its `parked` it is freed. It outlives the configuration that
points at it where it takes over from that. `ChainSet.tallies` is released likewise; its memory is the Chains', which outlive all queries in them.
"""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_bump64, atomic_load_pointer
from fastdns.walk.query cimport Canary, ChainSet, Query, Tally

# The configuration that the query's client gets: the canary's, where its address is among those chosen and the canary serves the listener.
cdef ChainSet *canary_choose(const Query *q, ChainSet *set, const Canary *canary, uint32_t listener) noexcept nogil

cdef inline void canary_count(const Query *q, uint32_t place) noexcept nogil:
    """Counts what a client gets, for the configuration that it is of; nothing while there is one only."""
    cdef Tally *tallies = <Tally *>atomic_load_pointer(<void **>&q.set.tallies)
    if tallies != NULL:
        atomic_bump64(&tallies[q.worker.id].replies[place], 1)
