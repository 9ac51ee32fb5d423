"""A counter as an object: see telemetry/counter.pxd."""

from fastdns.telemetry.metrics import Metric

class Counter:
    """A child of a metric. TypeError where ``metric`` is no `Metric`, ValueError where it has other labels."""

    metric: Metric
    values: tuple[str, ...]
    def __init__(self, metric: Metric, values: tuple[str, ...]) -> None: ...
