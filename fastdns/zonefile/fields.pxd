"""Fields of rdata: from the words of a master file to wire. What all record types are made of; `_rdata` says which has which."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.zonefile.lexer cimport LEX_WORD, Lexer, lexer_next

cdef enum:
    RDATA_MAX = 65535
    BITMAP_OCTETS = 8192

cdef struct RdataText:          # one rdata at work
    Lexer *lexer                # borrowed
    const uint8_t *origin       # uncompressed wire form, borrowed; NULL: names must be absolute
    uint32_t origin_length
    uint8_t *out                # RDATA_MAX octets, borrowed
    uint32_t used
    uint8_t *bitmap             # BITMAP_OCTETS, zero between fields, borrowed
    const char *failure         # static: what CoreDNS says; lexer.token is where

# All of these give 0, or -1 when what stands there is no such field; the caller says which field it was.

cdef inline bint field_word(RdataText *text) noexcept nogil:
    """Is there another word (not quoted)? It is in lexer.token."""
    return lexer_next(text.lexer) == LEX_WORD

cdef inline uint8_t *field_room(RdataText *text, uint32_t size) noexcept nogil:
    """Place for size octets, or NULL."""
    if size > RDATA_MAX - text.used:
        return NULL
    text.used += size
    return text.out + text.used - size

cdef int field_number(RdataText *text, uint32_t octets) noexcept nogil      # 1, 2 or 4
cdef int field_name(RdataText *text) noexcept nogil
cdef int field_address(RdataText *text, int family) noexcept nogil          # 4 or 6
cdef int field_period(RdataText *text) noexcept nogil                       # seconds, with units
cdef int field_moment(RdataText *text) noexcept nogil                       # YYYYMMDDHHmmSS or seconds
cdef int field_type(RdataText *text) noexcept nogil
cdef int field_algorithm(RdataText *text, bint any_case) noexcept nogil
cdef int field_certificate(RdataText *text) noexcept nogil
cdef int field_string(RdataText *text) noexcept nogil                       # one <character-string>, quoted or not
cdef int field_hex_string(RdataText *text, bint dash) noexcept nogil        # a word of hex with its length before it; "-" is none
cdef int field_base32_string(RdataText *text) noexcept nogil
cdef int field_eui(RdataText *text, uint32_t octets) noexcept nogil
cdef int field_node(RdataText *text) noexcept nogil                         # 64 bits as four times four hex digits
# To the end of the line:
cdef int field_strings(RdataText *text, uint32_t least) noexcept nogil
cdef int field_hex(RdataText *text) noexcept nogil
cdef int field_base64(RdataText *text) noexcept nogil
cdef int field_bitmap(RdataText *text) noexcept nogil
cdef int field_octets(RdataText *text) noexcept nogil                       # one string without its length
cdef int field_end(RdataText *text) noexcept nogil                          # nothing more
