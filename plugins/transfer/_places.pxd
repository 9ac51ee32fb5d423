"""The places of transfers in the process. There are some for each thing that clients make the process hold.

A client network (IPv4 /24, IPv6 /56) may have three times as many as are free, so that one network alone leaves a quarter of them to others, and each
further one leaves some, too (dynamic thresholds of shared buffers).

Memory order: a place is its network and nothing else, taken by an exchange. Two workers that count at once may let a network have one more.
"""
from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    REQUESTS_MAX = 1024         # that are being prepared or wait for it: each holds a query
    TRANSFERS_MAX = 64          # with records of their own, prepared or sent: they hold memory while their client is slow
    ENCODINGS_MAX = 64          # that all clients share, prepared, kept or sent
    STREAMS_MAX = 256           # of encodings of several messages: each holds a message
    NO_PLACE = -1

cdef struct Places:
    uint32_t count
    uint64_t *networks          # 0: free

cdef Places requests
cdef Places transfers
cdef Places encodings
cdef Places streams

# The number of the place, or NO_PLACE.
cdef int place_take(Places *places, uint64_t network) noexcept nogil
# NO_PLACE: nothing to give.
cdef void place_give(Places *places, int place) noexcept nogil
