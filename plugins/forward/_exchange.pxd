"""One question on its way: attempts, the order of upstreams, failover, and the queries that wait for it."""
from fastdns.api.query cimport Query, Verdict
from fastdns.api.worker cimport Worker
from fastdns.plugins.forward._instance cimport Forward

# Asks an upstream for a query: PARKED, or FAILED when that is impossible.
cdef Verdict exchange_ask(Forward *forward, Query *q) noexcept nogil
# The query no longer waits.
cdef void exchange_abandon(Forward *forward, Query *q) noexcept nogil
# Closes everything a worker has for the instance; False while something is still under way.
cdef bint exchange_close(Forward *forward, Worker *worker) noexcept nogil
