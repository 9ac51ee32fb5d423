"""The field ``date`` of HTTP responses (RFC 9110 6.6.1)."""
from libc.stdint cimport uint32_t

# The time of now, 29 octets and a zero. It holds until the worker's next call.
cdef const char *http_date(uint32_t worker) noexcept nogil
