"""A QUIC client for tests, driven step by step: aioquic's protocol machine on a socket of ours, without an event loop."""

from __future__ import annotations

import random
import select
import socket
import ssl
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import dns.message
import pytest

pytest.importorskip("aioquic")

from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.tls import SessionTicket

__all__ = ["Client", "Closed", "Response", "WebClient", "query"]


class Closed(Exception):
    """The connection ended: its error code, and what the server said about it."""

    def __init__(self, event: events.ConnectionTerminated) -> None:
        super().__init__(f"code {event.error_code:#x}: {event.reason_phrase}")
        self.code = event.error_code
        self.reason = event.reason_phrase


def query(name: str, rdtype: str = "A", **options: Any) -> bytes:
    """A query's octets, with the id 0 that DoQ wants."""
    made = dns.message.make_query(name, rdtype, **options)
    made.id = 0
    return made.to_wire(max_size=65535)


class Client:
    """One connection. Use it as a context manager."""

    def __init__(
        self,
        port: int,
        alpn: str = "doq",
        host: str = "127.0.0.1",
        ticket: SessionTicket | None = None,
        wait: bool = True,
        header: bytes = b"",
        source: str = "",
        first: int | None = None,
        **options: Any,
    ) -> None:
        """``header`` comes before each datagram that is sent; ``source`` is the client's address; ``first`` is the first octet of the destination's id,
        by which a client chooses the worker; ``options`` are aioquic's.

        Without ``wait`` the handshake is begun only.
        """
        configuration = QuicConfiguration(alpn_protocols=[alpn], verify_mode=ssl.CERT_NONE, server_name="localhost", session_ticket=ticket, **options)
        #: Tickets that the server gave.
        self.tickets: list[SessionTicket] = []
        self.quic = QuicConnection(configuration=configuration, session_ticket_handler=self.tickets.append)
        if first is not None:
            self.quic._peer_cid.cid = self.quic._original_destination_connection_id = bytes([first]) + self.quic._peer_cid.cid[1:]
        self.address = (host, port)
        self.header = header
        self.source = source
        self.socket = self._socket()
        #: The part of datagrams that is lost on the way, in either direction.
        self.loss = 0.0
        #: Datagrams that came: each is one packet, once the handshake is over.
        self.datagrams = 0
        #: What came on each stream.
        self.received: dict[int, bytearray] = {}
        #: Streams that the server has ended, and error codes of those that it has reset.
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.stops: dict[int, int] = {}
        self.handshake: events.HandshakeCompleted | None = None
        self.closed: events.ConnectionTerminated | None = None
        self.quic.connect(self.address, now=time.monotonic())
        if wait:
            try:
                self.push()
                self.pump(lambda: self.handshake is not None)
            except BaseException:
                self.socket.close()
                raise

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.quic.close()
        self.push()
        self.socket.close()

    def _socket(self) -> socket.socket:
        made = socket.socket(socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET, socket.SOCK_DGRAM)
        if self.source:
            made.bind((self.source, 0))
        made.connect(self.address)
        made.setblocking(False)
        return made

    def move(self) -> None:
        """Go on from another port, as behind a NAT that forgot."""
        self.socket.close()
        self.socket = self._socket()

    def keep_silent_of_paths(self) -> None:
        """Answer no PATH_CHALLENGE from now on, as who claims an address that it does not have."""
        handlers = self.quic._QuicConnection__frame_handlers  # type: ignore[attr-defined]
        handlers[0x1A] = (lambda context, frame_type, buf: buf.pull_bytes(8), handlers[0x1A][1])

    def resume(self) -> SessionTicket:
        """The ticket for the next connection, once the server has given one."""
        self.pump(lambda: self.tickets)
        return self.tickets[-1]

    def open(self) -> int:
        """The next stream of a query."""
        stream: int = self.quic.get_next_available_stream_id()
        self.quic.send_stream_data(stream, b"")
        return stream

    def write(self, stream: int, octets: bytes, end: bool = False) -> None:
        """Send on a stream, now."""
        self.quic.send_stream_data(stream, octets, end)
        self.push()

    def begin(self, message: bytes, end: bool = True) -> int:
        """Send a query on a stream of its own, which is returned."""
        stream = self.open()
        self.write(stream, len(message).to_bytes(2, "big") + message, end)
        return stream

    def ask(self, message: bytes, seconds: float = 20) -> dns.message.Message:
        """The reply to a query. Raises Closed."""
        return self.reply(self.begin(message), seconds)

    def reply(self, stream: int, seconds: float = 20) -> dns.message.Message:
        """The reply on a stream, which has to end with it."""
        self.pump(lambda: stream in self.ended, seconds)
        octets = bytes(self.received.pop(stream))
        assert len(octets) == 2 + int.from_bytes(octets[:2], "big")
        return dns.message.from_wire(octets[2:])

    def push(self) -> None:
        """Send what there is to send."""
        for octets, _ in self.quic.datagrams_to_send(now=time.monotonic()):
            try:
                if random.random() >= self.loss:
                    self.socket.send(self.header + octets)
            except (BlockingIOError, ConnectionRefusedError):
                pass

    def pump(self, condition: Callable[[], object], seconds: float = 20) -> None:
        """Receive until the condition holds. Raises Closed when the server closes, AssertionError when the time is up."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.closed is not None:
                raise Closed(self.closed)
            now = time.monotonic()
            assert now < deadline, "nothing came in time"
            timer = self.quic.get_timer()
            until = deadline if timer is None else min(timer, deadline)
            if select.select([self.socket], [], [], max(0.0, until - now))[0]:
                self._receive()
            elif timer is not None and time.monotonic() >= timer:
                self.quic.handle_timer(now=time.monotonic())
            self._take_events()
            self.push()

    def poll(self) -> None:
        """Receive what has come, without waiting. Raises Closed."""
        timer = self.quic.get_timer()
        if timer is not None and time.monotonic() >= timer:
            self.quic.handle_timer(now=time.monotonic())
        self._receive()
        self._take_events()
        self.push()
        if self.closed is not None:
            raise Closed(self.closed)

    def wait_closed(self, seconds: float = 20) -> Closed:
        """How the server closes the connection."""
        with pytest.raises(Closed) as caught:
            self.pump(lambda: False, seconds)
        return caught.value

    def happen(self, event: events.QuicEvent) -> None:
        """Anything that comes."""
        if isinstance(event, events.StreamDataReceived):
            self.received.setdefault(event.stream_id, bytearray()).extend(event.data)
            if event.end_stream:
                self.ended.add(event.stream_id)

    def _receive(self) -> None:
        while True:
            try:
                octets = self.socket.recv(65535)
            except (BlockingIOError, ConnectionRefusedError):
                return
            self.datagrams += 1
            if random.random() >= self.loss:
                self.quic.receive_datagram(octets, self.address, now=time.monotonic())

    def _take_events(self) -> None:
        while (event := self.quic.next_event()) is not None:
            if isinstance(event, events.HandshakeCompleted):
                self.handshake = event
            elif isinstance(event, events.ConnectionTerminated):
                self.closed = event
            elif isinstance(event, events.StreamReset):
                self.resets[event.stream_id] = event.error_code
            elif isinstance(event, events.StopSendingReceived):
                self.stops[event.stream_id] = event.error_code
            self.happen(event)
        if self.closed is None and self.quic._close_event is not None:  # the library tells only when it has forgotten the connection
            self.closed = self.quic._close_event


class Response:
    """What a DoH3 server said on a stream."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.body = b""
        self.ended = False

    @property
    def status(self) -> int:
        return int(self.fields[":status"])


