"""Records of a transfer as copied rows: a source for providers whose store goes on changing."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.plugins.transfer._source cimport TransferSource

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
