"""Removes the addresses of one family from a reply, and the hints of it from HTTPS and SVCB records (RFC 9460 7.3)."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.reply cimport Reply

cdef struct AddressFamily:      # that is withheld
    uint16_t type               # AAAA, or A
    uint16_t other              # A, or AAAA
    uint16_t hint               # ipv6hint, or ipv4hint

cdef struct Stripped:
    uint32_t records            # of the family
    uint32_t hints

# Whether a reply has something of the family in any section.
cdef bint strip_has(const Reply *reply, const AddressFamily *family) noexcept nogil
# Whether a validator would miss what is removed: the answer section has signatures.
cdef bint strip_is_signed(const Reply *reply) noexcept nogil
# Removes all hints of the family, and its addresses: all of them, or without `always` those of owners with an address of the other family in the reply.
# What is removed takes its signatures with it.
cdef Stripped strip_reply(Reply *reply, const AddressFamily *family, bint always) noexcept nogil
# Of a positive reply of the other family, leaves what is NODATA for this one (RFC 2308 2.2): the aliases, and the SOA where there is one.
cdef void strip_to_nodata(Reply *reply, uint16_t type) noexcept nogil
# rdata of HTTPS or SVCB without a hint, into `out` (`length` octets); also from the list of mandatory keys. -1: it has none, or is malformed.
cdef int strip_hint(const uint8_t *rdata, uint32_t length, uint16_t hint, uint8_t *out) noexcept nogil
