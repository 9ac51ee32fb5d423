from collections.abc import Iterable

from fastdns._mux import NativeHandler
from fastdns.index.zone import ZoneSet
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.transfer import Transfer
from fastdns.plugins.transfer.name_observer import ZoneObserver

class FileHandler(NativeHandler):
    """Answers from the zones of a set, and gives them away. Names in ``fall`` that are not there go on down the chain."""

    zones: ZoneSet

    def __init__(self, name: str, zones: ZoneSet, fall: Iterable[str] = ()) -> None: ...
    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None:
        """See `fastdns.plugins.transfer.Provider`."""

    def transfer_size(self, zone: bytes, serial: int | None) -> int:
        """See `fastdns.plugins.transfer.Provider`."""

    def name_observer(self, unkept: ZoneList) -> ZoneObserver:
        """Who tells a cache above which names change; ``unkept`` are zones of which it keeps nothing."""
