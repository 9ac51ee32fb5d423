"""The places of transfers in the process, each taken from the query until its stream ends.

A client network (IPv4 /24, IPv6 /56) may have three times as many as are free, so that one network alone leaves a quarter of them to others, and each
further one leaves some, too (dynamic thresholds of shared buffers).

Memory order: a place is its network and nothing else, taken by an exchange. Two workers that count at once may let a network have one more.
"""
from libc.stdint cimport uint64_t

cdef enum:
    TRANSFERS_MAX = 64          # asked for or under way, in the process: each holds memory while its client is slow
    NO_PLACE = -1

# The number of the place, or NO_PLACE.
cdef int place_take(uint64_t network) noexcept nogil
cdef void place_give(int place) noexcept nogil
