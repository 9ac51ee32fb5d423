"""What a plugin's author imports: see docs/writing-plugins.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastdns.corefile import Controller, CorefileError
from fastdns.log import Log
from fastdns.query import DROP, PASS, Answer, Failure, Query, Record, Reply
from fastdns.registry import register

__all__ = ["DROP", "PASS", "Answer", "Controller", "CorefileError", "Failure", "Log", "Next", "Plugin", "Query", "Record", "Reply", "register"]

#: ``await next(query)`` has the plugins below answer; ``name=`` and ``qtype=`` ask them something else.
Next = Callable[..., Awaitable[Answer]]


class Plugin:
    """A plugin in Python. Subclass it, define ``serve``, and return an instance from ``setup(controller)``.

    ``def serve(self, query)`` answers at once; ``async def serve(self, query, next)`` may wait, for the plugins below
    (``answer = await next(query)``) or for anything else. Either returns a `Reply` (``query.reply("A 192.0.2.1")``), a `dnslib`
    record, a message's octets, `PASS` (or None: the plugins below answer), `DROP`, or ``query.fail("REFUSED", "why")``. An exception
    is SERVFAIL for its query, a line in the log and a count.
    """

    #: Zones of interest; queries for other names pass by without Python. None: all names.
    zones: Sequence[str] | None = None

    #: Seconds after which the client gets SERVFAIL.
    deadline: float = 5.0

    def serve(self, query: Query, *below: Any) -> Any:
        """Answer a query."""
        return PASS

    def close(self) -> None:
        """Called once no query can reach the plugin any more: after a reload that left it out, or before the process ends."""
