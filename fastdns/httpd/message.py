"""Requests and replies of the small pages, over TLS or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fastdns.engine.http.date import date

__all__ = ["TIMEOUT", "Later", "Reply", "Request", "parse_head"]

#: Seconds to read a request, to write a reply, and to idle.
TIMEOUT = 5.0

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """What a page may want to know."""

    method: str
    path: str
    #: By name in lower case.
    fields: dict[str, str]
    #: Of the target, behind its question mark, as it was sent.
    query: str = ""


class Reply(NamedTuple):
    """A page's text and how to send it."""

    status: int = 200
    body: bytes = b""
    kind: str = TEXT
    fields: tuple[tuple[str, str], ...] = ()

    def head(self) -> bytes:
        """Status line and fields, without those of the connection and the blank line."""
        lines = [f"HTTP/1.1 {self.status} {REASONS.get(self.status, '')}", f"Date: {date()}", f"Content-Type: {self.kind}"]
        lines += [f"{name}: {value}" for name, value in self.fields]
        return "".join(line + "\r\n" for line in lines).encode("latin-1")


class Later(NamedTuple):
    """In place of a reply that takes time: it is made on a thread of its own, so that other pages do not wait for it."""

    make: Callable[[], Reply]


def parse_head(head: bytes) -> Request:
    """A request from its head, whose first line is known to be well formed."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    if not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    fields = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip().lower()] = value.strip()
    path, _, query = target.partition("?")
    return Request(method, path, fields, query.partition("#")[0])
