"""Queries that wait for one thread. The contract is in walk/limit.pxd."""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_add32, atomic_load32
from fastdns.walk.query cimport Query
from fastdns.walk.waiting cimport query_await, waiting_evict


cdef bint limit_enter(WaitLimit *limit, Query *q) noexcept nogil:
    cdef uint32_t worker = q.worker.id
    if atomic_load32(&limit.requests) >= limit.most * REQUESTS_EACH:
        return False
    query_await(q, limit)
    if atomic_load32(&limit.queries) >= limit.most and limit.own[worker] >= limit.most // q.worker.workers and not waiting_evict(q):
        return False
    limit.own[worker] += 1
    atomic_add32(&limit.queries, 1)
    atomic_add32(&limit.requests, 1)
    return True
