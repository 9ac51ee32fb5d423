"""The native handler of k8s_external."""
from libc.stdint cimport uint32_t
from fastdns.api.query cimport NativeHandler
from fastdns.api.names cimport ZoneList
from fastdns.plugins.k8s_external._external cimport External
from fastdns.plugins.kubernetes._kubernetes cimport Kubernetes

cdef class ExternalHandler(NativeHandler):
    cdef External external
    cdef ZoneList zones
    cdef ZoneList fall              # or None
    cdef Kubernetes kubernetes      # None until the block is set up
    cdef int _set_zone(self, bytes zone, bytes label, uint32_t number) except -1
