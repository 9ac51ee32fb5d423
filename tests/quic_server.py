"""A DNS over QUIC server for tests: aioquic's, on a thread of its own, whose behaviour a script may change."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.message
import dns.rrset
import pytest

pytest.importorskip("aioquic")

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicErrorCode
from aioquic.tls import SessionTicket

__all__ = ["DoqServer", "Session", "answer"]


def answer(query: dns.message.Message, address: str = "192.0.2.1") -> bytes:
    """A reply, without the length before it."""
    made = dns.message.make_response(query, recursion_available=True)
    made.answer.append(dns.rrset.from_text(query.question[0].name, 5, "IN", "A", address))
    return made.to_wire(max_size=65535)


class _Lossy:
    """The socket's transport, which loses some of what is sent."""

    def __init__(self, transport: Any, server: DoqServer) -> None:
        self.transport = transport
        self.server = server

    def sendto(self, octets: bytes, address: Any) -> None:
        if random.random() >= self.server.loss:
            self.transport.sendto(octets, address)


class Session(QuicConnectionProtocol):
    """One connection. Its methods are called on the server's thread."""

    def __init__(self, server: DoqServer, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.server = server
        self.received: dict[int, bytearray] = {}
        #: Codes of STOP_SENDING and of CONNECTION_CLOSE.
        self.stops: dict[int, int] = {}
        self.closed: events.ConnectionTerminated | None = None
        self.handshake: events.HandshakeCompleted | None = None
        if server.streams:
            limit = self._quic._local_max_streams_bidi
            limit.value = limit.sent = server.streams
        server.sessions.append(self)

    @property
    def quic(self) -> Any:
        return self._quic

    def datagram_received(self, octets: Any, address: Any) -> None:
        if random.random() >= self.server.loss:
            super().datagram_received(octets, address)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Lossy(transport, self.server))

    def quic_event_received(self, event: events.QuicEvent) -> None:
        if isinstance(event, events.StreamDataReceived):
            octets = self.received.setdefault(event.stream_id, bytearray())
            octets += event.data
            if event.end_stream:
                assert len(octets) == 2 + int.from_bytes(octets[:2], "big"), "one message, then FIN"
                assert octets[2:4] == b"\0\0", "RFC 9250 4.2.1: id 0"
                query = dns.message.from_wire(bytes(octets[2:]))
                self.server.seen.append(query)
                self.server.script(self, event.stream_id, query)
        elif isinstance(event, events.StopSendingReceived):
            self.stops[event.stream_id] = event.error_code
        elif isinstance(event, events.ConnectionTerminated):
            self.closed = event
        elif isinstance(event, events.HandshakeCompleted):
            self.handshake = event

    def send(self, stream: int, message: bytes, end: bool = True) -> None:
        """A reply with its length."""
        self.write(stream, len(message).to_bytes(2, "big") + message, end)

    def write(self, stream: int, octets: bytes, end: bool = True) -> None:
        self._quic.send_stream_data(stream, octets, end)
        self.transmit()

    def reset(self, stream: int, code: int) -> None:
        self._quic.reset_stream(stream, code)
        self.transmit()

    def hang_up(self, code: int = 0, reason: str = "") -> None:
        self._quic.close(error_code=code, reason_phrase=reason)
        self.transmit()

    def violate(self) -> None:
        """Close with an error of the transport."""
        self._quic.close(error_code=QuicErrorCode.PROTOCOL_VIOLATION, frame_type=0, reason_phrase="test")
        self.transmit()


Script = Callable[[Session, int, dns.message.Message], None]


class DoqServer:
    """A server on 127.0.0.1; use it as a context manager."""

    def __init__(self, certificate: Path, key: Path, port: int = 0, streams: int = 0, script: Script | None = None, alpn: str = "doq") -> None:
        """``streams``: how many a client may open at first, 0 for aioquic's default."""
        self.streams = streams
        #: The part of datagrams that is lost on the way, in either direction.
        self.loss = 0.0
        self.script: Script = script or (lambda session, stream, query: session.send(stream, answer(query)))
        self.seen: list[dns.message.Message] = []
        self.sessions: list[Session] = []
        #: Tickets by their label, each used once.
        self.tickets: dict[bytes, SessionTicket] = {}
        self.configuration = QuicConfiguration(is_client=False, alpn_protocols=[alpn])
        self.configuration.load_cert_chain(certificate, key)
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self.run(self._serve())
        transport = self._server._transport
        self.address = "{}:{}".format(*transport.get_extra_info("sockname"))

    async def _serve(self) -> Any:
        return await serve(
            "127.0.0.1",
            self._port,
            configuration=self.configuration,
            create_protocol=lambda *arguments, **options: Session(self, *arguments, **options),
            session_ticket_fetcher=lambda label: self.tickets.pop(label, None),
            session_ticket_handler=lambda ticket: self.tickets.setdefault(ticket.ticket, ticket),
        )

    def __enter__(self) -> DoqServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """On the server's thread."""

        async def done() -> None:
            function(*arguments)

        self.run(done())

    def each(self, method: str, *arguments: object) -> None:
        """Call a method of all connections."""
        for session in list(self.sessions):
            self.call(getattr(session, method), *arguments)

    def later(self, seconds: float, function: Callable[..., object], *arguments: object) -> None:
        """From a script: call something in a while."""
        self._loop.call_later(seconds, function, *arguments)

    def close(self) -> None:
        """Without a word to clients, as a process that is killed."""
        if not self._loop.is_closed():
            self.call(self._server._transport.abort)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
