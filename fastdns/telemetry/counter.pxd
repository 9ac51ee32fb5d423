"""A counter that code may be told to count with: a child of a Metric, as an object that nobody can make of a number."""
from libc.stdint cimport uint32_t
from fastdns.telemetry.metrics cimport Metric

cdef class Counter:
    cdef readonly Metric metric
    cdef readonly tuple values      # of the labels
    cdef uint32_t cell
