"""Responses of DNS over HTTPS, and the bounds of its requests."""

from __future__ import annotations

from email.utils import formatdate
from time import time
from typing import NamedTuple

__all__ = ["BODY_MAX", "ENCODED_MAX", "HEAD_MAX", "HEAD_TOO_LARGE", "HEAD_WITH_TARGET_MAX", "INVALID", "NOT_FOUND", "NO_RESPONSE", "Response", "date", "error"]

#: Octets of a POST's body, and of a GET's message before it was encoded.
BODY_MAX = 65536
ENCODED_MAX = (BODY_MAX * 8 + 5) // 6
#: Octets of a request's fields, its target aside.
HEAD_MAX = 16384
#: The same with a target in which a whole message is encoded.
HEAD_WITH_TARGET_MAX = HEAD_MAX + ENCODED_MAX


class Response(NamedTuple):
    """Status, fields without date, body, and fields behind it (HTTP/2)."""

    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes
    trailers: tuple[tuple[str, str], ...] = ()


def error(status: int, text: str) -> Response:
    body = text.encode() + b"\n"
    fields = (("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff"), ("content-length", str(len(body))))
    return Response(status, fields, body)


NOT_FOUND = error(404, "")
INVALID = error(400, "invalid request")
NO_RESPONSE = error(500, "No response")
HEAD_TOO_LARGE = error(431, "Request Header Fields Too Large")


_date = (0, "")


def date() -> str:
    """The field `date` (RFC 9110 6.6.1)."""
    global _date
    now = int(time())
    if _date[0] != now:
        _date = (now, formatdate(now, usegmt=True))
    return _date[1]
