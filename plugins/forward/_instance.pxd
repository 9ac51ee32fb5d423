"""An instance of forward, and what a query keeps of it."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.api.query cimport Handler, Query
from fastdns.api.worker cimport WORKERS_MAX
from fastdns.plugins.dnstap._tap cimport Tap
from fastdns.plugins.forward._upstream cimport Exchange, Settings, Share, Upstream
from fastdns.plugins.recorder._asked cimport asked_func

cdef enum Policy:
    POLICY_RANDOM
    POLICY_ROUND_ROBIN
    POLICY_SEQUENTIAL

cdef enum:
    RCODES_MAX = 4096
    RCODE_WORDS = 64

cdef struct Rcodes:                 # a set
    uint64_t words[RCODE_WORDS]
    uint8_t any

cdef struct Forward:                # an instance of forward
    Settings settings
    Handler *handler
    Handler *above                  # the forward before it in its server block, or NULL
    uint8_t policy
    uint8_t prefer_udp
    uint8_t failfast
    uint8_t next_on_nodata
    uint8_t has_quic                # an upstream is quic://
    uint32_t max_attempts           # 0: no cap
    uint32_t max_concurrent         # 0: no limit
    Rcodes failover
    Rcodes next
    uint32_t from_length
    uint8_t from_name[256]          # lower case
    uint8_t *excepted               # names one after another, lower case
    uint32_t excepted_size
    uint32_t broken_cell            # metrics
    uint32_t rejects_cell
    Tap **taps                      # of the block's dnstap, in order; owned, the taps borrowed
    uint32_t tap_count
    asked_func asked                # the block's recorder is told of second questions; NULL: it has none
    # ---- shared by the workers: atomic ----
    uint32_t concurrent
    uint32_t turn                   # of round_robin
    Share *shares[WORKERS_MAX]      # each made by its worker

cdef struct Waiting:                # a query's scratch; with hedge there is more behind it, see _pair.pxd
    Exchange *exchange              # NULL: no longer
    Query *next                     # others that wait for the same
    Query *previous
    const Upstream *upstream        # asked last
    uint8_t verdict                 # for resume
    uint8_t counted                 # in forward.concurrent

cdef inline bint rcodes_have(const Rcodes *rcodes, uint32_t rcode) noexcept nogil:
    return (rcodes.words[(rcode & (RCODES_MAX - 1)) >> 6] >> (rcode & 63)) & 1
