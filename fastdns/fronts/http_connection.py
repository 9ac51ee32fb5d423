"""A client's connection on which HTTP/1.1 or HTTP/2 is spoken."""

from __future__ import annotations

import asyncio
from typing import Protocol

from fastdns.fronts.request import HttpFront
from fastdns.fronts.stream import Connection, StreamFront

__all__ = ["HttpConnection", "HttpStreamFront"]


class HttpStreamFront(HttpFront, StreamFront):
    """The front end of HTTP over TCP."""


class HttpVersion(Protocol):
    """The requests of a connection in one version of HTTP."""

    def receive(self, data: bytes) -> None:
        """Octets from the client."""

    def go_on(self) -> None:
        """The client takes replies again."""

    def finish(self) -> None:
        """No more requests: the connection is closed once what was asked has been answered."""

    def lose(self) -> None:
        """The connection is gone."""

    def time_is_up(self) -> None:
        """What the connection waited for has not come in time."""


class HttpConnection(Connection):
    """A client's connection: what its version of HTTP reads and writes, and the time that it may take."""

    front: HttpStreamFront
    http: HttpVersion

    def __init__(self, front: HttpStreamFront) -> None:
        super().__init__(front)
        self.began = front.loop.time()
        self.blocked = False
        self.closing = False
        self.ended = False
        #: A request has been answered.
        self.asked = False
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if not self.closing:
            self.http.receive(data)

    def eof_received(self) -> bool:
        self.ended = True
        self.http.finish()
        return self.transport.get_extra_info("ssl_object") is None  # what was asked is answered first

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self.wait(None)
        self.http.lose()
        super().connection_lost(error)

    def pause_writing(self) -> None:
        self.blocked = True
        self.transport.pause_reading()
        self.wait(self.front.settings.write_timeout)

    def resume_writing(self) -> None:
        self.blocked = False
        self.wait(self.front.settings.idle_timeout)
        if not self.closing:
            self.transport.resume_reading()
            self.http.go_on()

    def finish(self) -> None:
        self.http.finish()

    def close(self) -> None:
        """What was written leaves first, for as long as that may take."""
        if not self.closing:
            self.closing = True
            self.transport.close()
            self.wait(self.front.settings.write_timeout)

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    def wait(self, seconds: float | None) -> None:
        """So long the client may take for what comes next, counted from now; None: for ever."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = self.front.loop.call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self.blocked or self.closing:
            self.transport.abort()
        else:
            self.http.time_is_up()
