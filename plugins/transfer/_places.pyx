"""Places of transfers. The contract is in _places.pxd."""
from libc.stdint cimport uint64_t
from fastdns.api.memory cimport atomic_load64, atomic_store64, atomic_swap64

cdef enum:
    TIMES_FREE = 3

cdef uint64_t places[TRANSFERS_MAX]     # networks; 0: free


cdef int place_take(uint64_t network) noexcept nogil:
    cdef uint64_t key = network | <uint64_t>1 << 63, taken
    cdef int i, own = 0, free = 0
    for i in range(TRANSFERS_MAX):
        taken = atomic_load64(&places[i])
        own += taken == key
        free += taken == 0
    if own >= TIMES_FREE * free:
        return NO_PLACE
    for i in range(TRANSFERS_MAX):
        if atomic_load64(&places[i]) == 0 and atomic_swap64(&places[i], 0, key):
            return i
    return NO_PLACE


cdef void place_give(int place) noexcept nogil:
    atomic_store64(&places[place], 0)
