"""Single words of master files as what they stand for: numbers, names, types, octets. Spans of text, escapes as they were written."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

# Octets of a span without its escapes, in out, which has room for `room`; -1: a bad escape, or no room.
cdef int span_octets(const char *text, uint32_t length, uint8_t *out, uint32_t room) noexcept nogil
cdef int span_number(const char *text, uint32_t length, uint64_t most, uint64_t *out) noexcept nogil
# Seconds: digits with units s, m, h, d, w (RFC 2308's and BIND's way).
cdef int span_period(const char *text, uint32_t length, uint32_t *out) noexcept nogil
cdef int span_address(const char *text, uint32_t length, int family, uint8_t *out) noexcept nogil
# Wire form of a name relative to the origin (NULL: it must be absolute); out has NAME_MAX octets. Its length, or -1.
cdef int span_name(const char *text, uint32_t length, const uint8_t *origin, uint32_t origin_length, uint8_t *out) noexcept nogil
# Number of a record type or class by its name in any case, TYPE123 and CLASS123 too; -1: none; -2: TYPE or CLASS with no number behind it.
cdef int span_type(const char *text, uint32_t length) noexcept nogil
cdef int span_class(const char *text, uint32_t length) noexcept nogil
cdef int span_base64(const char *text, uint32_t length, uint8_t *out, uint32_t room) noexcept nogil

cdef struct Base64:             # zero to begin with
    uint32_t bits
    uint32_t digits             # read
    uint32_t pads

# Octets that this piece completes, or -1.
cdef int base64_add(Base64 *state, const char *text, uint32_t length, uint8_t *out, uint32_t room) noexcept nogil

cdef inline bint base64_whole(const Base64 *state) noexcept nogil:
    return state.digits % 4 != 1 and (state.digits + state.pads) % 4 == 0

cdef inline bint span_digit(uint8_t c) noexcept nogil:
    return c >= c'0' and c <= c'9'

cdef inline int span_hex(uint8_t c) noexcept nogil:
    if span_digit(c):
        return c - c'0'
    c |= 32
    return c - c'a' + 10 if c >= c'a' and c <= c'f' else -1

cdef inline int span_escape(const char *text, uint32_t left, int *octet) noexcept nogil:
    """The octet that an escape (text begins behind its backslash) stands for, in *octet; how much of text it takes, or -1."""
    if left == 0:
        return -1
    if not span_digit(<uint8_t>text[0]):
        octet[0] = <uint8_t>text[0]
        return 1
    if left < 3 or not span_digit(<uint8_t>text[1]) or not span_digit(<uint8_t>text[2]):
        octet[0] = <uint8_t>text[0]         # as the Go library reads it
        return 1
    octet[0] = (text[0] - c'0') * 100 + (text[1] - c'0') * 10 + (text[2] - c'0')
    return 3 if octet[0] < 256 else -1
