"""The workers: threads, sockets, timers, inboxes. One :class:`Engine` a process; the native side is in ``engine/loop.pxd``."""

import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

from fastdns.engine.chains import Chains, ServerSpec

T = TypeVar("T")

class Listener:
    """The sockets of one address: one or more UDP and TCP ones for each worker. Made by :meth:`Engine.bind`."""

    sockets: list[socket.socket]

    def __init__(self, engine: Engine, index: int, generation: int, host: str, port: int, reuse: list[int], count: int) -> None: ...
    def _bound(self, family: int, kind: int, host: str) -> socket.socket: ...
    @property
    def index(self) -> int:
        """Place in the configuration's table of servers; free for another once this one is closed."""
    @property
    def generation(self) -> int:
        """Of all that the engine has made: unlike the place, it is never given twice."""
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def watched(self) -> bool:
        """Whether the workers take queries from it."""
    def filenos(self) -> list[int]:
        """Descriptors in the order in which ``bind(reuse=…)`` takes them."""
    def pause(self) -> None:
        """Take no more queries; replies under way still leave. For good: `close` follows."""
    def close(self) -> None:
        """Close the sockets, once no query can still answer through them."""

class Engine:
    """The workers of this process and the configuration they serve."""

    def __init__(self, workers: int) -> None:
        """ValueError outside of 1 to 64 workers."""
    @property
    def workers(self) -> int: ...
    @property
    def chains(self) -> Chains:
        """What is served now."""
    @property
    def retired(self) -> list[Chains]:
        """Former configurations whose queries are not all answered yet."""
    def bind(self, host: str, port: int, reuse: Sequence[int] = (), sockets: int = 0) -> Listener:
        """Opens the sockets of an address, or takes over descriptors of a former process. OSError.

        There are ``sockets`` of each kind, and never less than workers: one without a socket would have nothing to do.
        """
    def place(self, make: Callable[[int, int], T]) -> T:
        """Gives a place (index, generation) to a listener of another kind, with the methods of `Listener` that the engine calls."""
    def _forget(self, listener: object) -> None: ...
    def prepare(self, servers: list[ServerSpec]) -> Chains:
        """Builds chains that nobody is served by yet; `publish` or `dismiss` follows."""
    def dismiss(self, chains: Chains) -> None:
        """Waits until nothing is left in chains that were prepared and will not be published."""
    def publish(self, servers: list[ServerSpec] | Chains) -> Chains:
        """Has the workers take up chains between two batches, and lets the former ones drain in the background."""
    def start(self) -> None: ...
    def parked(self) -> int:
        """Queries that wait for something now."""
    def drain(self, seconds: float) -> bool:
        """Takes no more queries and waits for those under way; False when some were left."""
    def stop(self) -> None:
        """Ends the worker threads and closes the sockets."""
    def statistics(self) -> dict[str, int]:
        """Sums over the workers: parked, evicted, dropped, send_errors, connections, slots, large_refused."""
