"""Queries through an engine in process: a worker driven by hand, without sockets between it and who asks."""

from collections.abc import Sequence

from fastdns.engine.engine import Engine
from fastdns.engine.listener import Listener

def compiler() -> str:
    """What has compiled this module, and with it the others: ``gcc 12.2.0``."""

def fix_cluster_hash(seed: int) -> None:
    """Fix the hash of the kubernetes store, before it holds an object; for processes that serve nobody."""

def write_down() -> None:
    """Have callgrind write down what it has counted so far, and begin anew."""

class Replay:
    """The first worker of an engine that was not started. It thinks that it is an hour later, so that no duration depends on the clock."""

    #: Whether callgrind counts the turns from now on.
    counting: bool
    #: Nanoseconds between two batches.
    step: int

    def __init__(self, engine: Engine, listener: Listener, seed: int = 1) -> None:
        """``seed``: of the numbers that nobody could guess otherwise."""
    def serve(self, messages: Sequence[bytes]) -> list[bytes]:
        """Take up one batch (1 to 64 messages) as from a UDP socket bound to all addresses; the replies that leave at once. ValueError."""
    def wake(self, seconds: float = 0) -> list[bytes]:
        """One turn for the other sockets that are ready (of upstreams) and for what threads have posted, waiting for the first; the replies that leave."""
