"""Rdata of all record types: conversion from presentation form to wire form, checks, canonical form. protocol/rrtypes.pxd has the layouts."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.zonefile.fields cimport RdataText

# Reads rdata from the next word up to the end of the line into text.out (text.used octets), also in the form "\#" of RFC 3597 5.
# 0, or -1 with text.failure and the position in text.lexer.token.
cdef int rdata_parse(RdataText *text, uint16_t type) noexcept nogil
# Whether these octets are rdata of this type with uncompressed names, in a zone: none are of a type that no zone has. Any are valid for unknown types.
cdef bint rdata_valid(uint16_t type, const uint8_t *rdata, uint32_t length) noexcept nogil
# Lower-cases the names in valid rdata of the types of RFC 4034 6.2, SVCB and HTTPS.
cdef void rdata_lower(uint16_t type, uint8_t *rdata, uint32_t length) noexcept nogil
