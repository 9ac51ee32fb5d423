"""The external zones of a server block."""

from collections.abc import Iterable, Sequence

from fastdns._mux import NativeHandler
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.plugins.kubernetes.name_observer import NameObserver

class ExternalZones(NativeHandler):
    """Zones that show the external addresses of the services in another handler's store.

    ``zones`` have their final dot, in the order of the Corefile; ``apex`` is the name below which each has its name server; ``ttl`` in seconds;
    ``fallthrough`` None means never. Raises ValueError for what is no name, or is too long with what stands in front of the zone.
    """

    def __init__(self, zones: Sequence[str], apex: str, ttl: int, *, headless: bool = False, fallthrough: Iterable[str] | None = None) -> None: ...
    def use(self, kubernetes: Kubernetes) -> None:
        """Take services from this handler. Once, before the chain is published."""
    def name_observer(self, unkept: ZoneList) -> NameObserver | None:
        """Who tells a cache above which names change; None where it keeps nothing of the zones (``unkept``)."""
