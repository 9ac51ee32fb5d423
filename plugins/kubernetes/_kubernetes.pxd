"""The native handler of kubernetes."""
from fastdns.plugins.kubernetes._handler cimport ViewHandler

cdef class Kubernetes(ViewHandler):
    cdef readonly dict journals     # by zone in lower-case wire form
    cdef _search_path(self, bint by_question)
