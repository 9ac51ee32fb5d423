"""Sets of records; see rows.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.plugins.transfer._rows cimport Rows, rows_put
from fastdns.plugins.transfer._source cimport TransferRecord

cdef enum:
    HEAD = 9                        # octets of a row before its owner: type, TTL, length of rdata, length of owner
    OCTETS_FIRST = 1024
    PLACES_FIRST = 16


cdef uint32_t row_size(const uint8_t *row) noexcept nogil:
    cdef uint16_t rdlength
    memcpy(&rdlength, row + 6, 2)
    return <uint32_t>HEAD + row[8] + rdlength


cdef int row_compare(const uint8_t *a, const uint8_t *b) noexcept nogil:
    """The head has both lengths, so rows that agree in it are equally long."""
    cdef int order = memcmp(a, b, HEAD)
    return order if order else memcmp(a + HEAD, b + HEAD, row_size(a) - HEAD)


cdef int by_content(const void *a, const void *b) noexcept nogil:
    return row_compare((<const uint8_t **>a)[0], (<const uint8_t **>b)[0])


cdef void rowset_clear(RowSet *rows) noexcept nogil:
    rows.used = 0
    rows.count = 0
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


cdef void put_octets(RowSet *rows, const uint8_t *row, uint32_t size) noexcept nogil:
    if not make_room(rows, size):
        rows.failed = 1
        return
    memcpy(rows.octets + rows.used, row, size)
    rows.places[rows.count] = rows.used
    rows.count += 1
    rows.used += size


cdef void rowset_put(RowSet *rows, const TransferRecord *record) noexcept nogil:
    cdef uint32_t size = <uint32_t>HEAD + record.owner_length + record.rdlength
    cdef uint8_t *row
    if not make_room(rows, size):
        rows.failed = 1
        return
    row = rows.octets + rows.used
    memcpy(row, &record.type, 2)
    memcpy(row + 2, &record.ttl, 4)
    memcpy(row + 6, &record.rdlength, 2)
    row[8] = record.owner_length
    memcpy(row + HEAD, record.owner, record.owner_length)
    memcpy(row + HEAD + record.owner_length, record.rdata, record.rdlength)
    rows.places[rows.count] = rows.used
    rows.count += 1
    rows.used += size


cdef void rowset_at(const RowSet *rows, uint32_t i, TransferRecord *record) noexcept nogil:
    cdef const uint8_t *row = rows.octets + rows.places[i]
    memcpy(&record.type, row, 2)
    memcpy(&record.ttl, row + 2, 4)
    memcpy(&record.rdlength, row + 6, 2)
    record.owner_length = row[8]
    record.owner = row + HEAD
    record.rdata = record.owner + record.owner_length


cdef void rowset_sort(RowSet *rows) noexcept nogil:
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
        if i == 0 or row_compare(sorted[i - 1], sorted[i]) != 0:
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
            put_octets(deleted, old, row_size(old))
        elif order > 0:
            put_octets(added, new, row_size(new))
        i += order <= 0
        k += order >= 0


cdef void rowset_give(const RowSet *rows, Rows *into) noexcept nogil:
    cdef TransferRecord record
    cdef uint32_t i
    for i in range(rows.count):
        rowset_at(rows, i, &record)
        rows_put(into, record.type, record.ttl, record.owner, record.owner_length, record.rdata, record.rdlength)
