"""The tables of *top*: a summary for each, and a set of them for each worker and each span of time.

A worker adds to its own set, under a lock that it only tries: the control side holds it for an exchange of pointers, and a query that comes meanwhile is
not counted. So a worker waits for nobody, and what the control side has taken is its own.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.api.metadata cimport Label
from fastdns.api.names cimport Zones
from fastdns.api.query cimport Query
from fastdns.plugins.top._summary cimport Summary

cdef enum TopTable:
    TABLE_NAMES
    TABLE_DOMAINS
    TABLE_CLIENTS
    TABLE_NXDOMAIN_NAMES
    TABLE_NXDOMAIN_CLIENTS
    TABLE_SEARCH_WASTE
    TABLE_LARGE_ANSWERS
    TABLE_SLOW_NAMES
    TABLE_SERVFAIL_CAUSES
    TABLE_AAAA_WASTE
    TABLES

cdef enum:
    EVERY_QUERY_MAX = 10000         # a second and worker; above that a sample of about so many counts

cdef struct TopSet:
    uint32_t weight                 # the largest that one of its counts stands for; 0: nothing was counted
    Summary tables[TABLES]

cdef struct TopWorker:              # of a worker
    uint32_t lock                   # atomic; see above
    TopSet *set                     # NULL: nobody counts
    # The worker's alone:
    uint32_t skip                   # queries until the next one that counts, that one included
    uint32_t weight                 # for how many queries it stands
    uint64_t seen                   # queries since `began`
    int64_t began                   # ns, monotonic

cdef struct TopOptions:             # of a server block
    const Zones *search             # search domains' zones
    const Label *namespace          # of the client's pod; NULL: not known
    const Label *pod
    const Label *node

cdef TopWorker top_workers[64]      # WORKERS_MAX

cdef void top_add(TopWorker *worker, const TopOptions *options, Query *q) noexcept nogil

# Counts the query or skips it; called for each.
cdef inline void top_count(const TopOptions *options, Query *q) noexcept nogil:
    cdef TopWorker *worker = &top_workers[q.worker.id]
    if worker.skip > 1:
        worker.skip -= 1
    else:
        top_add(worker, options, q)
