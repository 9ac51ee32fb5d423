"""The native handler of k8s_external."""
from fastdns.plugins.k8s_external._external cimport ExternalZones

cdef class ExternalHandler(ExternalZones):
    pass
