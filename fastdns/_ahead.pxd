"""Looking ahead: the queries of one batch have the CPU fetch what they will read, in turns, before any of them is walked."""
from libc.stdint cimport uint32_t
from fastdns._mux cimport AHEAD_AGAIN, AHEAD_END, AHEAD_QUERIES, AHEAD_ROUNDS, Ahead, Chain, Handler, Query

cdef struct Look:
    Query *q
    uint32_t turn               # which of its chain's handlers with the hook is asked
    uint32_t step               # how often it was

cdef inline bint look_on(Look *look) noexcept nogil:
    """Until something has to come first; False: this was all."""
    cdef const Chain *chain = look.q.chain
    cdef Handler *handler
    cdef Ahead said
    while look.turn < chain.ahead_count:
        handler = chain.ahead[look.turn]
        said = handler.ahead(handler, look.q, look.step)
        if said == AHEAD_AGAIN:
            look.step += 1
            return True
        if said == AHEAD_END:
            return False
        look.turn += 1
        look.step = 0
    return False

cdef inline void look_ahead(Query **queries, uint32_t count) noexcept nogil:
    """Memory answers in a hundred nanoseconds, as long as much of a query takes: what one would wait for comes while the others are looked at."""
    cdef Look looks[AHEAD_QUERIES]
    cdef uint32_t i, kept, left = 0, _round
    for i in range(count):
        looks[left].q = queries[i]
        looks[left].turn = 0
        looks[left].step = 0
        left += look_on(&looks[left])
    for _round in range(1, AHEAD_ROUNDS):
        kept = 0
        for i in range(left):
            if look_on(&looks[i]):
                looks[kept] = looks[i]
                kept += 1
        left = kept
        if left == 0:
            return
