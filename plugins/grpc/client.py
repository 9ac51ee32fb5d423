"""A client of DNS over gRPC: one connection to an upstream, made with the first call and again when it is gone, which all calls share."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections import deque
from typing import Any, NamedTuple, cast

import h2.events as events
from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame

from fastdns.plugins.grpc.dnspacket import (
    BODY_MAX,
    INTERNAL,
    METHOD,
    PACKET_MAX,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    UNKNOWN,
    StatusError,
    pack,
    percent_decoded,
    unpack,
)

__all__ = ["Client", "Target"]

#: Seconds after a failed attempt to connect, in which calls fail at once.
PAUSE = 1.0
#: Times that a call is made which the server has not looked at.
ATTEMPTS = 2
#: Seconds until the SETTINGS of a server arrive.
SETTINGS_TIMEOUT = 5.0
#: Calls that wait for one to end, where the server allows no more at a time.
WAITING_MAX = 4096


class Target(NamedTuple):
    """An upstream. ``text`` is as the Corefile has it; ``path`` is of a unix socket, else "" ."""

    text: str
    host: str
    port: int
    path: str = ""


class GoneError(Exception):
    """The server has not seen the call, which may be made again."""


class Http(H2Connection):
    """HTTP/2 that goes on after GOAWAY, as RFC 9113 6.8 has it: what is under way is still answered."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> Any:
        received = super()._receive_goaway_frame(frame)
        self.state_machine.state = ConnectionState.CLIENT_OPEN
        return received


class Call:
    """One call and what of its reply is there."""

    __slots__ = ("body", "fields", "future", "pending")

    def __init__(self, body: bytes, future: asyncio.Future[bytes]) -> None:
        self.future = future
        #: Octets that wait for the server's window.
        self.pending = body
        self.body = bytearray()
        self.fields: dict[str, str] = {}

    def take_fields(self, fields: Any) -> None:
        self.fields.update(fields)

    def outcome(self) -> bytes:
        """The DNS message. Raises StatusError."""
        if "grpc-status" not in self.fields:
            seen = self.fields.get(":status", "")
            text = f"unexpected HTTP status code received from server: {seen}" if seen != "200" else "server closed the stream without sending trailers"
            raise StatusError(UNAVAILABLE if seen in ("429", "502", "503", "504") else UNKNOWN, text)
        number = self.fields["grpc-status"]
        status = int(number) if number.isascii() and number.isdigit() else UNKNOWN
        if status:
            raise StatusError(status, percent_decoded(self.fields.get("grpc-message", "")))
        return unpack(bytes(self.body))


