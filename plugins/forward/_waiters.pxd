"""Who waits for an exchange: queries, and the table by which equal questions are found."""
from libc.stdint cimport uint32_t
from fastdns.api.memory cimport atomic_add32
from fastdns.api.query cimport Query, query_await, query_scratch
from fastdns.plugins.forward._instance cimport Forward, Waiting
from fastdns.plugins.forward._request cimport request_equal
from fastdns.plugins.forward._upstream cimport Exchange, Share

cdef enum:
    EQUAL_SLOTS = 1024              # questions in flight, by hash

cdef inline void discount(Forward *forward, Waiting *waiting) noexcept nogil:
    if waiting.counted:
        waiting.counted = 0
        atomic_add32(&forward.concurrent, <uint32_t>-1)

cdef inline Waiting *waiting_of(Exchange *e, Query *q) noexcept nogil:
    return <Waiting *>query_scratch((<Forward *>e.share.owner).handler, q)

cdef inline void add_waiter(Exchange *e, Query *q, Waiting *waiting) noexcept nogil:
    waiting.exchange = e
    waiting.previous = NULL
    waiting.next = e.waiters
    if e.waiters != NULL:
        waiting_of(e, e.waiters).previous = q
    e.waiters = q

cdef inline void remove_waiter(Exchange *e, Query *q, Waiting *waiting) noexcept nogil:
    if waiting.previous != NULL:
        waiting_of(e, waiting.previous).next = waiting.next
    else:
        e.waiters = waiting.next
    if waiting.next != NULL:
        waiting_of(e, waiting.next).previous = waiting.previous
    waiting.exchange = NULL

cdef inline void tell_waiters(Exchange *e) noexcept nogil:
    """From its second attempt on an exchange has queries that wait, now for another upstream."""
    cdef Query *q = e.waiters
    while q != NULL:
        query_await(q, e.upstream)
        q = waiting_of(e, q).next

# ---- equal questions ----

cdef inline Exchange *find_equal(Share *share, Exchange *e) noexcept nogil:
    cdef Exchange *other = share.equal[e.hash & (EQUAL_SLOTS - 1)]
    while other != NULL:
        if other.hash == e.hash and request_equal(e, other):
            return other
        other = other.same
    return NULL

cdef inline void add_equal(Share *share, Exchange *e) noexcept nogil:
    e.same = share.equal[e.hash & (EQUAL_SLOTS - 1)]
    share.equal[e.hash & (EQUAL_SLOTS - 1)] = e
    share.waiting += 1

cdef inline void remove_equal(Share *share, Exchange *e) noexcept nogil:
    cdef Exchange **at = &share.equal[e.hash & (EQUAL_SLOTS - 1)]
    while at[0] != e:
        at = &at[0].same
    at[0] = e.same
    share.waiting -= 1

# ---- another exchange ----

cdef inline void waiters_move(Exchange *e, Exchange *to) noexcept nogil:
    """The queries of e wait for another exchange with the same question from now on, which equal questions find in its place."""
    cdef Query *q = e.waiters
    to.waiters = q
    while q != NULL:
        waiting_of(e, q).exchange = to
        q = waiting_of(e, q).next
    e.waiters = NULL
    remove_equal(e.share, e)
    to.hash = e.hash
    add_equal(e.share, to)
