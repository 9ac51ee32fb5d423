"""Queries as UDP datagrams, in batches."""
from fastdns.bench.generator.client cimport Carriage, Driver

cdef Carriage DATAGRAM
# Memory of the batches, for replies of up to `largest` octets. -1 without.
cdef int datagrams_open(Driver *driver, unsigned int largest) noexcept nogil
cdef void datagrams_close(Driver *driver) noexcept nogil
