"""Connections of a worker by id. The contract is in engine/quic/table.pxd."""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from fastdns.system.hash cimport hash_seed

cdef enum:
    SMALLEST = 256

cdef extern from * nogil:
    """
    static inline uint32_t table_place(uint64_t key, uint64_t seed) { return (uint32_t)(((key ^ seed) * 0x9E3779B97F4A7C15ull) >> 32); }
    """
    uint32_t table_place(uint64_t key, uint64_t seed) noexcept


cdef void place(IdTable *table, uint64_t key, void *connection) noexcept nogil:
    cdef uint32_t at = table_place(key, hash_seed[0]) & table.mask
    while table.entries[at].connection != NULL:
        at = (at + 1) & table.mask
    table.entries[at].key = key
    table.entries[at].connection = connection


cdef bint grow(IdTable *table) noexcept nogil:
    cdef uint32_t size = 2 * (table.mask + 1) if table.entries != NULL else SMALLEST
    cdef IdEntry *before = table.entries
    cdef uint32_t last = table.mask, i
    cdef IdEntry *entries = <IdEntry *>calloc(size, sizeof(IdEntry))
    if entries == NULL:
        return False
    table.entries = entries
    table.mask = size - 1
    if before != NULL:
        for i in range(last + 1):
            if before[i].connection != NULL:
                place(table, before[i].key, before[i].connection)
        free(before)
    return True


cdef int table_add(IdTable *table, uint64_t key, void *connection) noexcept nogil:
    if table_find(table, key) != NULL:
        return -1
    if (table.entries == NULL or 2 * (table.count + 1) > table.mask + 1) and not grow(table):
        return -1
    place(table, key, connection)
    table.count += 1
    return 0


cdef void *table_find(const IdTable *table, uint64_t key) noexcept nogil:
    cdef uint32_t at
    if table.entries == NULL:
        return NULL
    at = table_place(key, hash_seed[0]) & table.mask
    while table.entries[at].connection != NULL:
        if table.entries[at].key == key:
            return table.entries[at].connection
        at = (at + 1) & table.mask
    return NULL


cdef void table_remove(IdTable *table, uint64_t key) noexcept nogil:
    """What follows moves up, so that no search ends too early."""
    cdef uint32_t at, following, home
    if table.entries == NULL:
        return
    at = table_place(key, hash_seed[0]) & table.mask
    while table.entries[at].connection != NULL and table.entries[at].key != key:
        at = (at + 1) & table.mask
    if table.entries[at].connection == NULL:
        return
    table.count -= 1
    following = at
    while True:
        following = (following + 1) & table.mask
        if table.entries[following].connection == NULL:
            break
        home = table_place(table.entries[following].key, hash_seed[0]) & table.mask
        if ((following - home) & table.mask) >= ((following - at) & table.mask):
            table.entries[at] = table.entries[following]
            at = following
    table.entries[at].connection = NULL
