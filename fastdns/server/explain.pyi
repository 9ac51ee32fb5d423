"""Tracing of one query for ``fastdns explain``: the handlers' hooks that it passes, and their results."""

from typing import NamedTuple

from fastdns._mux import NativeHandler
from fastdns.engine.chains import Chains
from fastdns.engine.engine import Engine

class Step(NamedTuple):
    """The call of a handler's hook."""

    handler: str
    #: ``query`` on the way down, ``reply`` on the way up, ``resume`` after a wait.
    hook: str
    #: ``next``, ``answered``, ``failed``, ``dropped``, ``parked``, ``stream``, ``up`` or ``again``.
    verdict: str
    #: 0 for the query itself, 1 for a child query that a handler started, and so on.
    depth: int
    #: Nanoseconds from the query's begin to the call, and of the call.
    at: int
    took: int
    #: Response code after the call; None when there is neither a reply nor a failure.
    rcode: int | None
    error: str
    #: ``address:port`` of the upstream that the handler asked last, or "".
    upstream: str
    #: What else the handler tells, or "".
    note: str
    #: What it did, in words.
    says: str

class NotAsked(NativeHandler):
    """Passes queries by, and says that the plugin in whose place it stands is not asked in a trial."""

    def tell(self, number: int) -> None:
        """Say what it would be asked instead: `upstream` is this number and the type's, `note` the name, or its last octets."""

class Explained(NamedTuple):
    """``outcome`` is ``reply``, ``dropped``, ``refused`` (no block takes the query), ``transfer`` or ``timeout``."""

    outcome: str
    message: bytes
    zone: str
    steps: list[Step]
    #: Nanoseconds from begin to end; 0 after a timeout.
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
    forgets: bool = False,
) -> Explained:
    """Run one query as if ``client`` had sent it to the listener; its local address is ``local`` and ``port`` (addresses: 4 or 16 octets).

    Waits up to ``seconds`` for the end. Its memory is kept for a minute more, as what it has started may go on; with ``forgets`` until the next one
    ends, where no query of the engine waits any more. The engine must run. ``chains`` are the served ones, or prepared ones that the caller keeps. The
    plugins that log or count queries do not see it. Raises ValueError for a packet that is not a query, an address that is not served, and a configuration
    that was replaced meanwhile.
    """
