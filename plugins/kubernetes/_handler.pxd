"""The view that a handler of kubernetes answers from: what its transfers, metadata and search paths need of it."""
from libc.stdint cimport uint8_t
from fastdns.api.query cimport NativeHandler
from fastdns.api.names cimport ZoneList
from fastdns.plugins.kubernetes.store.store cimport Store
from fastdns.plugins.kubernetes.answer.view cimport View

cdef class ViewHandler(NativeHandler):
    cdef View view
    cdef readonly Store store
    cdef object zones               # ZoneLists that the view borrows from
    cdef object fall
    cdef object __weakref__         # the lease on the store ends with the handler
    cdef _set_zones(self, ZoneList listed, list imported, bytes objects)
    cdef _set_namespaces(self, list labels)
    cdef _set_addresses(self, list packed)
