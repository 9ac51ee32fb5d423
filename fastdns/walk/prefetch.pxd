"""The prefetch hooks of one batch: the CPU fetches what the queries will read, in rounds, before any of them is walked."""
from libc.stdint cimport uint32_t
from fastdns.walk.query cimport PREFETCH_END, PREFETCH_NEXT, PREFETCH_PASS, PREFETCH_QUERIES, PREFETCH_ROUNDS, Chain, Handler, Prefetch, Query

cdef struct PrefetchState:      # of one query
    Query *q
    uint32_t position           # in Chain.prefetch: the handler whose prefetch_next is called
    uint32_t step               # how often it was called

cdef inline bint prefetch_from(PrefetchState *state, uint32_t position) noexcept nogil:
    """Calls the hooks from a position on, until one needs another round; False: nothing further."""
    cdef Query *q = state.q
    cdef Chain *chain = q.chain
    cdef Handler *handler
    cdef Prefetch result
    while position < chain.prefetch_count:
        handler = chain.prefetch[position]
        result = handler.prefetch(handler, q)
        if result == PREFETCH_NEXT:
            state.position = position
            state.step = 1
            return True
        if result == PREFETCH_END:
            return False
        position += 1
    return False

cdef inline bint prefetch_continue(PrefetchState *state) noexcept nogil:
    """The next round of a query; False: nothing further."""
    cdef Handler *handler = state.q.chain.prefetch[state.position]
    cdef Prefetch result = handler.prefetch_next(handler, state.q, state.step)
    if result == PREFETCH_NEXT:
        state.step += 1
        return True
    return result == PREFETCH_PASS and prefetch_from(state, state.position + 1)

cdef inline void prefetch_batch(Query **queries, uint32_t count) noexcept nogil:
    """A miss costs about 100 ns, as much as half of a query's work. What one query would wait for is fetched while the others' hooks run."""
    cdef PrefetchState states[PREFETCH_QUERIES]
    cdef uint32_t i, kept, left = 0, _round
    for i in range(count):
        states[left].q = queries[i]
        left += prefetch_from(&states[left], 0)
    for _round in range(1, PREFETCH_ROUNDS):
        kept = 0
        for i in range(left):
            if prefetch_continue(&states[i]):
                if kept != i:
                    states[kept] = states[i]
                kept += 1
        left = kept
        if left == 0:
            return
