"""The field ``date`` of HTTP responses (RFC 9110 6.6.1)."""
from libc.stdint cimport uint32_t

cdef enum:
    DATE_PAGES = 64                 # in place of a worker: the thread of the pages of health, ready and metrics
    DATE_PYTHON = 65                # a thread that holds the GIL

# The time of now, 29 octets and a zero. It holds until the worker's next call.
cdef const char *http_date(uint32_t worker) noexcept nogil
