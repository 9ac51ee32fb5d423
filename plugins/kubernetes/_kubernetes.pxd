"""The native handler of kubernetes."""
from fastdns.plugins.kubernetes._handler cimport ViewHandler

cdef class Kubernetes(ViewHandler):
    cdef _search_path(self, bint by_question)
