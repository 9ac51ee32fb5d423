"""Answers of the handlers below a Python plugin."""

import asyncio
from typing import Any

class NextHandlers:
    """The argument ``next`` of ``async def serve(self, query, next)``: see `fastdns.plugin.Next`."""

    def __init__(self, query: Any) -> None: ...
    async def __call__(self, query: Any = None, *, name: str | None = None, qtype: int | None = None) -> Any: ...

def ask_below(query: Any, name: str | None, qtype: int | None) -> asyncio.Future[Any]:
    """A future for what the handlers below answer. Raises RuntimeError for a query that is answered, or below already; ValueError for no name."""

def set_answer(future: asyncio.Future[Any], answer: Any) -> None:
    """Complete the future, unless it was cancelled."""
