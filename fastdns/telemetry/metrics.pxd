"""Counters, gauges and histograms. Each worker writes a row of cells of its own, without locks and atomic read-modify-write instructions; reading a
metric sums the rows.

A child of a metric (one set of label values) is a run of adjacent cells. A thread with the GIL allocates it once (`Metric.cell`), and it exists as
long as the process, so counters survive a reload. A handler stores the numbers of the cells that it uses.
"""
from libc.stdint cimport uint32_t, uint64_t, int64_t
from fastdns.system.atomic cimport atomic_bump64

cdef enum:
    METRIC_CELLS_MAX = 4194304      # cells of a row: address space; the kernel allocates a page at its first use
    METRIC_CONTROL = 64             # the row of threads that hold the GIL (workers have 0 to 63)
    METRIC_BUCKETS_MAX = 24

cdef uint64_t *metric_rows[65]      # the rows, by worker; metrics_prepare maps them

cdef inline void metric_add(uint32_t cell, uint32_t worker, uint64_t n) noexcept nogil:
    """Adds to a counter. Cell 0 is never exposed, so a handler without metrics uses it and needs no branch."""
    atomic_bump64(&metric_rows[worker][cell], n)

cdef struct Buckets:                # buckets of a histogram
    uint32_t count                  # without +Inf; 0: not a histogram
    uint64_t bound[METRIC_BUCKETS_MAX]  # upper bounds in the raw unit (ns for seconds, octets for sizes)

cdef inline uint64_t *metric_row(uint32_t worker) noexcept nogil:
    """A worker's row, for a caller that adds to several cells."""
    return metric_rows[worker]

cdef inline void row_observe(const Buckets *buckets, uint64_t *cells, uint64_t value) noexcept nogil:
    """Adds one observation to a child: its cells are one for each bucket, one for +Inf, and the sum in the raw unit."""
    cdef uint32_t i = 0
    while i < buckets.count and value > buckets.bound[i]:
        i += 1
    atomic_bump64(&cells[i], 1)
    atomic_bump64(&cells[buckets.count + 1], value)

cdef inline void metric_observe(const Buckets *buckets, uint32_t cell, uint32_t worker, uint64_t value) noexcept nogil:
    row_observe(buckets, metric_rows[worker] + cell, value)

cdef class Metric:
    """A metric and its children: Metric(name, help, kind, labels, bounds, scale). kind is 'counter', 'gauge' or 'histogram'; bounds are the upper
    bounds in the exposed unit; scale is the number of raw units in one exposed unit (1e9 for seconds stored as ns, 1 for octets).
    A second Metric with the same name uses the same cells. A child without an observation is not exposed unless it was made with zero=True;
    metrics without labels and gauges are exposed from the start. Cells of gauges are signed: add a negative n to subtract."""
    cdef readonly str name
    cdef readonly str help
    cdef readonly str kind
    cdef readonly tuple labels
    cdef readonly tuple bounds
    cdef readonly double scale
    cdef Buckets buckets
    cdef dict _cells            # label values -> first cell
    cdef dict _tables           # axes -> first cell
    cdef dict _values           # label values -> value of `set`
    cdef dict _watched          # label values -> function of `watch`
    cdef set _zero              # label values that are exposed at 0
    # First cell of the child with these label values; allocated when it is new.
    cpdef uint32_t cell(self, tuple values, bint zero=*) except? 0
    # First cell of a table of children, for handlers that compute a child's cell from numbers. Each of `axes` is one label's value or a tuple of
    # values. The cells are in row-major order (the last axis varies fastest), `metric_width` cells for each child.
    cpdef uint32_t table(self, tuple axes) except? 0
    # Adds n raw units to a child, in the control row.
    cpdef add(self, tuple values, uint64_t n=*)
    # Sets a gauge.
    cpdef set(self, tuple values, double value)
    # Adds one observation in the exposed unit to a histogram.
    cpdef observe(self, tuple values, double value)
    # Registers a function without arguments that returns the child's value (a number) whenever the metric is read.
    cpdef watch(self, tuple values, function)
    # Removes what `set` and `watch` gave a child, or all children (None). Counters keep their cells.
    cpdef forget(self, tuple values=*)
    cdef int check(self, tuple values) except -1
    cdef int read(self, dict found, tuple values, uint32_t cell) except -1
    cdef int read_table(self, dict found, tuple axes, uint32_t first) except -1

cdef inline uint32_t metric_width(const Buckets *buckets) noexcept nogil:
    """Number of cells of one child: 1, or for a histogram its buckets, +Inf and the sum."""
    return buckets.count + 2 if buckets.count else 1

# Maps the rows of workers 0 to `workers` - 1 and the control row. ValueError above 64, OSError.
cdef int metrics_prepare(uint32_t workers) except -1
