"""A counter as an object. The contract is in telemetry/counter.pxd."""


cdef class Counter:
    """A child of a metric."""

    def __cinit__(self, Metric metric not None, tuple values not None):
        self.metric = metric
        self.values = values
        self.cell = Metric.cell(metric, values)         # not that of a subclass
