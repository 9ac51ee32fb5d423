"""Presentation form of names, numbers and addresses, as log lines show them, written into a bounded buffer without the GIL."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t

from fastdns.system.address cimport Address

cdef struct Text:               # an item that does not fit is left out; full is set then, and later items are ignored
    char *out                   # borrowed
    uint32_t used               # octets written
    uint32_t capacity           # octets
    uint8_t full

cdef void text_put(Text *text, const char *what, uint32_t length) noexcept nogil
cdef void text_char(Text *text, char c) noexcept nogil
cdef void text_string(Text *text, const char *what) noexcept nogil      # NUL-terminated
cdef void text_number(Text *text, uint64_t number) noexcept nogil
cdef void text_type(Text *text, uint16_t type) noexcept nogil           # mnemonic, or TYPE123 (RFC 3597 5)
cdef void text_class(Text *text, uint16_t klass) noexcept nogil         # mnemonic, or CLASS123
cdef void text_rcode(Text *text, uint16_t rcode) noexcept nogil         # mnemonic, or the number
cdef void text_name(Text *text, const uint8_t *wire) noexcept nogil     # presentation form, final dot, \DDD
cdef void text_address(Text *text, const Address *address) noexcept nogil   # without port; IPv6 in brackets
cdef void text_seconds(Text *text, int64_t ns) noexcept nogil           # seconds as a decimal without exponent and trailing zeros, then "s"
cdef void text_printable(Text *text, const char *what) noexcept nogil   # NUL-terminated; octets that are not printable ASCII as \DDD

# Converts a name from presentation form to wire form: case is kept, a relative name is taken as absolute. out has NAME_MAX octets.
# Returns the length in octets, or -1 when the text is not a name.
cdef int text_read_name(const char *text, uint32_t length, uint8_t *out) noexcept nogil
