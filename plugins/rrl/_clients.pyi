from fastdns.telemetry.metrics import Metric

class ClientMetric(Metric):
    """A counter by ``client_ip``: of one kind of what was exceeded."""

    def __init__(self, name: str, help: str, counter: int) -> None: ...  # noqa: A002 - as its base has it
    def collect(self) -> list[tuple[tuple[str, ...], float | tuple[list[int], float]]]: ...

class PodMetric(Metric):
    """A counter by pod: of all that was exceeded."""

    def collect(self) -> list[tuple[tuple[str, ...], float | tuple[list[int], float]]]: ...

REQUESTS: ClientMetric
RESPONSES: ClientMetric
PODS: PodMetric
