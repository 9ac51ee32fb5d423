"""Which query that waits is evicted when all slots of its worker are taken.

Groups (system/fairness) are, from the top: what the queries wait for, the zone of the server block, the client's network, and the client's address. A flood
for one upstream therefore evicts nobody who waits for another one, from however many networks it comes.

As long as there are slots nothing is counted. Once there are none, all queries that wait are put into groups, and those that begin to wait as well, until
half of them have gone: `worker.crowded`. A query that waits for a child is in no group, its child is: what that waits for counts.
"""
from fastdns.walk.query cimport Query, Worker

# All slots are taken: the query that is to go, or NULL when none waits.
cdef Query *waiting_choose(Worker *worker) noexcept nogil
# q is to wait for what too many wait for: one of these that its worker has, chosen likewise, gets SERVFAIL when the batch is through. False: it is q itself.
cdef bint waiting_evict(Query *q) noexcept nogil
cdef void waiting_add(Query *q) noexcept nogil
cdef void waiting_remove(Query *q) noexcept nogil
# Enough have gone: nothing is counted any more.
cdef void waiting_relax(Worker *worker) noexcept nogil

cdef inline void waiting_begin(Query *q) noexcept nogil:
    """A handler has parked it, and it waits for no child."""
    if q.worker.crowded and q.fair.group == NULL:
        waiting_add(q)

cdef inline void waiting_end(Query *q) noexcept nogil:
    q.awaited = NULL
    if q.fair.group != NULL:
        waiting_remove(q)

cdef inline void query_await(Query *q, const void *awaited) noexcept nogil:
    """Says what a parked query waits for until it is resumed, for example an upstream; again when that changes. Queries that wait for the same compete
    for slots. The pointer is compared, not followed. Without this it is the handler."""
    q.awaited = awaited
    if q.fair.group != NULL:
        waiting_remove(q)
        waiting_add(q)
