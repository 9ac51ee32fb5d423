"""The native handler of secondary: file's, and NOTIFY handed to the control side."""
from libc.stdint cimport uint64_t
from fastdns.plugins.file._file cimport FileHandler, FileState

cdef struct SecondaryState:
    FileState file              # comes first: what the functions of file look at
    uint64_t number             # of the handler, for serve_notifies

cdef class SecondaryHandler(FileHandler):
    cdef SecondaryState own