class Connection(asyncio.Protocol):
    """A connection and the calls on it."""

    def __init__(self, authority: str, scheme: str) -> None:
        self.authority, self.scheme = authority, scheme
        self.http = Http(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.calls: dict[int, Call] = {}
        self.waiting: deque[asyncio.Future[None]] = deque()
        #: Takes no more calls.
        self.retired = False
        self.loop = asyncio.get_running_loop()
        #: The server's settings are there: before, nobody knows how many calls it takes.
        self.ready: asyncio.Future[None] = self.loop.create_future()
        self.transport: asyncio.Transport

    # ---- calls ----

    async def call(self, message: bytes) -> bytes:
        """Raises StatusError, and GoneError where the server has not looked at it."""
        while self._is_full():
            if len(self.waiting) >= WAITING_MAX:
                raise StatusError(RESOURCE_EXHAUSTED, "too many calls wait for the server")
            turn: asyncio.Future[None] = self.loop.create_future()
            self.waiting.append(turn)
            await turn
        if self.retired:
            raise GoneError
        number = self.http.get_next_available_stream_id()
        call = Call(pack(message), self.loop.create_future())
        self.calls[number] = call
        head = [(":method", "POST"), (":scheme", self.scheme), (":path", METHOD), (":authority", self.authority)]
        try:
            self.http.send_headers(number, [*head, ("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "fastdns")])
            self._send(number, call)
            self._flush()
            return await call.future
        finally:
            self._leave(number)

    def _is_full(self) -> bool:
        return not self.retired and len(self.calls) >= self.http.remote_settings.max_concurrent_streams

    def _leave(self, number: int) -> None:
        call = self.calls.pop(number)
        if not self.retired and (not call.future.done() or call.future.cancelled()):
            try:
                self.http.reset_stream(number, ErrorCodes.CANCEL)
                self._flush()
            except ProtocolError:
                pass  # it has ended meanwhile
        self._next()
        if self.retired and not self.calls:
            self.transport.close()

    def _next(self) -> None:
        while self.waiting and not self._is_full():
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                if not self.retired:
                    return

    def _send(self, number: int, call: Call) -> None:
        while call.pending:
            room = min(self.http.local_flow_control_window(number), self.http.max_outbound_frame_size)
            if room <= 0:
                return
            part, call.pending = call.pending[:room], call.pending[room:]
            self.http.send_data(number, part, end_stream=not call.pending)

    def _flush(self) -> None:
        octets = self.http.data_to_send()
        if octets:
            self.transport.write(octets)

    # ---- what comes ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.http.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self.http.receive_data(data):
                self._take(event)
        except (ProtocolError, ValueError) as error:
            self._end(StatusError(INTERNAL, f"http2: {error}"))
            return
        self._flush()

    def _take(self, event: events.Event) -> None:
        call = self.calls.get(getattr(event, "stream_id", None) or 0)
        if isinstance(event, (events.ResponseReceived, events.TrailersReceived)):
            if call is not None:
                call.take_fields(event.headers)
        elif isinstance(event, events.DataReceived):
            self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if call is not None:
                call.body += event.data
                if len(call.body) > BODY_MAX:
                    self._fail(call, StatusError(RESOURCE_EXHAUSTED, f"grpc: received message larger than max ({len(call.body)} vs. {PACKET_MAX})"))
        elif isinstance(event, events.StreamEnded):
            if call is not None and not call.future.done():
                try:
                    call.future.set_result(call.outcome())
                except StatusError as error:
                    call.future.set_exception(error)
        elif isinstance(event, events.StreamReset):
            if call is not None:
                refused = event.error_code == ErrorCodes.REFUSED_STREAM
                self._fail(call, GoneError() if refused else StatusError(UNAVAILABLE, f"stream terminated by RST_STREAM with error code: {event.error_code!s}"))
        elif isinstance(event, (events.WindowUpdated, events.RemoteSettingsChanged)):
            if isinstance(event, events.RemoteSettingsChanged) and not self.ready.done():
                self.ready.set_result(None)
            for number, waiting in list(self.calls.items()):
                if waiting.pending and not waiting.future.done():
                    self._send(number, waiting)
            self._next()
        elif isinstance(event, events.ConnectionTerminated):
            self.retired = True
            last = event.last_stream_id or 0
            for number, each in list(self.calls.items()):
                if number > last:
                    self._fail(each, GoneError())
            self._next()
            if not self.calls:
                self.transport.close()

    def _fail(self, call: Call, error: Exception) -> None:
        if not call.future.done():
            call.future.set_exception(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(StatusError(UNAVAILABLE, f"error reading from server: {_reason(error) if isinstance(error, OSError) else 'EOF'}"))

    def _end(self, error: StatusError) -> None:
        self.retired = True
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # it may be that nobody asks
        for call in list(self.calls.values()):
            self._fail(call, error)
        self._next()
        self.transport.abort()

    def close(self) -> None:
        """Ends when what is under way is answered."""
        self.retired = True
        if not self.calls:
            self.transport.close()


class Client:
    """Calls one upstream. All but `close` runs on the client loop's loop, which another one may replace."""

    def __init__(self, target: Target, tls: ssl.SSLContext | None, servername: str) -> None:
        self.target, self.tls = target, tls
        self.servername = servername or target.host
        self.connection: Connection | None = None
        self.closed = False
        self.dial: asyncio.Task[Connection] | None = None
        #: The last attempt to connect has failed: how, and until when it need not be tried again.
        self.failed: tuple[StatusError, float] | None = None

    async def query(self, message: bytes) -> bytes:
        """The reply. Raises StatusError."""
        for _ in range(ATTEMPTS):
            connection = await self._connected()
            try:
                return await connection.call(message)
            except GoneError:
                pass  # another connection takes it where this one has ended
        raise StatusError(UNAVAILABLE, "the server refuses calls")

    def close(self) -> None:
        """From any thread."""
        self.closed = True
        connection, self.connection = self.connection, None
        if connection is not None:
            try:
                connection.loop.call_soon_threadsafe(connection.close)
            except RuntimeError:
                pass  # the loop is gone, and the connection with it

    async def _connected(self) -> Connection:
        loop = asyncio.get_running_loop()
        connection = self.connection
        if connection is not None and not connection.retired and connection.loop is loop:
            return connection
        if self.failed is not None and time.monotonic() < self.failed[1]:
            raise self.failed[0]
        if self.dial is None or self.dial.get_loop() is not loop or self.dial.done():
            self.dial = loop.create_task(self._dial())
            self.dial.add_done_callback(_retrieve)
        return await asyncio.shield(self.dial)

    async def _dial(self) -> Connection:
        """Raises StatusError."""
        loop = asyncio.get_running_loop()
        target = self.target
        options: dict[str, Any] = {}
        if self.tls is not None:
            options = {"ssl": self.tls, "server_hostname": self.servername}
        authority = self.servername if target.path else target.text
        scheme = "http" if self.tls is None else "https"

        def made() -> Connection:
            return Connection(authority or "localhost", scheme)

        try:
            if target.path:
                _, connection = await loop.create_unix_connection(made, target.path, **options)
            else:
                _, connection = await loop.create_connection(made, target.host, target.port, **options)
        except OSError as error:
            raise self._failure(error) from None
        tls = connection.transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            connection.transport.abort()
            raise self._failure(OSError("credentials: cannot check peer: missing selected ALPN property"))
        sock = connection.transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.timeout(SETTINGS_TIMEOUT):
                await connection.ready
        except TimeoutError:
            connection.transport.abort()
            raise self._failure(OSError("did not receive server preface")) from None
        except StatusError as error:
            self.failed = (error, time.monotonic() + PAUSE)
            raise
        self.failed = None
        self.connection = connection
        if self.closed:
            connection.close()
        return connection

    def _failure(self, error: OSError) -> StatusError:
        target = self.target
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"authentication handshake failed: tls: failed to verify certificate: {error.verify_message}"
        elif isinstance(error, ssl.SSLError) or not error.errno:
            text = f"authentication handshake failed: {getattr(error, 'reason', None) or error}"
        else:
            network, place = ("unix", target.path) if target.path else ("tcp", target.text)
            text = f"Error while dialing: dial {network} {place}: connect: {_reason(error)}"
        status = StatusError(UNAVAILABLE, f'connection error: desc = "transport: {text}"')
        self.failed = (status, time.monotonic() + PAUSE)
        return status


def _retrieve(dial: asyncio.Task[Connection]) -> None:
    """Its error has been seen, even if everybody who waited for it has gone."""
    if not dial.cancelled():
        dial.exception()


def _reason(error: OSError) -> str:
    text = os.strerror(error.errno) if error.errno else str(error)
    return text[:1].lower() + text[1:]
