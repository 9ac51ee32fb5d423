"""Fields of rdata: conversion from the words of a master file to wire form. zonefile/rdata.pyx combines them into record types."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.zonefile.lexer cimport LEX_WORD, Lexer, lexer_next

cdef enum:
    RDATA_MAX = 65535
    BITMAP_OCTETS = 8192

cdef struct RdataText:          # state of reading one rdata
    Lexer *lexer                # borrowed
    const uint8_t *origin       # uncompressed wire form, borrowed; NULL: names must be absolute
    uint32_t origin_length      # octets
    uint8_t *out                # RDATA_MAX octets, borrowed
    uint32_t used               # octets written to out
    uint8_t *bitmap             # BITMAP_OCTETS octets, zero between fields, borrowed
    const char *failure         # static: the error text of CoreDNS's parser; lexer.token has the position

# Each field_ function reads the next words, appends the field to out and returns 0, or returns -1 when the words are not such a field. The
# caller sets text.failure.

cdef inline bint field_word(RdataText *text) noexcept nogil:
    """Reads the next token. True when it is an unquoted word, which is in lexer.token."""
    return lexer_next(text.lexer) == LEX_WORD

cdef inline uint8_t *field_reserve(RdataText *text, uint32_t size) noexcept nogil:
    """Appends size octets, which the caller fills. NULL when the rdata would exceed RDATA_MAX."""
    if size > RDATA_MAX - text.used:
        return NULL
    text.used += size
    return text.out + text.used - size

cdef int field_number(RdataText *text, uint32_t octets) noexcept nogil      # a number of 1, 2 or 4 octets
cdef int field_name(RdataText *text) noexcept nogil
cdef int field_address(RdataText *text, int family) noexcept nogil          # family: 4 or 6
cdef int field_period(RdataText *text) noexcept nogil                       # seconds, units s, m, h, d, w allowed
cdef int field_moment(RdataText *text) noexcept nogil                       # YYYYMMDDHHmmSS or seconds (RFC 4034 3.2)
cdef int field_type(RdataText *text) noexcept nogil
cdef int field_algorithm(RdataText *text, bint any_case) noexcept nogil
cdef int field_certificate(RdataText *text) noexcept nogil
cdef int field_string(RdataText *text) noexcept nogil                       # one <character-string>, quoted or not
cdef int field_hex_string(RdataText *text, bint dash) noexcept nogil        # a word of hex, behind an octet with its length; dash: "-" is empty
cdef int field_base32_string(RdataText *text) noexcept nogil
cdef int field_eui(RdataText *text, uint32_t octets) noexcept nogil
cdef int field_node(RdataText *text) noexcept nogil                         # 64 bits as four groups of four hex digits (RFC 6742)
# These read up to the end of the line:
cdef int field_strings(RdataText *text, uint32_t least) noexcept nogil
cdef int field_hex(RdataText *text) noexcept nogil
cdef int field_base64(RdataText *text) noexcept nogil
cdef int field_bitmap(RdataText *text) noexcept nogil
cdef int field_octets(RdataText *text) noexcept nogil                       # one string, without an octet for its length
cdef int field_end(RdataText *text) noexcept nogil                          # the line must end here
