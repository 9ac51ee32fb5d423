from collections.abc import Callable

from fastdns._mux import NativeHandler
from fastdns.plugins.transfer import Providers
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.plugins.transfer.notify import Notifier

class TransferHandler(NativeHandler):
    """Lets the peers of a zone have it. ``zones`` gives packed address (None: anybody) and scope of each zone's peers."""

    #: In the order of the chain; none after `close`.
    providers: Providers

    def __init__(self, name: str, zones: dict[str, list[tuple[bytes | None, int]]], number: int, notifier: Notifier) -> None: ...
    def notify(self, zone: str, plugin: str = "file") -> None:
        """Tell the zone's peers that it has changed; returns at once. What fails is logged as a warning of ``plugin``.

        What clients shared of former versions is given to nobody any more.
        """

def open_queue() -> None:
    """Once, before any handler serves. Raises OSError."""

class Job:
    """A transfer that is asked for. Its client gets SERVFAIL when the job ends without an answer.

    One of `prepare`, `encode`, and `find_shared` or `follow` where these say so, answers it; from any thread, once.
    """

    #: Of the handler that was asked, which may have been replaced by now.
    providers: Providers
    zone: bytes
    serial: int | None
    #: Jobs with the same one get the same answer, where their provider tells of each version of the zone.
    key: tuple[int, int, bytes, bytes]

    def find_shared(self) -> bool:
        """Answer with what others got that asked the same since the zone has changed; False: there is nothing."""

    def follow(self, other: Job) -> bool:
        """Answer with what another job with the same key has encoded; False: it has nothing."""

    def prepare(self, find: Callable[[Providers, bytes, int | None], Transfer | None]) -> None:
        """Ask for the records: ``find(providers, zone, serial)``."""

    def encode(self, changes: Callable[[], Transfer | None], whole: Callable[[], Transfer]) -> None:
        """Encode what has changed since the client's version, or the whole zone where that is None, for all who ask the same."""

def serve_jobs(submit: Callable[[Job], object]) -> None:
    """The transfer thread's work, without an end: ``submit`` has the job answered, and must not block."""
