"""The native handler of dynupdate: file's, and UPDATE (RFC 2136) handed to the control side."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.api.names cimport NAME_MAX
from fastdns.plugins.file._file cimport FileHandler, FileState

cdef struct UpdateState:
    FileState file              # comes first: what the functions of file look at
    uint64_t number             # of the handler, for serve_updates
    uint32_t origin_length
    uint8_t origin[NAME_MAX]    # lower case

cdef class DynupdateHandler(FileHandler):
    cdef UpdateState own
    cdef readonly str origin
    cdef public object on_close     # called once no query is in the handler any more
