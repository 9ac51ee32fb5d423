"""Requests and replies of the small pages, over TLS or not."""

from __future__ import annotations

from typing import NamedTuple

from fastdns.engine.http.date import date

__all__ = ["TIMEOUT", "Reply", "Request", "parse_head"]

#: Seconds to read a request, to write a reply, and to idle.
TIMEOUT = 5.0

REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error", 503: "Service Unavailable"}
TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """What a page may want to know."""

    method: str
    path: str
    #: By name in lower case.
    fields: dict[str, str]


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
    return Request(method, target.partition("?")[0], fields)