class WebClient(Client):
    """An HTTP/3 client."""

    def __init__(self, port: int, **options: Any) -> None:
        self.responses: dict[int, Response] = {}
        self._http: H3Connection | None = None
        super().__init__(port, alpn="h3", **options)

    @property
    def http(self) -> H3Connection:
        if self._http is None:
            self._http = H3Connection(self.quic)
        return self._http

    def happen(self, event: events.QuicEvent) -> None:
        for happened in self.http.handle_event(event):
            if isinstance(happened, HeadersReceived | DataReceived):
                response = self.responses.setdefault(happened.stream_id, Response())
                if isinstance(happened, HeadersReceived):
                    response.fields = {name.decode(): value.decode() for name, value in happened.headers}
                else:
                    response.body += happened.data
                response.ended = happened.stream_ended

    def request(
        self, method: str = "POST", path: str = "/dns-query", body: bytes = b"", fields: list[tuple[bytes, bytes]] | None = None, end: bool = True
    ) -> int:
        """Send a request; the stream that it is on."""
        stream: int = self.quic.get_next_available_stream_id()
        head = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path.encode())]
        self.http.send_headers(stream, [*head, *(fields or [])], end_stream=end and not body)
        if body:
            self.http.send_data(stream, body, end_stream=end)
        self.push()
        return stream

    def response(self, stream: int, seconds: float = 20) -> Response:
        """The response on a stream, all of it."""
        self.pump(lambda: stream in self.responses and self.responses[stream].ended, seconds)
        return self.responses.pop(stream)

    def fetch(self, *arguments: Any, **options: Any) -> Response:
        """`request` and `response`."""
        return self.response(self.request(*arguments, **options))
