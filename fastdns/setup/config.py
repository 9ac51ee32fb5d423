"""The configuration of one server block, which the set-ups of its directives fill, and the hooks of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fastdns.corefile.zone import ZoneAddress

if TYPE_CHECKING:
    from fastdns._mux import NativeHandler
    from fastdns.walk.metadata import LabelHandle

__all__ = ["Config", "Hooks", "ProxySettings"]

#: Called without arguments; an exception is a failure.
Hook = Callable[[], object]


class ProxySettings:
    """What a server does with PROXY headers, from `proxyproto`."""

    __slots__ = ("default", "networks", "session_lifetime", "sessions", "tlvs")

    def __init__(self) -> None:
        #: Senders whose headers are used: octets and length of a prefix.
        self.networks: list[tuple[bytes, int]] = []
        #: What is done with the headers of others: use, ignore, reject or skip; "": ignore, or use if there are no networks.
        self.default = ""
        #: ns that a header of UDP counts for later datagrams of its sender; 0 or less: for none.
        self.session_lifetime = 0
        #: The most sessions of that kind; 0: the server's default.
        self.sessions = 0
        #: Whether queries have the TLVs of the headers that are used.
        self.tlvs = False


class Config:
    """The configuration of one server block; all its keys share it."""

    def __init__(self, addresses: list[ZoneAddress]) -> None:
        #: Zones and addresses that the block serves, in the order of its keys.
        self.addresses = addresses
        #: File and line of the first of them; "" and 0 where they are unknown.
        self.place: tuple[str, int] = ("", 0)
        #: The file of ``import … skip_broken`` that the block is of; "" for none.
        self.origin = ""
        #: The same of each directive of the block.
        self.origins: dict[str, str] = {}
        #: The block's directives, in the order of the chain.
        self.directives: list[str] = []
        first = addresses[0]
        self.zone = first.zone
        self.port = first.port
        self.transport = first.transport
        #: Bound addresses; one empty text means all.
        self.listen_hosts: list[str] = [""]
        #: Base of relative paths, from the directive `root`.
        self.root = ""
        #: Crash on errors and log more, from the directive `debug`.
        self.debug = False
        #: Log the traceback of errors, from `errors { stacktrace }`.
        self.stacktrace = False
        #: Seconds, from `timeouts`; None leaves the server's default.
        self.read_timeout: float | None = None
        self.write_timeout: float | None = None
        self.idle_timeout: float | None = None
        #: Queries that one TCP connection may ask; None: no limit.
        self.max_tcp_queries: int | None = None
        #: Sockets of each kind for each address, from `multisocket`; None: one for each worker.
        self.sockets: int | None = None
        #: Nanoseconds that a worker may gather UDP queries for, from `latency`; None: not at all.
        self.latency: int | None = None
        #: What is done with PROXY headers, from `proxyproto`; None: they are not looked for.
        self.proxy: ProxySettings | None = None
        #: Context of the encrypted transports, from `tls`.
        self.tls: Any = None
        #: Name of the view, from `view`; "" for none.
        self.view = ""
        #: Conditions: unless all are true for a query, the next block of the same zone is tried.
        self.filters: list[Any] = []
        #: The chain, outermost first.
        self.handlers: list[NativeHandler] = []
        #: Handler by directive. Complete once every directive is set up: look others up in a start-up hook.
        self.registry: dict[str, NativeHandler] = {}
        #: Values that plugins share within the block; each plugin chooses its keys.
        self.values: dict[str, Any] = {}
        #: Functions of `Controller.on_complete`, with their directives.
        self.checks: list[tuple[str, Hook]] = []
        #: What is valid and probably a mistake: file, line, text and hint; see `Controller.suspect`.
        self.suspicions: list[tuple[str, int, str, str]] = []
        #: Labels of the servers that serve the block, such as ``dns://:53``; set before the start-up hooks.
        self.servers: list[str] = []
        #: Whether a plugin of the block takes over what its predecessor has.
        self.compares_files = False
        #: If so, digests of the local files that the block's plugins read, by path, from before they were read; see `Controller.reads`.
        self.files: dict[str, bytes] = {}
        #: Of the block's keys, directives and files; "" if they are not compared, or it has plugins that do not say what they read.
        self.identity = ""
        #: During the start-up hooks of a reload: the configuration of the same block that still serves, if its identity is the same.
        self.predecessor: Config | None = None

    def add_handler(self, handler: NativeHandler) -> None:
        """Append a handler to the chain. Set-ups run in chain order, so the chain is in order too."""
        self.handlers.append(handler)
        self.registry[handler.name] = handler

    def add_handler_before(self, directive: str, handler: NativeHandler) -> None:
        """Put a handler in front of that of another directive; `add_handler` where the block has none."""
        place = next((index for index, other in enumerate(self.handlers) if other.name == directive), len(self.handlers))
        self.handlers.insert(place, handler)
        self.registry[handler.name] = handler

    def add_filter(self, handler: Any) -> None:
        """A condition for the block to be used at all."""
        self.filters.append(handler)

    def client_label(self, name: str) -> LabelHandle | None:
        """Where ``client-namespace``, ``client-pod-name``, ``client-node-name`` or ``client-label/KEY`` of the pod that asks is read.

        None if no plugin of the block knows it.
        """
        published = (publish(name) for publish in (getattr(other, "client_label", None) for other in self.handlers) if publish is not None)
        return next((label for label in published if label is not None), None)

    def ready_checks(self) -> dict[str, Callable[[], bool]]:
        """By its name, the method ``ready`` of each handler that has one, or whose ``plugin`` has one."""
        found = {handler.name: getattr(handler, "ready", None) or getattr(handler.plugin, "ready", None) for handler in self.handlers}
        return {name: check for name, check in found.items() if callable(check)}

    def handler(self, name: str) -> NativeHandler | None:
        """The block's handler of a directive, or None."""
        return self.registry.get(name)


class Hooks:
    """Functions that plugins registered for the life of a configuration, each list in the order of set-up."""

    __slots__ = (
        "final_seconds",
        "final_shutdown",
        "first_startup",
        "has_started",
        "inspection",
        "restart",
        "restart_failed",
        "shutdown",
        "started",
        "startup",
        "upgrade",
        "whole",
    )

    def __init__(self, parts: Iterable[Hooks] = ()) -> None:
        """The hooks of ``parts``, concatenated."""
        parts = list(parts)

        def gathered(kind: str) -> list[Hook]:
            return [hook for part in parts for hook in getattr(part, kind)]

        self.inspection = gathered("inspection")
        self.first_startup = gathered("first_startup")
        self.startup = gathered("startup")
        self.started = gathered("started")
        #: Those of them that wait until a canary is promoted.
        self.whole = gathered("whole")
        self.restart = gathered("restart")
        self.restart_failed = gathered("restart_failed")
        self.shutdown = gathered("shutdown")
        self.final_shutdown = gathered("final_shutdown")
        self.upgrade = gathered("upgrade")
        #: Seconds that the functions of final_shutdown take together.
        self.final_seconds: float = sum(part.final_seconds for part in parts)
        #: A start-up hook has run, so there is something to undo.
        self.has_started = False
