"""DNS over HTTP/2 (RFC 9113): many requests at once, with limits to what a client may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import h2.events as events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

from fastdns.server.fronts.hpack import Encoder
from fastdns.server.fronts.response import BODY_MAX, HEAD_MAX, HEAD_WITH_TARGET_MAX, Response, date

if TYPE_CHECKING:
    from fastdns.server.fronts.doh import DohConnection

__all__ = ["Http2"]

STREAMS_MAX = 250
#: Octets of all streams, and of one, that a client may send before we take them.
WINDOW = 1 << 20
#: Octets of replies that wait for the client's window: above, the streams that would add to them are reset.
PENDING_MAX = 1 << 20
#: Streams that a client may reset, if they are more than half of those it opened (CVE-2023-44487).
RESETS_MAX = 200
#: Frames that ask for nothing (pings, settings, empty data...), beside ten for each request.
IDLE_FRAMES_MAX = 1000


class Stream:
    """A request and what of its reply has not left yet."""

    __slots__ = ("began", "body", "complete", "fields", "method", "pending", "target", "trailers", "under_way")

    def __init__(self, method: str, target: str, began: float) -> None:
        self.method = method
        self.target = target
        self.began = began
        self.body: bytearray | None = bytearray()
        self.complete = False
        self.under_way: asyncio.Future[bytes | None] | None = None
        self.pending = b""
        self.trailers: tuple[tuple[str, str], ...] = ()
        #: Those of `Http2.noted` that the request has.
        self.fields: dict[str, str] = {}


class Http2:
    """The streams of one connection."""

    #: Octets of a request's body, of its fields without its target, and with it.
    body_max = BODY_MAX
    head_max = HEAD_MAX
    head_list_max = HEAD_WITH_TARGET_MAX
    #: Fields that `answer` looks at.
    noted: frozenset[str] = frozenset()

    @property
    def streams_max(self) -> int:
        """Requests of the connection at a time."""
        return STREAMS_MAX

    def answer(self, stream: Stream, body: bytes | None, respond: Callable[[Response], None]) -> asyncio.Future[bytes | None] | None:
        """What a request gets goes to ``respond``, at once or later; then the future is returned. ``body`` None: it was too large."""
        connection = self.connection
        return connection.front.answer(connection.client, connection.local, stream.method, stream.target, body, respond)

    def __init__(self, connection: DohConnection) -> None:
        self.connection = connection
        # What leaves is our own: it needs no check.
        settled = H2Configuration(client_side=False, header_encoding="latin-1", validate_outbound_headers=False, normalize_outbound_headers=False)
        self.http = H2Connection(settled)
        self.http.encoder = Encoder()  # type: ignore[assignment]
        self.http.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: self.streams_max,
                SettingCodes.MAX_HEADER_LIST_SIZE: self.head_list_max,
                SettingCodes.INITIAL_WINDOW_SIZE: 65535,
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self.http.decoder.max_header_list_size = self.head_list_max
        self.http.initiate_connection()
        self.http.increment_flow_control_window(WINDOW - 65535)
        self.streams: dict[int, Stream] = {}
        self.opened = 0
        self.resets = 0
        self.idle_frames = 0
        self.pending = 0
        self.last = False
        self._flushing = False
        self._since = connection.front.loop.time()
        settings = connection.front.settings
        connection.wait(max(0.0, connection.began + settings.read_timeout - self._since))
        self._flush()

    # ---- what comes ----

    def receive(self, data: bytes) -> None:
        connection = self.connection
        try:
            for event in self.http.receive_data(data):
                self._take(event)
        except (ProtocolError, ValueError):  # ValueError: of names that are no text
            self._flush()
            connection.close()
            return
        if connection.closing:
            return
        if (self.resets > RESETS_MAX and self.resets * 2 > self.opened) or self.idle_frames > IDLE_FRAMES_MAX + 10 * self.opened:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        self._soon()

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.RequestReceived):
            self._begin(event.stream_id, event.headers)
        elif isinstance(event, events.DataReceived):
            self._add(event.stream_id, event.data, event.flow_controlled_length)
        elif isinstance(event, events.StreamEnded):
            self._ask(event.stream_id)
        elif isinstance(event, events.StreamReset):
            self.resets += 1
            self._forget(event.stream_id)
        elif isinstance(event, (events.WindowUpdated, events.RemoteSettingsChanged)):
            self.idle_frames += 1
            self.go_on()
        elif isinstance(event, events.ConnectionTerminated):
            self.finish()
        else:
            self.idle_frames += 1

    def _begin(self, number: int, fields: Any) -> None:
        self.opened += 1
        if self.last:
            self.http.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        method = target = ""
        noted: dict[str, str] = {}
        size = 0
        for name, value in fields:
            if name == ":method":
                method = value
            elif name == ":path":
                target = value
                continue
            elif name in self.noted:
                noted[name] = value
            size += len(name) + len(value) + 32
        self.streams[number] = Stream(method, target, self.connection.front.loop.time())
        self.streams[number].fields = noted
        if size > self.head_max:
            self._respond(number, self.connection.front.refuse_head())

    def _add(self, number: int, data: bytes, taken: int) -> None:
        if taken:
            self.http.acknowledge_received_data(taken, number)
        stream = self.streams.get(number)
        if stream is None or stream.body is None:
            return
        if not data:
            self.idle_frames += 1
        stream.body += data
        if len(stream.body) > self.body_max:
            stream.body = None
            self._ask(number)

    def _ask(self, number: int) -> None:
        stream = self.streams.get(number)
        if stream is None or stream.complete:
            return
        stream.complete = True
        body = None if stream.body is None else bytes(stream.body)
        stream.under_way = self.answer(stream, body, lambda response: self._respond(number, response))

    def _forget(self, number: int) -> None:
        stream = self.streams.pop(number, None)
        if stream is None:
            return
        self.pending -= len(stream.pending)
        if stream.under_way is not None:
            stream.under_way.cancel()

    # ---- what leaves ----

    def _respond(self, number: int, response: Response) -> None:
        stream = self.streams.get(number)
        if stream is None or self.connection.closing:
            return
        stream.complete = True
        stream.under_way = None
        stream.began = self.connection.front.loop.time()
        try:
            stream.pending = response.body if stream.method != "HEAD" else b""
            stream.trailers = response.trailers
            fields = [(":status", str(response.status)), ("date", date()), *response.fields]
            self.http.send_headers(number, fields, end_stream=not stream.pending and not stream.trailers)
            self.pending += len(stream.pending)
            self._send(number, stream)
            if self.pending > PENDING_MAX and number in self.streams:
                self.http.reset_stream(number, ErrorCodes.ENHANCE_YOUR_CALM)
                self._forget(number)
        except (ProtocolError, StreamClosedError):
            self._forget(number)
        self._soon()

    def _send(self, number: int, stream: Stream) -> None:
        """As much as the client's window takes; the stream ends with the last of it."""
        while stream.pending:
            room = min(self.http.local_flow_control_window(number), self.http.max_outbound_frame_size)
            if room <= 0:
                return
            part, stream.pending = stream.pending[:room], stream.pending[room:]
            self.pending -= len(part)
            self.http.send_data(number, part, end_stream=not stream.pending and not stream.trailers)
        if stream.trailers:
            self.http.send_headers(number, stream.trailers, end_stream=True)
        if not self.http.streams[number].closed:  # the client has not said all, and nobody will listen
            self.http.reset_stream(number, ErrorCodes.NO_ERROR)
        del self.streams[number]
        self.connection.asked = True
        self._since = self.connection.front.loop.time()

    def go_on(self) -> None:
        """Sends what waited for room."""
        for number, stream in list(self.streams.items()):
            if stream.pending:
                try:
                    self._send(number, stream)
                except (ProtocolError, StreamClosedError):
                    self._forget(number)
        self._soon()

    def _soon(self) -> None:
        """Has what was said leave in one piece at the end of this turn of the loop."""
        if not self._flushing:
            self._flushing = True
            self.connection.front.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        connection = self.connection
        octets = self.http.data_to_send()
        if octets and not connection.closing:
            connection.transport.write(octets)
        if self.last and not self.streams and not connection.closing:
            self._end(ErrorCodes.NO_ERROR)

    # ---- the end, and time ----

    def _end(self, code: ErrorCodes) -> None:
        """The connection ends at once, with what was asked on it."""
        self.lose()
        self.http.close_connection(code)
        octets = self.http.data_to_send()
        if octets and not self.connection.closing:
            self.connection.transport.write(octets)
        self.connection.close()

    def finish(self) -> None:
        self.last = True
        self._soon()

    def lose(self) -> None:
        for number in list(self.streams):
            self._forget(number)

    def time_is_up(self) -> None:
        """Requests that are not complete in time are reset; a connection that has none is idle until it ends."""
        connection = self.connection
        settings = connection.front.settings
        now = connection.front.loop.time()
        if not connection.asked and not self.opened:
            connection.close()
            return
        for number, stream in list(self.streams.items()):
            stuck = settings.write_timeout if stream.complete else settings.read_timeout
            if (not stream.complete or stream.pending) and now - stream.began >= stuck:
                self.http.reset_stream(number, ErrorCodes.CANCEL)
                self._forget(number)
        if not self.streams and now - self._since >= settings.idle_timeout - 0.001:
            self._end(ErrorCodes.NO_ERROR)
            return
        self._soon()
        if self.streams:
            connection.wait(settings.read_timeout)
        else:
            connection.wait(max(0.05, min(settings.read_timeout, self._since + settings.idle_timeout - now)))
