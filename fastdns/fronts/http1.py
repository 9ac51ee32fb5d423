"""DNS over HTTP/1.1 (RFC 9112): one request after the other. What is whole and says nothing unusual is read here, everything else by h11."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import h11

from fastdns.fronts.response import BODY_MAX, HEAD_MAX, HEAD_WITH_TARGET_MAX, Response, date

if TYPE_CHECKING:
    from fastdns.fronts.http_connection import HttpConnection

__all__ = ["Http1"]

REASONS = {
    200: b"OK", 400: b"Bad Request", 404: b"Not Found", 431: b"Request Header Fields Too Large", 500: b"Internal Server Error", 501: b"Not Implemented",
    505: b"HTTP Version Not Supported"
}  # fmt: skip


#: A request's head, of nothing but signs that are allowed, with its first line's parts and its fields.
PLAIN = re.compile(rb"(GET|POST) ([!-~]+) HTTP/1\.1\r\n((?:[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t -~]*\r\n)+)\r\n")
#: Fields by which a request may mean something that is not plain.
UNUSUAL = frozenset((b"connection", b"expect", b"te", b"trailer", b"transfer-encoding", b"upgrade"))


def plain_request(octets: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Method, target and body, where the octets are one whole request with one host and at most one length."""
    found = PLAIN.match(octets)
    if found is None:
        return None
    method, target, block = found.groups()
    lines = block.split(b"\r\n")
    if len(block) + 32 * len(lines) > HEAD_MAX:
        return None
    hosts = 0
    length = None
    for line in lines[:-1]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in UNUSUAL:
            return None
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            value = value.strip(b" \t")
            if length is not None or not value.isdigit() or len(value) > 5:
                return None
            length = int(value)
    body = octets[found.end() :]
    return (method, target, body) if hosts == 1 and len(body) == (length or 0) else None


class Http1:
    """The requests of one connection."""

    def __init__(self, connection: HttpConnection) -> None:
        self.connection = connection
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_WITH_TARGET_MAX)
        self.request: h11.Request | None = None
        self.body: bytearray | None = bytearray()
        self.under_way: asyncio.Future[bytes | None] | None = None
        self.working = False
        self.last = False
        #: The request that is under way has not been h11's.
        self.plain = False
        #: Nothing of the next request has come.
        self.fresh = True
        #: Octets that came while a request was under way.
        self.queued = 0
        settings = connection.front.settings
        connection.wait(max(0.0, connection.began + settings.read_timeout - connection.front.loop.time()))

    def receive(self, data: bytes) -> None:
        if self.fresh:
            self.fresh = False
            found = plain_request(data) if not self.last and not self.connection.blocked else None
            if found is not None:
                self.plain = True
                self._ask_front(*found)
                return
            if self.connection.asked:  # the first request has had its time since the client came
                self.connection.wait(self.connection.front.settings.read_timeout)
        if self.working:
            self.queued += len(data)
            if self.queued > HEAD_MAX:
                self.connection.transport.pause_reading()
        self.http.receive_data(data)
        self.go_on()

    def go_on(self) -> None:
        """Takes up what was received, up to a request that is not answered yet."""
        while not self.working and not self.connection.closing and not self.connection.blocked:
            try:
                event = self.http.next_event()
            except h11.RemoteProtocolError as reason:
                self._fail(reason.error_status_hint)
                return
            if event is h11.NEED_DATA:
                if self.http.they_are_waiting_for_100_continue:
                    self._write(self.http.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")))
                    continue
                if self.last and self.request is None:
                    self.connection.close()
                return
            if isinstance(event, h11.Request):
                self.request = event
                self.body = bytearray()
                if not event.http_version.startswith(b"1."):
                    self._fail(505)
                    return
                if sum(len(name) + len(value) + 32 for name, value in event.headers) > HEAD_MAX:
                    self._respond(self.connection.front.refuse_head(), last=True)
            elif isinstance(event, h11.Data):
                if self.body is not None:
                    self.body += event.data
                    if len(self.body) > BODY_MAX:
                        self.body = None
                        self._ask(last=True)
            elif isinstance(event, h11.EndOfMessage):
                self._ask()
            else:  # the client has closed, or the last response was the last
                self.connection.close()
                return

    def _ask(self, last: bool = False) -> None:
        assert self.request is not None  # noqa: S101
        self.last |= last
        self._ask_front(self.request.method, self.request.target, None if self.body is None else bytes(self.body))

    def _ask_front(self, method: bytes, target: bytes, body: bytes | None) -> None:
        self.working = True
        connection = self.connection
        connection.wait(None)
        self.under_way = connection.front.answer(connection.client, connection.local, method.decode("latin-1"), target.decode("latin-1"), body, self._respond)

    def _respond(self, response: Response, last: bool = False) -> None:
        self.under_way = None
        connection = self.connection
        if connection.closing:
            return
        self.last |= last
        method = self.request.method if self.request is not None else b""
        fields = [("date", date()), *response.fields]
        if self.last or connection.ended:
            fields.append(("connection", "close"))
        if self.plain:
            octets = b"HTTP/1.1 %d %s\r\n" % (response.status, REASONS.get(response.status, b""))
            octets += b"".join([b"%s: %s\r\n" % (name.encode("ascii"), value.encode("latin-1")) for name, value in fields]) + b"\r\n" + response.body
        else:
            octets = self.http.send(h11.Response(status_code=response.status, headers=fields, reason=REASONS.get(response.status, b""))) or b""
            if method != b"HEAD":
                octets += self.http.send(h11.Data(data=response.body)) or b""
            octets += self.http.send(h11.EndOfMessage()) or b""
        self._write(octets)
        self.working = False
        self.request = None
        if not self.plain:
            self.last |= self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE
        if self.last or connection.ended:
            connection.close()
            return
        if not self.plain:
            self.http.start_next_cycle()
        self.plain = False
        connection.asked = True
        if self.queued > HEAD_MAX and not connection.blocked:
            connection.transport.resume_reading()
        self.queued = 0
        self.fresh = not self.http.trailing_data[0]
        if not connection.blocked:
            connection.wait(connection.front.settings.idle_timeout if self.fresh else connection.front.settings.read_timeout)
        if not self.fresh:
            connection.front.loop.call_soon(self.go_on)

    def _fail(self, status: int) -> None:
        """What came is no HTTP: the last that is said."""
        if self.http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = self.connection.front.refuse_head() if status == 431 else _refusal(status)
            self._respond(response, last=True)
        self.connection.close()

    def _write(self, octets: bytes | None) -> None:
        if octets and not self.connection.closing:
            self.connection.transport.write(octets)

    def finish(self) -> None:
        self.last = True
        if not self.working and (self.request is None or self.connection.ended):
            self.connection.close()

    def lose(self) -> None:
        if self.under_way is not None:
            self.under_way.cancel()

    def time_is_up(self) -> None:
        self.connection.close()


def _refusal(status: int) -> Response:
    body = b"%d %s" % (status, REASONS.get(status, b"Bad Request"))
    return Response(status, (("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(body)))), body)
