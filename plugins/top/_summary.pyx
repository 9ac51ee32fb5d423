"""Space-Saving. The contract is in _summary.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset


cdef void summary_clear(Summary *summary) noexcept nogil:
    summary.total = 0
    summary.used = 0
    memset(summary.buckets, 0xff, sizeof(summary.buckets))


cdef SummaryRow *summary_add(Summary *summary, uint64_t hash, const uint8_t *key, uint32_t length, uint64_t count, uint64_t error, bint *fresh) noexcept nogil:
    cdef SummaryRow *row = find_row(summary, hash, key, length)
    cdef uint16_t number
    summary.total += count
    fresh[0] = row == NULL
    if row != NULL:
        row.count += count
        row.error += error
        move_down(summary, row.place)
    elif summary.used < SUMMARY_ROWS:
        number = <uint16_t>summary.used
        summary.used += 1
        row = &summary.rows[number]
        row.count, row.error = count, error
        set_key(summary, row, number, hash, key, length)
        summary.heap[number] = number
        row.place = number
        move_up(summary, number)
    else:
        row = take_row(summary, hash, key, length)
        row.error = row.count + error
        row.count += count
        move_down(summary, 0)
    return row


cdef void summary_merge(Summary *summary, const Summary *other) noexcept nogil:
    """A key that only one of them has may have been in the other one as often as that one's least frequent row."""
    cdef const SummaryRow *from_row
    cdef SummaryRow *row
    cdef uint64_t least = summary_least(summary), absent = summary_least(other), total = summary.total + other.total
    cdef bint fresh
    cdef uint32_t i
    for i in range(summary.used if absent else 0):      # all alike, so the heap stays one
        summary.rows[i].count += absent
        summary.rows[i].error += absent
    for i in range(other.used):
        from_row = &other.rows[i]
        row = find_row(summary, from_row.hash, from_row.data, from_row.key_length)
        if row != NULL:
            row.count += from_row.count - absent
            row.error += from_row.error - absent        # the sum of both is what the first loop has added, or more
            move_down(summary, row.place)
            take_detail(row, from_row)
    # Keys that are new come after all others: none of those loses its row before it has its sum.
    for i in range(other.used):
        from_row = &other.rows[i]
        if find_row(summary, from_row.hash, from_row.data, from_row.key_length) != NULL:
            continue
        if summary.used < SUMMARY_ROWS:
            row = summary_add(summary, from_row.hash, from_row.data, from_row.key_length, from_row.count, from_row.error, &fresh)
        elif least + from_row.count > summary_least(summary):
            row = take_row(summary, from_row.hash, from_row.data, from_row.key_length)
            row.count = least + from_row.count
            row.error = least + from_row.error
            move_down(summary, 0)
        else:
            continue
        take_detail(row, from_row)
    summary.total = total


cdef inline void take_detail(SummaryRow *row, const SummaryRow *from_row) noexcept nogil:
    """What is known of the key, if it is not known yet."""
    if row.length == row.key_length:
        memcpy(row.data, from_row.data, from_row.length)
        row.length = from_row.length


cdef inline SummaryRow *find_row(Summary *summary, uint64_t hash, const uint8_t *key, uint32_t length) noexcept nogil:
    cdef uint16_t number = summary.buckets[hash & (SUMMARY_BUCKETS - 1)]
    cdef SummaryRow *row
    while number != NO_ROW:
        row = &summary.rows[number]
        if row.hash == hash and row.key_length == length and memcmp(row.data, key, length) == 0:
            return row
        number = row.next
    return NULL


cdef SummaryRow *take_row(Summary *summary, uint64_t hash, const uint8_t *key, uint32_t length) noexcept nogil:
    """The row with the lowest count, for another key. Its numbers are those of the former one."""
    cdef uint16_t number = summary.heap[0]
    cdef SummaryRow *row = &summary.rows[number]
    unlink(summary, row, number)
    set_key(summary, row, number, hash, key, length)
    return row


cdef inline void set_key(Summary *summary, SummaryRow *row, uint16_t number, uint64_t hash, const uint8_t *key, uint32_t length) noexcept nogil:
    row.hash = hash
    row.key_length = row.length = <uint8_t>length
    memcpy(row.data, key, length)
    row.next = summary.buckets[hash & (SUMMARY_BUCKETS - 1)]
    summary.buckets[hash & (SUMMARY_BUCKETS - 1)] = number


cdef inline void place_row(Summary *summary, uint32_t place, uint16_t number) noexcept nogil:
    summary.heap[place] = number
    summary.rows[number].place = <uint16_t>place


cdef void move_down(Summary *summary, uint32_t place) noexcept nogil:
    """Restores the heap after the count of a row has grown."""
    cdef uint16_t number = summary.heap[place]
    cdef uint64_t count = summary.rows[number].count
    cdef uint32_t child
    while True:
        child = 2 * place + 1
        if child >= summary.used:
            break
        if child + 1 < summary.used and summary.rows[summary.heap[child + 1]].count < summary.rows[summary.heap[child]].count:
            child += 1
        if summary.rows[summary.heap[child]].count >= count:
            break
        place_row(summary, place, summary.heap[child])
        place = child
    place_row(summary, place, number)


cdef void move_up(Summary *summary, uint32_t place) noexcept nogil:
    cdef uint16_t number = summary.heap[place]
    cdef uint64_t count = summary.rows[number].count
    cdef uint32_t parent
    while place:
        parent = (place - 1) >> 1
        if summary.rows[summary.heap[parent]].count <= count:
            break
        place_row(summary, place, summary.heap[parent])
        place = parent
    place_row(summary, place, number)


cdef void unlink(Summary *summary, const SummaryRow *row, uint16_t number) noexcept nogil:
    """Takes a row out of its bucket."""
    cdef uint16_t *link = &summary.buckets[row.hash & (SUMMARY_BUCKETS - 1)]
    while link[0] != number:
        link = &summary.rows[link[0]].next
    link[0] = row.next
