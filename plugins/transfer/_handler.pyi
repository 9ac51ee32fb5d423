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

class Job:
    """A transfer that is asked for. Its client gets SERVFAIL when the job ends without `prepare`."""

    handler: int
    zone: bytes
    serial: int | None

    def prepare(self, find: Callable[[int, bytes, int | None], Transfer | None]) -> None:
        """Ask for the records: ``find(handler number, zone, serial)``; from any thread, once."""

def serve_jobs(submit: Callable[[Job], object]) -> None:
    """The transfer thread's work, without an end: ``submit`` has `Job.prepare` called, and must not block."""
