from collections.abc import Iterable

from fastdns._mux import NativeHandler
from fastdns.index.zone import ZoneSet
from fastdns.plugins.transfer import Transfer

class FileHandler(NativeHandler):
    """Answers from the zones of a set, and gives them away. Names in ``fall`` that are not there go on down the chain."""

    zones: ZoneSet

    def __init__(self, name: str, zones: ZoneSet, fall: Iterable[str] = ()) -> None: ...
    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None:
        """See `fastdns.plugins.transfer.Provider`."""

    def transfer_size(self, zone: bytes, serial: int | None) -> int:
        """See `fastdns.plugins.transfer.Provider`."""
