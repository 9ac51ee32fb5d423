"""Conversion of single words of master files to numbers, names, types and octets. A span is a part of the text with its escapes.

Unless stated otherwise a function returns 0, or -1 when the span is malformed.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

# Decodes the escapes of a span into out. Returns the octets written; -1: a bad escape, or more than `capacity` octets.
cdef int span_octets(const char *text, uint32_t length, uint8_t *out, uint32_t capacity) noexcept nogil
cdef int span_number(const char *text, uint32_t length, uint64_t most, uint64_t *out) noexcept nogil
# Seconds: digits with the units s, m, h, d, w, as BIND reads TTLs.
cdef int span_period(const char *text, uint32_t length, uint32_t *out) noexcept nogil
# Wire form of a name relative to the origin (NULL: the name must be absolute); out has NAME_MAX octets. Returns its length, or -1.
cdef int span_name(const char *text, uint32_t length, const uint8_t *origin, uint32_t origin_length, uint8_t *out) noexcept nogil
# Number of a record type or class from its mnemonic in any case, or from TYPE123 or CLASS123. -1: unknown; -2: TYPE or CLASS without a number.
cdef int span_type(const char *text, uint32_t length) noexcept nogil
cdef int span_class(const char *text, uint32_t length) noexcept nogil
# Octets decoded from base64 (RFC 4648 4), or -1.
cdef int span_base64(const char *text, uint32_t length, uint8_t *out, uint32_t capacity) noexcept nogil

cdef struct Base64:             # state of a decoder that gets its text in pieces; the caller zeroes it
    uint32_t bits
    uint32_t digits             # read so far
    uint32_t pads               # "=" read so far

# Decodes a piece of base64 into out. Returns the octets that it completes, or -1.
cdef int base64_add(Base64 *state, const char *text, uint32_t length, uint8_t *out, uint32_t capacity) noexcept nogil

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
    """Decodes an escape, whose backslash is before text, into *octet. Returns the number of characters that it takes, or -1."""
    if left == 0:
        return -1
    if not span_digit(<uint8_t>text[0]):
        octet[0] = <uint8_t>text[0]
        return 1
    if left < 3 or not span_digit(<uint8_t>text[1]) or not span_digit(<uint8_t>text[2]):
        octet[0] = <uint8_t>text[0]         # as Go's DNS library reads it
        return 1
    octet[0] = (text[0] - c'0') * 100 + (text[1] - c'0') * 10 + (text[2] - c'0')
    return 3 if octet[0] < 256 else -1
