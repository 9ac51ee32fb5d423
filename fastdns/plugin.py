"""What a plugin's author imports: see docs/writing-plugins.md."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from fastdns.corefile import CorefileError
from fastdns.index.name_map import BELOW, BOTH, EXACT, NameDraft, NameMap, NameMatch
from fastdns.query import DROP, PASS, Answer, Cluster, Endpoint, Failure, Metadata, Pod, Port, Query, Record, Remembered, Reply, Result, Service, Verdict
from fastdns.setup import Controller
from fastdns.setup.registry import register
from fastdns.setup.traits import Traits
from fastdns.telemetry.counter import Counter
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric as NativeMetric

if TYPE_CHECKING:
    from fastdns.executor.verdicts import Verdicts

__all__ = [
    "BELOW",
    "BOTH",
    "DROP",
    "EXACT",
    "PASS",
    "Answer",
    "Cluster",
    "Controller",
    "CorefileError",
    "Counter",
    "Endpoint",
    "Failure",
    "Log",
    "Metadata",
    "Metric",
    "NameDraft",
    "NameMap",
    "NameMatch",
    "Next",
    "Plugin",
    "Pod",
    "Port",
    "Query",
    "Record",
    "Remembered",
    "Reply",
    "Result",
    "Service",
    "Traits",
    "Verdict",
    "register",
]


class Metric(NativeMetric):
    """A metric of a plugin; what it does is that of `fastdns.telemetry.metrics.Metric`."""

    def cell(self, values: tuple[str, ...], zero: bool = False) -> Counter:  # type: ignore[override]
        """The child with these label values, for `Verdict.remember`; ``zero``: it is exposed before it has counted. Raises ValueError for other labels."""
        super().cell(values, zero)
        return Counter(self, values)


class Next(Protocol):
    """The argument ``next`` of a coroutine ``serve``: ``await next(query)`` has the plugins below answer."""

    def __call__(self, query: Query | None = None, *, name: str | None = None, qtype: int | None = None) -> Awaitable[Answer]:
        """``name`` and ``qtype`` (a number) ask them another question than the query's own. Raises ValueError for what is no name."""


class Plugin:
    """A plugin in Python. Subclass it, define ``serve``, and return an instance from ``setup(controller)``.

    ``def serve(self, query: Query) -> Result`` runs to its end on the plugin's own thread. ``async def serve(self, query: Query, next: Next) -> Result``
    may wait, for the plugins below (``answer = await next(query)``) or for anything else. An exception is SERVFAIL for its query, a line in the log
    and a count.

    A verdict that holds for more queries than this one can be cached, and is then applied without Python:
    ``query.reply(rcode="NXDOMAIN").remember(300, suffix="ads.example.", all_types=True)``; see `Verdict.remember`.
    """

    #: Zones of interest, or names of interest, which `NameMap.replace` may change later; queries for other names pass by without Python. None: all names.
    zones: Sequence[str] | NameMap | None = None

    #: Seconds after which the client gets SERVFAIL. A call that takes longer is a hang, and its thread is left behind.
    deadline: float = 5.0

    #: The most verdicts that are cached, up to 4,194,304; 256 octets each on average and 1 MiB beside. Those not used lately are evicted.
    memory: int = 65_536

    def serve(self, query: Query, *args: Any, **kwargs: Any) -> Result | Awaitable[Result]:
        """Answer a query. A subclass has one of the two signatures above."""
        return PASS

    def forget(self, *, suffix: str | None = None, client: str | None = None) -> int:
        """Withdraw cached verdicts: all, or those that hold for some name at or below ``suffix`` and some client of the prefix ``client``.

        Call it from any thread, for example when a list was read anew. The verdict of a call that is under way is not cached either. Returns how
        many verdicts were withdrawn. It looks at all of them: call it for changes, not for queries. Raises ValueError for what is no name or no
        prefix.
        """
        return sum(verdicts.forget(suffix, client) for verdicts in vars(self).get("_remembered", ()))

    def _attach(self, verdicts: Verdicts) -> None:
        """Of a handler of this plugin."""
        vars(self).setdefault("_remembered", WeakSet()).add(verdicts)

    def close(self) -> None:
        """Called once no query can reach the plugin any more: after a reload that left it out, or before the process ends."""
