"""One call on its way to an answer: attempts, the order of upstreams, failover. Connections, streams and calls under way are forward's."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.api.metrics cimport Buckets
from fastdns.api.names cimport Zones
from fastdns.api.query cimport ERROR_MAX, Handler, Query, Verdict
from fastdns.api.worker cimport WORKERS_MAX, Worker
from fastdns.plugins.forward._upstream cimport Exchange, Settings, Share

cdef enum:
    GRPC_UPSTREAMS_MAX = 15

cdef enum Policy:
    POLICY_RANDOM
    POLICY_ROUND_ROBIN
    POLICY_SEQUENTIAL

cdef struct Refusal:                # of an upstream that could not be connected to
    int64_t until                   # ns: it is not tried before
    char error[ERROR_MAX]

cdef struct GrpcShare:              # a worker's part of an instance
    Share share                     # first
    Refusal refusals[GRPC_UPSTREAMS_MAX]

cdef struct Grpc:                   # an instance
    Settings settings
    Handler *handler
    uint8_t policy
    Zones *zone                     # borrowed from the handler
    Zones *excepted
    Zones *fall
    uint32_t requests[GRPC_UPSTREAMS_MAX]       # metric cells
    uint32_t responses[GRPC_UPSTREAMS_MAX]      # 16 in a row, by rcode
    uint32_t durations[GRPC_UPSTREAMS_MAX]
    Buckets *buckets
    # ---- shared by the workers: atomic ----
    uint32_t turn                   # of round_robin
    GrpcShare *shares[WORKERS_MAX]

cdef struct Waiting:                # a query's scratch
    Exchange *exchange              # NULL: no longer
    uint8_t verdict                 # for resume

# Calls an upstream for a query: PARKED, or FAILED or NEXT when that is impossible.
cdef Verdict exchange_ask(Grpc *grpc, Query *q) noexcept nogil
# The query no longer waits.
cdef void exchange_abandon(Grpc *grpc, Query *q) noexcept nogil
# Closes everything a worker has for the instance; False while something is still under way.
cdef bint exchange_close(Grpc *grpc, Worker *worker) noexcept nogil

cdef inline bint grpc_has_next(const Grpc *grpc) noexcept nogil:
    return grpc.handler.index + 1 < grpc.handler.chain.count
