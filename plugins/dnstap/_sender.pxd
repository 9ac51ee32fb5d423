"""What puts messages into the rings of a tap, and what takes them out."""
from libc.stdint cimport int64_t
from fastdns.api.worker cimport Worker
from fastdns.api.metadata cimport Format
from fastdns.plugins.dnstap._tap cimport Tap, Tapped

# Puts a message; where the ring is full it is dropped and counted.
cdef void tap_put(Tap *tap, Worker *worker, const Tapped *tapped) noexcept nogil

# The wall clock, ns since 1970.
cdef int64_t tap_clock() noexcept nogil

cdef class Sender:                  # Sender(endpoint, identity, version, extra, full, octets)
    cdef Tap tap
    cdef bytes _head
    cdef readonly Format extra
    cdef readonly str endpoint
    cdef object _metric
