"""Records of a transfer as copied rows: a source for providers whose store goes on changing."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy
from fastdns.plugins.transfer._source cimport TransferRecord, TransferSource

# ---- one row: type, TTL, length of rdata, length of owner, owner, rdata ----

cdef enum:
    ROW_HEAD = 9                    # octets before the owner

cdef inline uint32_t row_size(const TransferRecord *record) noexcept nogil:
    return <uint32_t>ROW_HEAD + record.owner_length + record.rdlength

cdef inline void row_write(uint8_t *out, const TransferRecord *record) noexcept nogil:
    """out has row_size octets."""
    memcpy(out, &record.type, 2)
    memcpy(out + 2, &record.ttl, 4)
    memcpy(out + 6, &record.rdlength, 2)
    out[8] = record.owner_length
    memcpy(out + ROW_HEAD, record.owner, record.owner_length)
    memcpy(out + ROW_HEAD + record.owner_length, record.rdata, record.rdlength)

cdef inline void row_read(const uint8_t *row, TransferRecord *record) noexcept nogil:
    """The record of a row, borrowed from it."""
    memcpy(&record.type, row, 2)
    memcpy(&record.ttl, row + 2, 4)
    memcpy(&record.rdlength, row + 6, 2)
    record.owner_length = row[8]
    record.owner = row + ROW_HEAD
    record.rdata = record.owner + record.owner_length

# ---- rows of a transfer ----

cdef struct Chunk:                  # rows, one behind the other
    Chunk *next
    uint32_t used
    uint32_t size
    uint8_t octets[1]

cdef struct Rows:
    TransferSource source           # first: what the functions get is the whole
    Chunk *first                    # at work; freed when it has been read
    Chunk *last
    uint32_t at
    uint8_t failed

# Empty rows; NULL when memory ran out.
cdef Rows *rows_new() noexcept nogil
# Adds a copy of a record; owner is at most 255 octets of uncompressed wire form.
cdef void rows_put(Rows *rows, uint16_t type, uint32_t ttl, const uint8_t *owner, uint32_t owner_length, const uint8_t *rdata,
                   uint32_t rdlength) noexcept nogil
# Whether memory ran out, so that rows are missing.
cdef bint rows_failed(const Rows *rows) noexcept nogil
# The source: hand it over with transfer_of, or close it.
cdef TransferSource *rows_source(Rows *rows) noexcept nogil
