"""Looking ahead: the queries of one batch have the CPU fetch what they will read, in turns, before any of them is walked."""
from libc.stdint cimport uint32_t
from fastdns.walk.query cimport AHEAD_AGAIN, AHEAD_END, AHEAD_PASS, AHEAD_QUERIES, AHEAD_ROUNDS, Ahead, Chain, Handler, Query

cdef struct Look:
    Query *q
    uint32_t turn               # which of its chain's handlers with the hook is asked
    uint32_t step               # how often it was

cdef inline bint look_from(Look *look, uint32_t turn) noexcept nogil:
    """The handlers from a turn on, until something has to come first; False: this was all."""
    cdef Query *q = look.q
    cdef Chain *chain = q.chain
    cdef Handler *handler
    cdef Ahead said
    while turn < chain.ahead_count:
        handler = chain.ahead[turn]
        said = handler.ahead(handler, q)
        if said == AHEAD_AGAIN:
            look.turn = turn
            look.step = 1
            return True
        if said == AHEAD_END:
            return False
        turn += 1
    return False

cdef inline bint look_on(Look *look) noexcept nogil:
    """Goes on where something had to come first."""
    cdef Handler *handler = look.q.chain.ahead[look.turn]
    cdef Ahead said = handler.again(handler, look.q, look.step)
    if said == AHEAD_AGAIN:
        look.step += 1
        return True
    return said == AHEAD_PASS and look_from(look, look.turn + 1)

cdef inline void look_ahead(Query **queries, uint32_t count) noexcept nogil:
    """Memory answers in a hundred nanoseconds, as long as much of a query takes: what one would wait for comes while the others are looked at."""
    cdef Look looks[AHEAD_QUERIES]
    cdef uint32_t i, kept, left = 0, _round
    for i in range(count):
        looks[left].q = queries[i]
        left += look_from(&looks[left], 0)
    for _round in range(1, AHEAD_ROUNDS):
        kept = 0
        for i in range(left):
            if look_on(&looks[i]):
                if kept != i:
                    looks[kept] = looks[i]
                kept += 1
        left = kept
        if left == 0:
            return
