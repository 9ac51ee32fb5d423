"""Counters and histograms that workers write without locks or locked instructions: each worker has a row of cells of its own, summed when read.

A child of a metric (one set of label values) is a run of cells, made once on the control side (`Metric.cell`) and kept for the life of the
process, so counters survive a reload. A handler keeps the cell numbers it needs, by server label where the labels name a server.
"""
from libc.stdint cimport uint32_t, uint64_t, int64_t
from fastdns.system.atomic cimport atomic_bump64

cdef enum:
    METRIC_CELLS_MAX = 4194304      # virtual memory only; pages are touched as cells are used
    METRIC_CONTROL = 64             # the row of whoever holds the GIL (workers are 0 to 63)
    METRIC_BUCKETS_MAX = 24

cdef uint64_t *metric_rows[65]      # row of each worker, METRIC_CONTROL last; mapped when metrics_prepare names it

cdef inline void metric_add(uint32_t cell, uint32_t worker, uint64_t n) noexcept nogil:
    """Adds to a counter; cell 0 is a sink that nobody reads, so a handler without metrics needs no branch."""
    atomic_bump64(&metric_rows[worker][cell], n)

cdef struct Buckets:                # of a histogram, in its raw unit (ns for seconds, octets for sizes)
    uint32_t count
    uint64_t bound[METRIC_BUCKETS_MAX]

cdef inline uint64_t *metric_row(uint32_t worker) noexcept nogil:
    """A worker's cells, for who adds to several."""
    return metric_rows[worker]

cdef inline void row_observe(const Buckets *buckets, uint64_t *cells, uint64_t value) noexcept nogil:
    """Adds one observation: cells are one for each bucket, one for +Inf, then the sum in the raw unit."""
    cdef uint32_t i = 0
    while i < buckets.count and value > buckets.bound[i]:
        i += 1
    atomic_bump64(&cells[i], 1)
    atomic_bump64(&cells[buckets.count + 1], value)

cdef inline void metric_observe(const Buckets *buckets, uint32_t cell, uint32_t worker, uint64_t value) noexcept nogil:
    row_observe(buckets, metric_rows[worker] + cell, value)

cdef class Metric:
    """A metric and its children; Metric(name, help, kind, labels, bounds, scale) where kind is 'counter', 'gauge' or 'histogram', bounds are
    the upper bounds in the exposed unit and scale is raw units in one exposed unit (1e9 for seconds kept as ns, 1 for octets).
    Making one with a name that exists gives another view of the standing one. Children without an observation are not exposed unless made with
    zero=True; a metric without labels is exposed from the start, as are gauges. Cells of gauges are signed: add a negative n to subtract."""
    cdef readonly str name
    cdef readonly str help
    cdef readonly str kind
    cdef readonly tuple labels
    cdef readonly tuple bounds
    cdef readonly double scale
    cdef Buckets buckets
    cdef dict _cells            # label values -> first cell
    cdef dict _tables           # axes -> first cell
    cdef dict _values           # label values -> what `set` gave
    cdef dict _watched          # label values -> function
    cdef set _zero              # label values exposed at 0
    # First cell of the child with these label values; made when new.
    cpdef uint32_t cell(self, tuple values, bint zero=*) except? 0
    # First cell of a run of children: each of `axes` is one label's value, or a tuple of values. Their cells stand in row-major order
    # (the last axis is the fastest; `metric_width` cells a child). For handlers that index by numbers instead of making every child.
    cpdef uint32_t table(self, tuple axes) except? 0
    # Adds from Python (control row).
    cpdef add(self, tuple values, uint64_t n=*)
    # Sets a gauge from Python.
    cpdef set(self, tuple values, double value)
    cpdef observe(self, tuple values, double value)
    # A function without arguments that gives the child's value (a number) when it is read.
    cpdef watch(self, tuple values, function)
    # Forgets a child, or all: for gauges that a reload makes anew. Counters keep their cells and go on where they were.
    cpdef forget(self, tuple values=*)
    cdef int check(self, tuple values) except -1
    cdef int read(self, dict found, tuple values, uint32_t cell) except -1
    cdef int read_table(self, dict found, tuple axes, uint32_t first) except -1

cdef inline uint32_t metric_width(const Buckets *buckets) noexcept nogil:
    """Cells of one child: 1, or for a histogram its buckets, +Inf and the sum."""
    return buckets.count + 2 if buckets.count else 1

# Maps the rows of `workers` workers and the control row.
cdef int metrics_prepare(uint32_t workers) except -1
