"""A set of records as rows: sorted, each once, so that two of them can be compared."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.plugins.transfer._rows cimport Rows
from fastdns.plugins.transfer._source cimport TransferRecord

cdef struct RowSet:                 # zeroed at first
    uint8_t *octets                 # rows, one behind the other
    uint32_t *places                # of each row in octets
    uint32_t used
    uint32_t size
    uint32_t count
    uint32_t room                   # of places
    uint64_t left_out               # records or objects beyond a bound, which are not there
    uint8_t failed                  # memory ran out: rows are missing

cdef void rowset_clear(RowSet *rows) noexcept nogil
cdef void rowset_free(RowSet *rows) noexcept nogil
# Adds a copy of a record; owner is at most 255 octets of uncompressed wire form, rdata at most 65535.
cdef void rowset_put(RowSet *rows, const TransferRecord *record) noexcept nogil
# The record of a place; borrowed until the set is changed.
cdef void rowset_at(const RowSet *rows, uint32_t i, TransferRecord *record) noexcept nogil
# Sorts the rows, and with `once` drops what is there twice.
cdef void rowset_sort(RowSet *rows, bint once) noexcept nogil
# Of two sorted sets: what is only in the first, or oftener there, goes into deleted, what is only in the second into added.
cdef void rowset_compare(const RowSet *before, const RowSet *after, RowSet *deleted, RowSet *added) noexcept nogil
# Copies all rows to those of a transfer.
cdef void rowset_give(const RowSet *rows, Rows *into) noexcept nogil
