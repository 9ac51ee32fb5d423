"""Counters, gauges and histograms. The contract is in telemetry/metrics.pxd."""
import re

from libc.errno cimport errno
from fastdns.system.atomic cimport atomic_peek64

cdef extern from "<sys/mman.h>" nogil:
    void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
    void *MAP_FAILED
    enum: PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE

cdef enum:
    SINK = METRIC_BUCKETS_MAX + 2   # cells that are never exposed: cell 0, and those that an observation at cell 0 writes

cdef uint64_t *metric_rows[65]
cdef uint32_t next_cell = SINK
cdef uint32_t mapped[65]            # the workers whose rows are mapped
cdef uint32_t mapped_count = 0

#: All metrics by name.
registry = {}

#: Names in the page of *prometheus* must be readable: one that is not makes the whole page useless.
NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")


cdef int map_row(uint32_t row) except -1:
    global mapped_count
    cdef void *memory
    if metric_rows[row] != NULL:
        return 0
    memory = mmap(NULL, <size_t>METRIC_CELLS_MAX * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if memory == MAP_FAILED:
        raise OSError(errno, "no address space for counters")
    metric_rows[row] = <uint64_t *>memory
    mapped[mapped_count] = row
    mapped_count += 1
    return 0


cdef int metrics_prepare(uint32_t workers) except -1:
    cdef uint32_t i
    if workers > METRIC_CONTROL:
        raise ValueError(f"{workers} workers are more than {METRIC_CONTROL}")
    for i in range(workers):
        map_row(i)
    return map_row(METRIC_CONTROL)


cdef uint32_t take_cells(uint64_t count) except 0:
    global next_cell
    cdef uint32_t first = next_cell
    if first + count > METRIC_CELLS_MAX:
        raise MemoryError("no cells left for metrics")
    next_cell += <uint32_t>count
    return first


cdef uint64_t total(uint32_t cell) noexcept nogil:
    cdef uint64_t sum = 0
    cdef uint32_t i
    for i in range(mapped_count):
        sum += atomic_peek64(metric_rows[mapped[i]] + cell)
    return sum


cdef class Metric:
    def __init__(self, str name, str help, str kind, labels=(), bounds=(), double scale=1.0):
        cdef Metric standing = registry.get(name)
        cdef uint32_t i
        self.name, self.help, self.kind, self.labels, self.scale = name, help, kind, tuple(labels), scale
        self.bounds = tuple(float(bound) for bound in bounds)
        if NAME.fullmatch(name) is None or not all(type(label) is str and LABEL.fullmatch(label) for label in self.labels):
            raise ValueError(f"{name!r} with labels {self.labels} is no name of a metric")
        if kind not in ("counter", "gauge", "histogram"):
            raise ValueError(f"{name}: no kind of metric is called {kind!r}")
        if (kind == "histogram") != bool(self.bounds) or len(self.bounds) > METRIC_BUCKETS_MAX:
            raise ValueError(f"{name}: a histogram, and nothing else, has 1 to {METRIC_BUCKETS_MAX} bounds")
        if list(self.bounds) != sorted(set(self.bounds)) or scale <= 0:
            raise ValueError(f"{name}: bounds must grow, and the scale be above 0")
        self.buckets.count = <uint32_t>len(self.bounds)
        for i in range(self.buckets.count):
            self.buckets.bound[i] = <uint64_t>round(self.bounds[i] * scale)
        if standing is not None:
            if (standing.kind, standing.labels, standing.bounds, standing.scale) != (kind, self.labels, self.bounds, scale):
                raise ValueError(f"{name} is there already, with another kind, labels or buckets")
            self._cells, self._tables, self._values = standing._cells, standing._tables, standing._values
            self._watched, self._zero = standing._watched, standing._zero
            return
        self._cells, self._tables, self._values, self._watched, self._zero = {}, {}, {}, {}, set()
        registry[name] = self
        if not self.labels:
            Metric.cell(self, (), True)

    cdef int check(self, tuple values) except -1:
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has labels {self.labels}, not {values}")
        return 0

    cpdef uint32_t cell(self, tuple values, bint zero=False) except? 0:
        found = self._cells.get(values)
        if found is None:
            self.check(values)
            found = self._cells.setdefault(values, take_cells(metric_width(&self.buckets)))
        if zero:
            self._zero.add(values)
        return found

    cpdef uint32_t table(self, tuple axes) except? 0:
        cdef uint64_t count = metric_width(&self.buckets)
        found = self._tables.get(axes)
        if found is None:
            self.check(axes)
            for axis in axes:
                if isinstance(axis, tuple):
                    count *= len(axis)
            found = self._tables.setdefault(axes, take_cells(count))
        return found

    cpdef add(self, tuple values, uint64_t n=1):
        metric_rows[METRIC_CONTROL][Metric.cell(self, values)] += n     # a subclass may return any number

    cpdef set(self, tuple values, double value):
        self.check(values)
        self._values[values] = value

    cpdef observe(self, tuple values, double value):
        if not self.buckets.count:
            raise ValueError(f"{self.name} is no histogram")
        metric_observe(&self.buckets, Metric.cell(self, values), METRIC_CONTROL, <uint64_t>max(0, round(value * self.scale)))

    cpdef watch(self, tuple values, function):
        self.check(values)
        self._watched[values] = function

    cpdef forget(self, tuple values=None):
        for kept in (self._values, self._watched):
            if values is None:
                kept.clear()
            else:
                kept.pop(values, None)

    def collect(self) -> list:
        """All exposed children, sorted by label values."""
        cdef dict found = {}
        for values, cell in list(self._cells.items()):
            self.read(found, values, cell)
        for axes, cell in list(self._tables.items()):
            self.read_table(found, axes, cell)
        for values, value in list(self._values.items()):
            found[values] = found.get(values, 0.0) + value
        for values, function in list(self._watched.items()):
            try:
                found[values] = float(function())
            except BaseException:   # raised by a plugin's function: its sample is left out
                found.pop(values, None)
        order = sorted(range(len(self.labels)), key=self.labels.__getitem__)
        return sorted(found.items(), key=lambda child: [child[0][i] for i in order])

    cdef int read(self, dict found, tuple values, uint32_t cell) except -1:
        """Adds the child at `cell` to found, if it is exposed."""
        cdef uint64_t raw
        cdef list counts
        if self.buckets.count:
            counts = [total(cell + i) for i in range(self.buckets.count + 1)]
            if any(counts) or values in self._zero:
                sum = total(cell + self.buckets.count + 1) / self.scale
                if values in found:
                    before = found[values]
                    counts, sum = [a + b for a, b in zip(counts, before[0])], sum + before[1]
                found[values] = (counts, sum)
            return 0
        raw = total(cell)
        if self.kind == "gauge":
            if values not in self._values:
                found[values] = found.get(values, 0.0) + <int64_t>raw / self.scale
            elif raw:
                found[values] = <int64_t>raw / self.scale
        elif raw or values in self._zero:
            found[values] = found.get(values, 0.0) + raw / self.scale
        return 0

    cdef int read_table(self, dict found, tuple axes, uint32_t first) except -1:
        cdef uint32_t width = metric_width(&self.buckets), count = 1, child, cell, i
        cdef bint used
        lists = [axis if isinstance(axis, tuple) else (axis,) for axis in axes]
        for axis in lists:
            count *= <uint32_t>len(axis)
        for child in range(count):
            cell = first + child * width
            used = False
            for i in range(width):
                if total(cell + i):
                    used = True
                    break
            if not used:
                continue
            rest, values = child, []
            for axis in reversed(lists):
                rest, at = divmod(rest, len(axis))
                values.append(axis[at])
            self.read(found, tuple(reversed(values)), cell)
        return 0


def prepare(uint32_t workers) -> None:
    """Map the rows of this many workers; the server does so at its start. Raises ValueError above 64, OSError."""
    metrics_prepare(workers)


def workers() -> int:
    """The workers whose rows are mapped: those of the process."""
    return mapped_count - 1


def cells() -> int:
    """The number of cells in use."""
    return next_cell


metrics_prepare(0)
