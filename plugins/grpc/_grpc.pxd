"""The handler: which queries it takes, and the calls to upstreams for them. Connections, streams and calls under way are forward's."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.api.metrics cimport Buckets
from fastdns.api.names cimport ZoneList, Zones
from fastdns.api.query cimport ERROR_MAX, Handler, NativeHandler, Query
from fastdns.api.worker cimport WORKERS_MAX
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

cdef class GrpcHandler(NativeHandler):
    cdef Grpc *grpc
    cdef readonly object options
    cdef readonly object context    # a ClientContext; None: clear text
    cdef ZoneList zone
    cdef ZoneList excepted
    cdef ZoneList fall
    cdef list texts                 # octets that upstreams borrow
    cdef object metrics             # kept alive for their buckets
    cdef const char *_keep(self, str text) except NULL
    cdef int _set_upstreams(self) except -1
    cdef int _make_metrics(self) except -1
