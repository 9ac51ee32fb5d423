"""As much of HPACK (RFC 7541) as a client needs that keeps no table and only wants a response's status."""
from libc.stdint cimport uint8_t, uint32_t

# The status that a header block begins with, or its first octets: 0 where it is none of three digits, -1 for a block that does not begin with one.
cdef int hpack_status(const uint8_t *block, uint32_t length) noexcept nogil
