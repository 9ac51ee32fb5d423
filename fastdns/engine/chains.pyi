"""A configuration in native form: zone tables of its servers and chains of its blocks, built beside the one that serves."""

from collections.abc import Sequence
from typing import Protocol

from fastdns._mux import NativeHandler
from fastdns.proxy.policy import ProxyProtocol

class Socketed(Protocol):
    """What of a listener the chains need: :class:`fastdns.engine.listener.Listener` has it."""

    @property
    def index(self) -> int: ...
    @property
    def generation(self) -> int: ...

class ZoneSpec:
    """A zone of a listening address and the block that answers for it."""

    zone: str
    handlers: Sequence[NativeHandler]
    filters: Sequence[NativeHandler]
    view: str

    def __init__(self, zone: str, handlers: Sequence[NativeHandler], filters: Sequence[NativeHandler] = (), view: str = "") -> None: ...

class ServerSpec:
    """A listening address, its sockets and its zones in Corefile order; times in seconds."""

    address: str
    listeners: Sequence[Socketed]
    zones: Sequence[ZoneSpec]
    debug: bool
    """Whether tracebacks of Python plugins are logged, and none of their exceptions counts as survived."""
    stacktrace: bool
    """Whether tracebacks of Python plugins are logged."""
    """Whether a block has a plugin for other classes than IN."""
    read_timeout: float
    write_timeout: float
    idle_timeout: float
    max_tcp_queries: int
    """Of a connection; 0 for no limit."""
    latency: int
    """Nanoseconds that a worker may gather UDP queries for; 0 for not at all."""
    proxy: ProxyProtocol | None
    """What is done with PROXY headers; None: they are not looked for."""

    def __init__(
        self,
        address: str,
        listeners: Sequence[Socketed],
        zones: Sequence[ZoneSpec],
        debug: bool = False,
        stacktrace: bool = False,
        read_timeout: float = 3.0,
        write_timeout: float = 5.0,
        idle_timeout: float = 10.0,
        max_tcp_queries: int = 0,
        latency: int = 0,
        proxy: ProxyProtocol | None = None,
    ) -> None: ...

class Chains:
    """One configuration in native form: the zone tables of its servers and the chains of its blocks."""

    def __init__(self, servers: Sequence[ServerSpec]) -> None: ...
    @property
    def handlers(self) -> list[NativeHandler]: ...
    @property
    def listeners(self) -> list[Socketed]: ...
    @property
    def proxies(self) -> dict[str, ProxyProtocol]:
        """Of servers that have one, by address."""
    def replies(self) -> dict[int | str, int]:
        """What clients got while there were two configurations, of which this was one: by rcode, ``others`` from 30 on, ``dropped`` without a reply.

        They go on from one canary to the next.
        """
    def clients(self, rcode: int | str) -> list[tuple[int, int, bool, int, int]]:
        """Of each client and worker since the last canary began, as far as the tables have it: network, client, whether its address is proven, answers
        with the rcode or ``dropped``, all answers."""
