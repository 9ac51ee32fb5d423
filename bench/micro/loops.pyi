"""Native loops for the micro-benchmarks: a method repeats one function of the engine ``times`` over all that its object holds, without the GIL."""

from collections.abc import Sequence

from fastdns._mux import NativeHandler
from fastdns.engine.engine import Engine
from fastdns.engine.listener import Listener
from fastdns.index.index import Index

def yardstick(times: int) -> int:
    """Multiplications that wait for one another: what the processor's clock makes faster or slower."""

class Walk:
    """``count`` places of four octets in memory, each naming the next: what caches make faster, and those who share them slower. ValueError below two."""

    def __init__(self, count: int) -> None: ...
    def steps(self, times: int) -> int:
        """Go from place to place; the last one."""

class Passing(NativeHandler):
    """Passes queries on and replies up."""

class Answering(NativeHandler):
    """Answers every query with no records."""

class Packets:
    """Messages of up to 512 octets; ValueError for longer ones, and for none."""

    def __init__(self, messages: Sequence[bytes]) -> None: ...
    def accept(self, times: int) -> int:
        """Parse each; how many are accepted."""

class Names:
    """Names, given in wire form; ValueError for what is none, and for none."""

    def __init__(self, wires: Sequence[bytes]) -> None: ...
    def index(self, times: int) -> int:
        """Find labels, lower case and suffix hashes of each; the labels of all."""

class Question:
    """A query to the first worker of an engine that was not started. ValueError for what the server does not accept."""

    def __init__(self, engine: Engine, listener: Listener, packet: bytes) -> None: ...
    def match(self, names: Names, times: int) -> int:
        """Find the zone of each name; how many have one."""
    def walk(self, times: int) -> int:
        """Take the parsed query through mux, chain and fit; how often a chain took it."""

class Finisher:
    """One reply to one UDP query, made a message. ValueError when either is none."""

    def __init__(self, query: bytes, message: bytes) -> None: ...
    def finish(self, times: int) -> bytes:
        """Fit and write; the message, empty when nothing can be sent."""

class CacheStore:
    """The store of a cache, all of whose entries hold the same reply, given as a message. ValueError when it is none."""

    def __init__(self, capacity: int, message: bytes) -> None: ...
    def put(self, names: Names, times: int) -> int:
        """Store the reply under each name; how often it was."""
    def find(self, names: Names, times: int) -> int:
        """Look each name up; the hits."""

class Reader:
    """Looks names (wire form) up in turn, in batches as a worker does, with the epoch slot of `worker`.

    ``checked``: every A record found must hold four octets and their complement; `torn` counts those that do not, and `mixed` those whose octets differ
    from the record found before in the same batch, that is, in the same version of the index.
    """

    lookups: int
    hits: int
    torn: int
    mixed: int

    def __init__(self, index: Index, names: Sequence[bytes], worker: int = 0, checked: bool = False) -> None: ...
    def run(self, most: int = 0, qtype: int = 1) -> None:
        """Until `most` look-ups are done (0: no limit) or `stop` is called."""

    def stop(self) -> None:
        """End `run`, from another thread."""

class NumberBox:
    """A mailbox (``system/mailbox.pxd``) whose items are a producer and a number. OSError."""

    @property
    def wake(self) -> int:
        """The eventfd."""
    def post(self, producer: int, count: int) -> None:
        """Post the numbers below ``count``, without the GIL."""
    def wait(self) -> list[tuple[int, int]]:
        """Sleep until there are items, without the GIL, and take them: (producer, number)."""
    def collect(self) -> list[tuple[int, int]]:
        """What an event loop does when ``wake`` is readable."""
    def end_sleep(self) -> None:
        """From now on the consumer counts as awake."""
