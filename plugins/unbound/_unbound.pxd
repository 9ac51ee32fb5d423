from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.api.metrics cimport Buckets
from fastdns.api.names cimport ZoneList, Zones
from fastdns.api.query cimport NativeHandler
from fastdns.plugins.unbound._resolver cimport Request, Resolver

cdef enum:
    RCODES = 16                 # that are counted apart; the last one stands for all above too

cdef struct Cells:              # metrics of a server
    uint32_t durations
    uint32_t rcodes             # RCODES in a row
    uint32_t security           # three in a row, by Security
    uint32_t refused
    uint32_t evicted

cdef struct Unbound:            # an instance
    Resolver *resolver          # borrowed from the handler's context
    Zones *zones                # borrowed from the handler
    Zones *excepted
    Buckets *buckets
    Cells *cells                # by q.server.label; owned
    uint32_t cell_count

cdef struct Waiting:            # a query's scratch
    Request *request            # NULL: not asked, or its answer is read
    int64_t asked               # ns, monotonic
    const char *why             # of a validation that failed, in the query's arena; NULL
    uint8_t security            # Security
    uint8_t answered            # libunbound has said something

cdef class UnboundHandler(NativeHandler):
    cdef Unbound *unbound
    cdef readonly object context        # a shared.SharedContext
    cdef ZoneList zones
    cdef ZoneList excepted
    cdef object metrics                 # kept alive for their buckets
