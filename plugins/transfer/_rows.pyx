"""Records of a transfer as copied rows; see _rows.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from fastdns.plugins.transfer._source cimport TransferRecord, TransferSource

cdef enum:
    CHUNK_OCTETS = 65536


cdef int row_next(TransferSource *source, TransferRecord *out) noexcept nogil:
    cdef Rows *rows = <Rows *>source
    cdef Chunk *chunk = rows.first
    if chunk != NULL and rows.at == chunk.used:
        rows.first = chunk.next
        free(chunk)
        chunk = rows.first
        rows.at = 0
    if chunk == NULL:
        return 0
    row_read(chunk.octets + rows.at, out)
    rows.at += row_size(out)
    return 1


cdef void row_close(TransferSource *source) noexcept nogil:
    cdef Rows *rows = <Rows *>source
    cdef Chunk *chunk
    while rows.first != NULL:
        chunk = rows.first
        rows.first = chunk.next
        free(chunk)
    free(rows)


cdef Rows *rows_new() noexcept nogil:
    cdef Rows *rows = <Rows *>calloc(1, sizeof(Rows))
    if rows != NULL:
        rows.source.next = row_next
        rows.source.close = row_close
    return rows


cdef uint8_t *reserve(Rows *rows, uint32_t size) noexcept nogil:
    cdef uint32_t octets = max(<uint32_t>CHUNK_OCTETS, size)
    cdef Chunk *chunk = rows.last
    if chunk == NULL or chunk.size - chunk.used < size:
        chunk = <Chunk *>malloc(sizeof(Chunk) + octets)
        if chunk == NULL:
            return NULL
        chunk.next = NULL
        chunk.used = 0
        chunk.size = octets
        if rows.last != NULL:
            rows.last.next = chunk
        else:
            rows.first = chunk
        rows.last = chunk
    chunk.used += size
    return chunk.octets + chunk.used - size


cdef void rows_put(Rows *rows, uint16_t type, uint32_t ttl, const uint8_t *owner, uint32_t owner_length, const uint8_t *rdata,
                   uint32_t rdlength) noexcept nogil:
    cdef TransferRecord record
    cdef uint8_t *row
    record.type = type
    record.ttl = ttl
    record.owner = owner
    record.owner_length = <uint8_t>owner_length
    record.rdata = rdata
    record.rdlength = <uint16_t>rdlength
    row = reserve(rows, row_size(&record))
    if row == NULL:
        rows.failed = 1
        return
    row_write(row, &record)


cdef bint rows_failed(const Rows *rows) noexcept nogil:
    return rows.failed


cdef TransferSource *rows_source(Rows *rows) noexcept nogil:
    return &rows.source
