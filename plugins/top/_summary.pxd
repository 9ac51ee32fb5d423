"""Frequent keys of a stream in fixed memory, by the algorithm Space-Saving (Metwally, Agrawal and El Abbadi, 2005).

A key that is not there takes the row with the lowest count, and begins with that count, which is its `error`. So `count` is never too low and
`count - error` never too high, and a key with more than a 1 / SUMMARY_ROWS of the total is there whatever else comes.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    SUMMARY_ROWS = 256
    SUMMARY_BUCKETS = 512           # a power of two
    SUMMARY_DATA = 120              # octets of a key and what is known of it
    NO_ROW = 0xffff

cdef struct SummaryRow:
    uint64_t count
    uint64_t error                  # of the count, at most
    uint64_t hash                   # keyed, of the whole key, which may be longer than what is kept of it
    uint16_t next                   # in its bucket
    uint16_t place                  # in the heap
    uint8_t key_length
    uint8_t length                  # of the key and what is known of it
    uint8_t data[SUMMARY_DATA]

cdef struct Summary:                # of one thread at a time; zeroed memory needs summary_clear before its first use
    uint64_t total                  # of all counts that were added
    uint32_t used
    uint16_t buckets[SUMMARY_BUCKETS]
    uint16_t heap[SUMMARY_ROWS]     # rows, the one with the lowest count first
    SummaryRow rows[SUMMARY_ROWS]

cdef void summary_clear(Summary *summary) noexcept nogil
# Adds to the count of a key of at most SUMMARY_DATA octets, and returns its row. `fresh` is set where the key was not there.
cdef SummaryRow *summary_add(Summary *summary, uint64_t hash, const uint8_t *key, uint32_t length, uint64_t count, uint64_t error, bint *fresh) noexcept nogil
# The most that a key may have which is not there.
cdef inline uint64_t summary_least(const Summary *summary) noexcept nogil:
    return summary.rows[summary.heap[0]].count if summary.used == SUMMARY_ROWS else 0
# Adds all rows of another summary, and its total. `summary_least` is at most 2 / SUMMARY_ROWS of the total then, however many are merged that were
# filled by summary_add alone.
cdef void summary_merge(Summary *summary, const Summary *other) noexcept nogil
