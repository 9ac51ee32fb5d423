"""Connections of a worker by what datagrams call them: a connection id of ours, or a keyed hash of one that a client has chosen."""
from libc.stdint cimport uint32_t, uint64_t

cdef struct IdEntry:
    uint64_t key
    void *connection                        # a QuicConnection; NULL: free

cdef struct IdTable:                        # open addressing; at most half full
    IdEntry *entries
    uint32_t mask
    uint32_t count

# 0, or -1: out of memory, or the key is taken.
cdef int table_add(IdTable *table, uint64_t key, void *connection) noexcept nogil
cdef void table_remove(IdTable *table, uint64_t key) noexcept nogil
cdef void *table_find(const IdTable *table, uint64_t key) noexcept nogil
