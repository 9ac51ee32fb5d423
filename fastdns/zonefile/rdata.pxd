"""Rdata of every record type: from presentation form to wire, checked, in lower case. One table says what each type is made of."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.zonefile.fields cimport RdataText

# Reads the rdata that begins with the next word, to the end of its line, into text.out (text.used octets); "\#" too (RFC 3597 5).
# 0, or -1 with text.failure and, in text.lexer.token, where.
cdef int rdata_parse(RdataText *text, uint16_t type) noexcept nogil
# Are these octets rdata of this type, names uncompressed? Types without a name may hold anything.
cdef bint rdata_valid(uint16_t type, const uint8_t *rdata, uint32_t length) noexcept nogil
# Puts the names in valid rdata of the types of RFC 4034 6.2 (and SVCB, HTTPS) in lower case.
cdef void rdata_lower(uint16_t type, uint8_t *rdata, uint32_t length) noexcept nogil
