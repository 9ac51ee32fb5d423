from collections.abc import Callable

from fastdns._mux import NativeHandler
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.plugins.transfer.notify import Notifier

class TransferHandler(NativeHandler):
    """Lets the peers of a zone have it. ``zones`` gives packed address (None: anybody) and scope of each zone's peers."""

    def __init__(self, name: str, zones: dict[str, list[tuple[bytes | None, int]]], number: int, notifier: Notifier) -> None: ...
    def notify(self, zone: str, plugin: str = "file") -> None:
        """Tell the zone's peers that it has changed; returns at once. What fails is logged as a warning of ``plugin``."""

def open_queue() -> None:
    """Once, before any handler serves. Raises OSError."""

def serve_jobs(find: Callable[[int, bytes, int | None], Transfer | None]) -> None:
    """The transfer thread's work, without an end: ``find(handler number, zone, serial)`` gives the records."""
