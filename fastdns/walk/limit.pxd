"""How many queries may wait for one thread of the control side: an executor, the consumer of an offload queue.

A query that waits has a request, which the thread may still have when the query no longer waits: its deadline has passed, or it was evicted. When so many
wait as may, and the worker has its part of them, a further query takes the place of one that waits at the same worker: of the zone, then of the client
network, that has most (walk/waiting). So no client keeps others out, and no worker keeps out another one's clients.

Requests are bounded, too. They are taken oldest first, and the oldest are evicted first: only while the thread stays in one call their number grows.
"""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_add32
from fastdns.walk.query cimport WORKERS_MAX, Query

cdef enum:
    REQUESTS_EACH = 4           # requests that there may be for each query that may wait

cdef struct WaitLimit:
    uint32_t most               # queries that may wait
    uint32_t queries            # that wait; atomic
    uint32_t requests           # that are not freed; atomic
    uint32_t own[WORKERS_MAX]   # queries of each worker; written by that worker only

# q is parked, and waits for the thread from now on; query_await is called. False: there is no place, or there are too many requests.
cdef bint limit_enter(WaitLimit *limit, Query *q) noexcept nogil

cdef inline void limit_leave(WaitLimit *limit, uint32_t worker) noexcept nogil:
    """On the worker: one of its queries waits no more."""
    limit.own[worker] -= 1
    atomic_add32(&limit.queries, <uint32_t>-1)

cdef inline void limit_freed(WaitLimit *limit) noexcept nogil:
    """On any thread: a request is freed."""
    atomic_add32(&limit.requests, <uint32_t>-1)
