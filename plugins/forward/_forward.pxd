from libc.stdint cimport uint32_t, uint64_t
from fastdns.api.query cimport Handler, NativeHandler, Query
from fastdns.plugins.forward._instance cimport Forward, Rcodes

# The upstream (address:port) that a query was sent to last, "" if it was not: metadata forward/upstream.
cdef const char *forward_upstream(Handler *self, Query *q) noexcept nogil

cdef class ForwardHandler(NativeHandler):
    cdef Forward *forward
    cdef readonly object options
    cdef readonly list upstreams
    cdef readonly dict contexts     # ClientContext of each scheme with TLS or QUIC
    cdef list names                 # that the upstreams' certificates have to have, kept alive
    cdef list authorities           # of their requests, likewise
    cdef object metrics             # kept alive for their buckets
    cdef list senders               # of dnstap, likewise
    cdef int _set_upstreams(self, list upstreams) except -1
    cdef int _set_tls(self, options, list upstreams) except -1
    cdef int _set_options(self, options) except -1
    cdef int _set_ports(self, options) except -1
    cdef void _set_rcodes(self, Rcodes *rcodes, given)
    cdef int _make_metrics(self) except -1
    cdef int _make_hedge_metrics(self) except -1
