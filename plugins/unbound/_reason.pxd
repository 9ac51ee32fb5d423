"""Why a validation failed: libunbound's words as a code of RFC 8914."""
from libc.stdint cimport uint16_t

# The INFO-CODE of an extended DNS error (RFC 8914 4). why: zero-terminated, as libunbound gives it. What it says nothing closer of is 6 (DNSSEC Bogus).
cdef uint16_t reason_code(const char *why) noexcept nogil
