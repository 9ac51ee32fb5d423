"""Serial numbers (RFC 1982)."""
from libc.stdint cimport uint32_t

cdef inline bint serial_after(uint32_t serial, uint32_t other) noexcept nogil:
    """Does a serial come after another?"""
    return serial != other and <uint32_t>(serial - other) < 0x80000000u
