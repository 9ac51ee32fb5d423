"""One query on its way through a configuration, with everything that its handlers say. The worker's hot path knows nothing of this."""

from typing import NamedTuple

from fastdns._mux import NativeHandler
from fastdns.engine.chains import Chains
from fastdns.engine.engine import Engine

class Step(NamedTuple):
    """A hook of a handler that was called."""

    handler: str
    #: ``query`` on the way down, ``reply`` on the way up, ``resume`` after a wait.
    hook: str
    #: ``next``, ``answered``, ``failed``, ``dropped``, ``parked``, ``stream``, ``up`` or ``again``.
    verdict: str
    #: 0, or how deep the question is that a handler asked for this one.
    depth: int
    #: Nanoseconds from the query's begin to the call, and of the call.
    at: int
    took: int
    #: Response code at that point, None without a reply or a failure.
    rcode: int | None
    error: str
    #: ``address:port`` of the server that the handler asked last, or "".
    upstream: str
    #: What else the handler tells, or "".
    note: str
    #: What it did, in words.
    says: str

class NotAsked(NativeHandler):
    """Passes queries by, and says that the plugin in whose place it stands is not asked in a trial."""

class Explained(NamedTuple):
    """``outcome`` is ``reply``, ``dropped``, ``refused`` (no block takes the query), ``transfer`` or ``timeout``."""

    outcome: str
    message: bytes
    zone: str
    steps: list[Step]
    #: Nanoseconds in all.
    took: int

def explain(
    engine: Engine,
    chains: Chains,
    listener: int,
    packet: bytes,
    client: bytes,
    local: bytes,
    port: int,
    tcp: bool = False,
    seconds: float = 12.0,
) -> Explained:
    """Asks one query as if it had come from ``client`` to the listener, at ``local`` (4 or 16 octets each) and ``port``.

    The engine must run; the chains are those it serves, or prepared ones that nobody ends meanwhile. The query is neither logged nor counted by the handlers
    that it passes itself. Raises ValueError for a packet that is no query, an address that is not served, or a configuration that is served no more.
    """
