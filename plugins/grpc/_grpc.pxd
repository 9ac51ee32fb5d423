from fastdns.api.names cimport ZoneList
from fastdns.api.query cimport NativeHandler
from fastdns.plugins.grpc._exchange cimport Grpc

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
