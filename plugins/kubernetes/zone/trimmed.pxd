"""Services whose records are not all in a zone, with the number of records or objects that are missing."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    TRIMMED_MOST = 1000             # services that are named

cdef struct TrimmedService:
    uint64_t left_out
    uint8_t world
    uint8_t length
    uint8_t key[128]                # as ServiceNode.key

cdef struct Trimmed:                # zeroed at first
    TrimmedService *services        # owned
    uint32_t count
    uint8_t changed                 # since the caller cleared it
    uint8_t failed                  # memory ran out: a service is not named

cdef void trimmed_clear(Trimmed *trimmed) noexcept nogil
cdef void trimmed_free(Trimmed *trimmed) noexcept nogil
# Notes how much of a service is left out; 0 removes the service.
cdef void trimmed_set(Trimmed *trimmed, uint8_t world, const uint8_t *key, uint8_t length, uint64_t left_out) noexcept nogil
# The services by key in wire form, and what is left out of each.
cdef dict trimmed_dict(const Trimmed *trimmed)
