"""The native side of a run: one thread that sends, receives, checks and counts."""

from collections.abc import Sequence
from typing import Any

from fastdns.bench.generator.queries import QuerySet

class Generator:
    """One thread's share of a run.

    ``address`` is a ``sockaddr`` of ``family``; ``pieces`` are rates of the whole run in queries per second with their lengths in seconds;
    ``window`` is that of one client, 0 for an open loop; ``head`` precedes the content's length in each request of HTTP. MemoryError when there is none.
    """

    #: Seconds of CPU that the thread used.
    cpu_seconds: float
    #: Queries of the warm-up, which nothing else counts.
    warmed: int
    #: Replies that the sockets had no room for, when they are closed.
    dropped: int

    def __init__(
        self,
        queries: QuerySet,
        *,
        transport: str,
        family: int,
        address: bytes,
        pieces: Sequence[tuple[float, float]],
        clients: int,
        window: int,
        timeout: float,
        check: str,
        random: bool,
        seed: int,
        thread: int,
        threads: int,
        server_name: bytes = b"",
        head: bytes = b"",
    ) -> None: ...
    def open(self, timeout: float) -> None:
        """Opens sockets, and waits up to `timeout` seconds for connections. OSError when there is none."""

    def run(self, start: int, warm: float) -> None:
        """Sends from `start` (ns, monotonic) on, counts from `warm` seconds later, without the GIL; returns when everything is answered or given up."""

    def prepare(self, start: int, warm: float) -> None:
        """In place of `run`, for transport "doq", whose queries Python carries: then `go_on` again and again, and `finish`."""

    def go_on(self) -> float | None:
        """Makes the queries that are due; seconds until there is more to do, replies aside. None: all is answered or given up."""

    def allow(self, number: int, capacity: int) -> None:
        """A client is connected and takes so many queries more."""

    def taken_from(self, number: int) -> list[tuple[int, int, bytes]]:
        """Queries for a client to send: slot and due, which name the query, and the message with id 0."""

    def complete(self, number: int, slot: int, due: int, message: bytes | None) -> None:
        """The reply to one, to be checked; None: there will be none."""

    def give_up(self, number: int) -> None:
        """A client's connection has ended; what is under way is lost, and there is no room until `allow` is called."""

    def finish(self) -> None: ...
    def stop(self) -> None:
        """Ends `run` soon, from another thread; what is under way is neither answered nor lost."""

    def close(self) -> None: ...
    def take(self) -> dict[str, Any] | None:
        """The oldest interval that is over and was not taken yet."""
