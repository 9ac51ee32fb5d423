"""Which names change with a cluster's objects."""

from fastdns.index.zone_list import ZoneList
from fastdns.plugins.cache._contents import SharedContents
from fastdns.plugins.kubernetes._handler import ViewHandler
from fastdns.plugins.kubernetes.store.store import Store

class NameObserver:
    """Tells a cache of the names that change with a store's objects.

    Names are the labels of a service, or of a namespace, with each of the endings: world (0 Services, 1 ServiceImports) and text. ``cuts`` are
    zones and the number of labels in front of them with which a subtree begins. ``reverse``: reverse names of addresses change, too.
    Raises MemoryError, and ValueError for what is no name.
    """

    cuts: list[tuple[str, int]]

    def __init__(
        self, store: Store, services: list[tuple[int, str]], namespaces: list[tuple[int, str]], cuts: list[tuple[str, int]], reverse: bool
    ) -> None: ...
    def zones(self) -> list[str]:
        """Zones that hold the names that it tells of."""

    def begin(self, contents: SharedContents) -> None:
        """From now on. The contents have subtrees by the cuts."""

    def end(self) -> None:
        """No more; without effect where it has not begun."""

def of_cluster(handler: ViewHandler, unkept: ZoneList) -> NameObserver | None:
    """For the zones of a view; None where the cache keeps nothing of them (``unkept``)."""
