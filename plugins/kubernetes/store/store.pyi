"""The store of one cluster's objects."""

from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.telemetry.metrics import Metric

#: Names of the kinds, by their number in _objects.pxd.
KINDS: tuple[str, ...]

#: How late endpoint slices are answered.
latency: Metric

class Store(Sink):
    """Keeps namespaces, services, slices, pods and service imports as records that workers read without locks.

    Fed by one thread at a time through the calls of `Sink`. Memory that is replaced is given back once no worker can read it any more.
    """

    def __init__(self, *, places: bool = False) -> None:
        """``places``: nodes, zones and hints of endpoints and pods are kept, which takes memory."""

    @property
    def synced(self) -> int:
        """Bit ``1 << kind`` for each kind that had a whole list."""

    @property
    def stale(self) -> int:
        """The same bits, for kinds that so far are as an earlier process saw them (snapshot)."""

    @property
    def serials(self) -> tuple[int, int, int]:
        """Unix times of the last relevant change: for ordinary zones, multicluster zones and k8s_external. 0: none yet."""

    def counts(self) -> dict[str, int]:
        """Standing objects by the name of their kind."""

    def memory(self) -> tuple[int, int]:
        """Octets taken from the system, and octets in use."""

    def reclaim(self) -> None:
        """Frees what workers have left. The calls of the sink do so by themselves; for tests."""
