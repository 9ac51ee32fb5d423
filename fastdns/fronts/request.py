"""What a request of DNS over HTTP asks, and what its reply looks like, in any version of HTTP. RFC 8484."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

from fastdns.fronts.front import Front
from fastdns.fronts.response import ENCODED_MAX, HEAD_TOO_LARGE, INVALID, NO_RESPONSE, NOT_FOUND, Response
from fastdns.message.typify import max_age
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["HttpFront", "is_for_us", "request_message"]

log = Log()

PATH = "/dns-query"
MEDIA_TYPE = "application/dns-message"
MESSAGE_MAX = 65535
ENCODED = re.compile(r"[A-Za-z0-9_-]*")


def request_message(method: str, target: str, body: bytes | None) -> bytes:
    """The DNS message of a request for `PATH`; ``body`` None: it was too large. Raises ValueError."""
    if method == "POST":
        if body is None:
            raise ValueError("http: request body too large")
        return body[:MESSAGE_MAX]
    if method != "GET":
        raise ValueError(f"method not allowed: {method}")
    try:
        values = parse_qs(split(target)[1], keep_blank_values=True, max_num_fields=100).get("dns", [])
    except ValueError:
        raise ValueError("too many query parameters") from None
    if not values:
        raise ValueError("no 'dns' query parameter found")
    if len(values) != 1:
        raise ValueError("multiple 'dns' query values found")
    text = values[0]
    if len(text) > ENCODED_MAX:
        raise ValueError("dns query too large")
    text = text.replace("\r", "").replace("\n", "")
    if not ENCODED.fullmatch(text) or len(text) % 4 == 1:
        raise ValueError("illegal base64 data")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:MESSAGE_MAX]


def is_for_us(target: str) -> bool:
    """Whether a request's target is the one path that there is, with or without a query."""
    if target == PATH:
        return True
    return unquote(split(target)[0]) == PATH


def split(target: str) -> tuple[str, str]:
    """Path and query of a request's target, be it absolute (RFC 9112 3.2.2). There are no fragments: ``#`` is a sign like others."""
    if not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, query = target.partition("?")
    return path, query


class HttpFront(Front):
    """The front end of a version of HTTP."""

    #: Of its transport in the log.
    title: ClassVar[str]
    #: Responses by address and HTTP status.
    responses: ClassVar[Metric]

    def answer(
        self, client: tuple[Any, ...], local: tuple[Any, ...], method: str, target: str, body: bytes | None, respond: Callable[[Response], None]
    ) -> asyncio.Future[bytes | None] | None:
        """What a request gets goes to ``respond``, at once or later; then the future is returned, to be cancelled when the client goes."""

        def give(response: Response) -> None:
            self.count(response)
            respond(response)

        if not is_for_us(target):
            give(NOT_FOUND)
            return None
        try:
            message = request_message(method, target, body)
        except ValueError as reason:
            log.debug(f"{self.title} request could not be parsed: {reason}")
            give(INVALID)
            return None
        future = self.gate.ask(message, client, local)

        def done(replied: asyncio.Future[bytes | None]) -> None:
            if not replied.cancelled():
                give(self._response(replied))

        future.add_done_callback(done)
        return future

    def refuse_head(self) -> Response:
        """For a head that is too large."""
        self.count(HEAD_TOO_LARGE)
        return HEAD_TOO_LARGE

    def count(self, response: Response) -> None:
        """One more has been given."""
        self.responses.add((self.settings.address, str(response.status)))

    def _response(self, replied: asyncio.Future[bytes | None]) -> Response:
        if (failure := replied.exception()) is not None:
            log.debug(f"{self.title} request could not be parsed: {failure}")
            return INVALID
        reply = replied.result()
        if reply is None:
            return NO_RESPONSE
        return Response(200, (("content-type", MEDIA_TYPE), ("cache-control", f"max-age={max_age(reply)}"), ("content-length", str(len(reply)))), reply)
