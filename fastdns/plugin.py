"""What a plugin's author imports: see docs/writing-plugins.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from fastdns.corefile import CorefileError
from fastdns.query import DROP, PASS, Answer, Failure, Query, Record, Remembered, Reply, Verdict
from fastdns.setup import Controller
from fastdns.setup.registry import register
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.executor.verdicts import Verdicts

__all__ = [
    "DROP",
    "PASS",
    "Answer",
    "Controller",
    "CorefileError",
    "Failure",
    "Log",
    "Next",
    "Plugin",
    "Query",
    "Record",
    "Remembered",
    "Reply",
    "Traits",
    "Verdict",
    "register",
]

#: ``await next(query)`` has the plugins below answer; ``name=`` and ``qtype=`` ask them something else.
Next = Callable[..., Awaitable[Answer]]


class Plugin:
    """A plugin in Python. Subclass it, define ``serve``, and return an instance from ``setup(controller)``.

    ``def serve(self, query)`` answers at once; ``async def serve(self, query, next)`` may wait, for the plugins below
    (``answer = await next(query)``) or for anything else. Either returns a `Reply` (``query.reply("A 192.0.2.1")``), a `dnslib`
    record, a message's octets, `PASS` (or None: the plugins below answer), `DROP`, or ``query.fail("REFUSED", "why")``. An exception
    is SERVFAIL for its query, a line in the log and a count.

    What holds for more than this query may be said once for all of them, and is then applied without Python:
    ``query.reply(rcode="NXDOMAIN").remember(300, suffix="ads.example.", all_types=True)``; see `Verdict.remember`.
    """

    #: Zones of interest; queries for other names pass by without Python. None: all names.
    zones: Sequence[str] | None = None

    #: Seconds after which the client gets SERVFAIL.
    deadline: float = 5.0

    #: Verdicts that are remembered at most, up to 4,194,304 and 256 octets each on average (and 1 MiB); beyond, those not used lately go.
    memory: int = 65_536

    def serve(self, query: Query, *below: Any) -> Any:
        """Answer a query."""
        return PASS

    def forget(self, *, suffix: str | None = None, client: str | None = None) -> int:
        """Withdraw what is remembered: everything, or what holds for some name at or below ``suffix`` and some client of a prefix.

        From any thread, as when a list was read anew; what `serve` was thinking of meanwhile is not remembered either. Returns how
        many verdicts went. All of them are looked at, so this is for changes, not for queries. Raises ValueError for what is no name
        or no prefix.
        """
        return sum(verdicts.forget(suffix, client) for verdicts in vars(self).get("_remembered", ()))

    def _attach(self, verdicts: Verdicts) -> None:
        """Of a handler that asks this plugin."""
        vars(self).setdefault("_remembered", WeakSet()).add(verdicts)

    def close(self) -> None:
        """Called once no query can reach the plugin any more: after a reload that left it out, or before the process ends."""
