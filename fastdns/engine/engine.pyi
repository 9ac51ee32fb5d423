"""The engine: one a process. The native side is in ``engine/engine.pxd``."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from fastdns.engine.chains import Chains, ServerSpec
from fastdns.engine.listener import Listener
from fastdns.engine.loop import Workers
from fastdns.engine.service import Service

T = TypeVar("T")
#: Index and generation of a listener.
Place = tuple[int, int]

class Engine:
    """The workers of this process and the configuration they serve."""

    def __init__(self, workers: int) -> None:
        """ValueError outside of 1 to 64 workers."""
    @property
    def workers(self) -> int: ...
    @property
    def threads(self) -> Workers:
        """The worker threads, which live as long as the process."""
    @property
    def chains(self) -> Chains:
        """What is served now."""
    @property
    def retired(self) -> list[Chains]:
        """Former configurations whose queries are not all answered yet."""
    def bind(
        self, host: str, port: int, reuse: Sequence[int] = (), sockets: int = 0, service: Service | None = None, reserved: Place | None = None
    ) -> Listener:
        """Opens the sockets of an address, or takes over descriptors of a former process: of UDP and TCP, with a service of TCP alone. OSError.

        There are ``sockets`` of each kind, and never less than workers: one without a socket would have nothing to do.
        """
    def reserve(self) -> Place:
        """A place for a listener that is opened later; `_forget` gives it back."""
    def place(self, make: Callable[[int, int], T], reserved: Place | None = None) -> T:
        """Gives a place (index, generation) to a listener of another kind, with the methods of `Listener` that the engine calls."""
    def _forget(self, listener: object) -> None: ...
    def prepare(self, servers: list[ServerSpec]) -> Chains:
        """Builds chains without serving them yet; `publish` or `dismiss` follows."""
    def dismiss(self, chains: Chains) -> None:
        """Waits until nothing is left in chains that were prepared and will not be published."""
    def publish(self, servers: list[ServerSpec] | Chains) -> Chains:
        """Switches the workers to chains between two batches. The former ones drain in the background.

        What it raises leaves everything as it was: OSError of a socket, RuntimeError where no thread can be started.
        """
    def begin_canary(self, chains: Chains, share: float, key: bytes) -> None:
        """Gives chains that were prepared to a share of the clients (between 0 and 1): those whose address, hashed with a key of 16 octets, is among it.

        `publish` gives them to all, `end_canary` to none. Addresses that the serving chains do not have are not served yet. ValueError while there is
        a canary.
        """
    def end_canary(self) -> None:
        """Takes the canary back from its clients, who get what all others get from their next query on; it drains in the background."""
    @property
    def canary(self) -> Chains | None:
        """What a share of the clients gets; None: nothing else than the others."""
    def when_retired(self, function: Callable[[], object]) -> None:
        """Calls a function, on some thread, once no query is in any of the configurations that were replaced so far."""
    def start(self) -> None: ...
    def parked(self) -> int:
        """Queries that wait for something now."""
    def drain(self, seconds: float, meanwhile: Callable[[], None] | None = None) -> bool:
        """Takes no more queries from the sockets, calls ``meanwhile``, and waits for those under way; False when some were left."""
    def stop(self) -> None:
        """Ends the worker threads and closes the sockets."""
    def statistics(self) -> dict[str, int]:
        """Sums over the workers: parked, evicted, dropped, send_errors, connections, slots, large_refused, slots_most, connections_most."""
