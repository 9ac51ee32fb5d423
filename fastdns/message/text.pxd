"""Names and numbers as log lines show them, written into a bounded buffer without the GIL."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t

from fastdns.system.address cimport Address

cdef struct Text:               # what does not fit is left out, and nothing behind it is written
    char *out                   # borrowed
    uint32_t used
    uint32_t room
    uint8_t full

cdef void text_put(Text *text, const char *what, uint32_t length) noexcept nogil
cdef void text_char(Text *text, char c) noexcept nogil
cdef void text_string(Text *text, const char *what) noexcept nogil      # to its zero
cdef void text_number(Text *text, uint64_t number) noexcept nogil
cdef void text_type(Text *text, uint16_t type) noexcept nogil           # TYPE123 where it has no name
cdef void text_class(Text *text, uint16_t klass) noexcept nogil
cdef void text_rcode(Text *text, uint16_t rcode) noexcept nogil         # a bare number where it has no name
cdef void text_name(Text *text, const uint8_t *wire) noexcept nogil     # presentation form, final dot, \DDD
cdef void text_address(Text *text, const Address *address) noexcept nogil   # without port; IPv6 in brackets
cdef void text_seconds(Text *text, int64_t ns) noexcept nogil           # decimal, no exponent, no trailing zeros, then "s"
cdef void text_printable(Text *text, const char *what) noexcept nogil   # to its zero; octets that are not printable ASCII as \DDD

# Wire form of a name in presentation form (case kept, relative taken as absolute); out has NAME_MAX octets. Returns its length, or -1: no name.
cdef int text_read_name(const char *text, uint32_t length, uint8_t *out) noexcept nogil
