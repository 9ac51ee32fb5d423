"""The native handler of kubernetes."""
from fastdns.api.memory cimport Blocks
from fastdns.plugins.kubernetes._handler cimport ViewHandler

cdef class Kubernetes(ViewHandler):
    cdef readonly dict journals     # by zone in lower-case wire form
    cdef public object problems     # Problems of the cluster's watches, or None
    cdef Blocks cells               # of the view's metrics
    cdef _search_path(self, bint by_question)
