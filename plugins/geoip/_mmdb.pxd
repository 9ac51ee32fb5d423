"""Databases in MaxMind's format (MaxMind DB file format specification 2.0), read in place without the GIL.

A file is a search tree over the bits of addresses, whose leaves point into a section of values. It comes from the operator, but nothing in it is trusted:
every read is checked against the section's end.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum Kind:                     # of values, as numbered in the file
    KIND_POINTER = 1
    KIND_TEXT = 2
    KIND_DOUBLE = 3
    KIND_BYTES = 4
    KIND_UINT16 = 5
    KIND_UINT32 = 6
    KIND_MAP = 7
    KIND_INT32 = 8
    KIND_UINT64 = 9
    KIND_UINT128 = 10
    KIND_ARRAY = 11
    KIND_BOOLEAN = 14
    KIND_FLOAT = 15

cdef struct Mmdb:
    const uint8_t *tree             # borrowed from the Database, like the next
    const uint8_t *values           # the section of values
    uint64_t length                 # its octets
    uint32_t nodes
    uint32_t record_size            # bits: 24, 28 or 32
    uint32_t ip_version             # 4 or 6
    uint32_t four                   # of a tree of IPv6 addresses: where ::/96 leads

cdef struct Value:
    Kind kind                       # never a pointer: those are followed
    uint32_t size                   # octets; of maps pairs, of arrays elements; of booleans the value
    uint64_t at                     # of what it consists of
    uint64_t next                   # behind it, or behind the pointer to it; for maps and arrays only if they were pointed to (else value_skip)

cdef enum Lookup:
    LOOKUP_BROKEN = -1              # the file, or an IPv6 address in a database without
    LOOKUP_MISSED = 0
    LOOKUP_FOUND = 1

# The value for an address (4 or 16 octets): its offset among the values.
cdef Lookup mmdb_find(const Mmdb *db, const uint8_t *ip, uint8_t family, uint64_t *at) noexcept nogil
# The value at an offset; False when it is broken.
cdef bint mmdb_value(const Mmdb *db, uint64_t at, Value *value) noexcept nogil
# The value of a key in a map; False when there is none. The key ends with a zero.
cdef bint mmdb_member(const Mmdb *db, const Value *map, const char *key, Value *value) noexcept nogil
# The offset behind the value at an offset, with all that is in it; 0 when it is broken.
cdef uint64_t mmdb_skip(const Mmdb *db, uint64_t at) noexcept nogil
# An unsigned number; False for another kind.
cdef bint mmdb_unsigned(const Mmdb *db, const Value *value, uint64_t *number) noexcept nogil
# A floating-point number; False for another kind.
cdef bint mmdb_float(const Mmdb *db, const Value *value, double *number) noexcept nogil

cdef class Database:
    cdef Mmdb mmdb
    cdef bytes data
    cdef readonly str type          # database_type
    cdef object __weakref__
