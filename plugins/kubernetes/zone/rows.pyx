"""Sets of records; see rows.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.plugins.transfer._rows cimport ROW_HEAD, Rows, row_read, row_size, row_write, rows_put
from fastdns.plugins.transfer._source cimport TransferRecord

cdef enum:
    OCTETS_FIRST = 1024
    PLACES_FIRST = 16


cdef uint32_t size_of(const uint8_t *row) noexcept nogil:
    cdef TransferRecord record
    row_read(row, &record)
    return row_size(&record)


cdef int row_compare(const uint8_t *a, const uint8_t *b) noexcept nogil:
    """The head has both lengths, so rows that agree in it are equally long."""
    cdef int order = memcmp(a, b, ROW_HEAD)
    return order if order else memcmp(a + ROW_HEAD, b + ROW_HEAD, size_of(a) - ROW_HEAD)


cdef int by_content(const void *a, const void *b) noexcept nogil:
    return row_compare((<const uint8_t **>a)[0], (<const uint8_t **>b)[0])


cdef void rowset_clear(RowSet *rows) noexcept nogil:
    rows.used = 0
    rows.count = 0
    rows.left_out = 0
    rows.failed = 0


cdef void rowset_free(RowSet *rows) noexcept nogil:
    free(rows.octets)
    free(rows.places)
    memset(rows, 0, sizeof(RowSet))


cdef bint make_room(RowSet *rows, uint32_t size) noexcept nogil:
    cdef uint32_t octets = max(<uint32_t>OCTETS_FIRST, rows.size), places = max(<uint32_t>PLACES_FIRST, rows.room)
    cdef void *block
    while octets - rows.used < size and octets < 0x40000000u:
        octets *= 2
    if octets != rows.size:
        block = realloc(rows.octets, octets)
        if block == NULL:
            return False
        rows.octets = <uint8_t *>block
        rows.size = octets
    if rows.count == places:
        places *= 2
    if places != rows.room:
        block = realloc(rows.places, places * sizeof(uint32_t))
        if block == NULL:
            return False
        rows.places = <uint32_t *>block
        rows.room = places
    return rows.size - rows.used >= size


cdef uint8_t *reserve(RowSet *rows, uint32_t size) noexcept nogil:
    """Where the next row goes; NULL, and noted, when memory ran out."""
    if not make_room(rows, size):
        rows.failed = 1
        return NULL
    rows.places[rows.count] = rows.used
    rows.count += 1
    rows.used += size
    return rows.octets + rows.used - size


cdef void put_row(RowSet *rows, const uint8_t *row) noexcept nogil:
    """Of another set."""
    cdef uint32_t size = size_of(row)
    cdef uint8_t *out = reserve(rows, size)
    if out != NULL:
        memcpy(out, row, size)


cdef void rowset_put(RowSet *rows, const TransferRecord *record) noexcept nogil:
    cdef uint8_t *out = reserve(rows, row_size(record))
    if out != NULL:
        row_write(out, record)


cdef void rowset_at(const RowSet *rows, uint32_t i, TransferRecord *record) noexcept nogil:
    row_read(rows.octets + rows.places[i], record)


cdef void rowset_sort(RowSet *rows, bint once) noexcept nogil:
    cdef const uint8_t **sorted
    cdef uint32_t i, count = 0
    if rows.count < 2:
        return
    sorted = <const uint8_t **>malloc(rows.count * sizeof(void *))
    if sorted == NULL:
        rows.failed = 1
        return
    for i in range(rows.count):
        sorted[i] = rows.octets + rows.places[i]
    qsort(sorted, rows.count, sizeof(void *), by_content)
    for i in range(rows.count):
        if i == 0 or not once or row_compare(sorted[i - 1], sorted[i]) != 0:
            rows.places[count] = <uint32_t>(sorted[i] - rows.octets)
            count += 1
    rows.count = count
    free(sorted)


cdef void rowset_compare(const RowSet *before, const RowSet *after, RowSet *deleted, RowSet *added) noexcept nogil:
    cdef uint32_t i = 0, k = 0
    cdef const uint8_t *old
    cdef const uint8_t *new
    cdef int order
    while i < before.count or k < after.count:
        old = before.octets + before.places[i] if i < before.count else NULL
        new = after.octets + after.places[k] if k < after.count else NULL
        order = -1 if new == NULL else 1 if old == NULL else row_compare(old, new)
        if order < 0:
            put_row(deleted, old)
        elif order > 0:
            put_row(added, new)
        i += order <= 0
        k += order >= 0


cdef void rowset_give(const RowSet *rows, Rows *into) noexcept nogil:
    cdef TransferRecord record
    cdef uint32_t i
    for i in range(rows.count):
        rowset_at(rows, i, &record)
        rows_put(into, record.type, record.ttl, record.owner, record.owner_length, record.rdata, record.rdlength)
