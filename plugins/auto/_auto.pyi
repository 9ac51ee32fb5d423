from collections.abc import Iterable

from fastdns._mux import NativeHandler
from fastdns.index.zone import ZoneSet
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.transfer import Transfer
from fastdns.plugins.transfer.name_observer import ZoneObserver

class AutoHandler(NativeHandler):
    """Answers names of ``origins`` from the zones that a set has at the time, and gives those away."""

    zones: ZoneSet

    def __init__(self, name: str, zones: ZoneSet, origins: Iterable[str]) -> None: ...
    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None:
        """See `fastdns.plugins.transfer.Provider`."""

    def transfer_size(self, zone: bytes, serial: int | None) -> int:
        """See `fastdns.plugins.transfer.Provider`."""

    def name_observer(self, unkept: ZoneList) -> ZoneObserver:
        """Who tells a cache above which names change; ``unkept`` are zones of which it keeps nothing."""
