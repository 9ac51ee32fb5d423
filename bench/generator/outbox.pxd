"""Queries that Python carries to the server: they wait in an outbox until it takes them."""
from libc.stdint cimport uint32_t
from fastdns.bench.generator.client cimport BATCH, Carriage

cdef Carriage OUTBOX

cdef struct Outbox:                 # client.stream
    bint open
    uint32_t capacity                   # queries that Python still takes
    uint32_t count
    uint32_t slots[BATCH]
