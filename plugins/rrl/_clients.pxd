"""Who exceeded its rate: the clients that did most, and how often, for metrics with a bounded number of series.

Each worker has a table of CLIENTS_MAX, kept by the algorithm Space-Saving (Metwally and others, 2005): a new client takes the place of the one with the
lowest rank, and begins with its rank, so that who exceeds more than 1 / CLIENTS_MAX of all times is there. One that is exposed stays for KEPT_SECONDS,
whoever forges addresses: the number of series that come into being has a bound. All others count as "other".

A worker that finds its table locked, because the metrics are being read, counts the client as "other" and waits for nobody.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.api.network cimport Address
from fastdns.api.query cimport Query

cdef enum:
    CLIENTS_MAX = 32            # of a worker
    NAMESPACE_MAX = 63          # octets
    POD_MAX = 253
    KEPT_SECONDS = 600

cdef enum:
    COUNT_REQUESTS
    COUNT_RESPONSES
    COUNTERS

cdef struct Identity:           # zeroed where unused, so that identities compare as octets
    uint8_t family
    uint8_t octets[16]
    uint8_t namespace_length    # 0: no pod, or none is looked for
    uint8_t pod_length
    char namespace[NAMESPACE_MAX]
    char pod[POD_MAX]

# Counts that a client exceeded its rate. now: ns, monotonic.
cdef void clients_count(uint32_t worker, const Identity *identity, uint32_t counter, int64_t now) noexcept nogil
