"""DNS over gRPC: the service ``coredns.dns.DnsService`` with its one method, over the streams of `http2`.

gRPC is little more than HTTP/2: fields, a prefix of five octets, and a status behind the body. The limits to what a client may take are ours
to set, as they are for DNS over HTTPS; gRPC's own library accepts connections by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastdns.fronts import queries
from fastdns.fronts.dnspacket import BODY_MAX, METHOD, PACKET_MAX, RESOURCE_EXHAUSTED, UNIMPLEMENTED, UNKNOWN, StatusError, pack, percent_encoded, unpack
from fastdns.fronts.http2 import Http2, Stream
from fastdns.fronts.http_connection import HttpConnection
from fastdns.fronts.response import HEAD_MAX, Response
from fastdns.fronts.stream import StreamFront
from fastdns.protocol.header import FLAG_QR, OPCODE_NOTIFY, OPCODE_QUERY, flags_opcode, message_flags

__all__ = ["GrpcConnection", "GrpcFront"]

#: Without a limit of streams, this is as many as HTTP/2 knows.
UNLIMITED = 2**31 - 1
KIND = ("content-type", "application/grpc")
DONE = Response(200, (KIND,), b"", (("grpc-status", "0"),))


def failure(error: StatusError) -> Response:
    return Response(200, (KIND, ("grpc-status", str(error.status)), ("grpc-message", percent_encoded(error.text))), b"")


def refusal(packet: bytes) -> str:
    """Why a message was rejected (spec/server.md 2), as CoreDNS says it."""
    if len(packet) < 12:
        return "dns: buffer size too small"
    counts = [int.from_bytes(packet[at : at + 2], "big") for at in (4, 6, 8, 10)]
    flags = message_flags(packet)
    served = not flags & FLAG_QR and flags_opcode(flags) in (OPCODE_QUERY, OPCODE_NOTIFY)
    accepted = served and counts[0] == 1 and counts[1] <= 1 and counts[2] <= 1 and counts[3] <= 2
    return "dns: malformed message" if accepted else "dns request rejected"


class GrpcStreams(Http2):
    """The calls of one connection."""

    connection: GrpcConnection
    body_max = BODY_MAX
    head_list_max = HEAD_MAX
    noted = frozenset({"content-type", "grpc-encoding"})

    @property
    def streams_max(self) -> int:
        return self.connection.front.settings.limits.get("max_streams", 0) or UNLIMITED

    def answer(self, stream: Stream, body: bytes | None, respond: Callable[[Response], None]) -> asyncio.Future[bytes | None] | None:
        connection = self.connection
        return connection.front.call(connection.client, connection.local, stream, body, respond)


class GrpcConnection(HttpConnection):
    """A client's connection. Whether its handshake has named HTTP/2 or not, it speaks nothing else."""

    front: GrpcFront  # type: ignore[assignment]

    def __init__(self, front: GrpcFront) -> None:
        super().__init__(front)  # type: ignore[arg-type]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.http = GrpcStreams(self)


class GrpcFront(StreamFront):
    """Queries as calls; without a certificate in clear text (HTTP/2 with prior knowledge)."""

    transport = queries.GRPC
    alpn = ("h2",)
    directive = "grpc_server"
    defaults = {"max_streams": 256, "max_connections": 200}  # noqa: RUF012

    def connection(self) -> GrpcConnection:
        return GrpcConnection(self)

    def call(
        self, client: tuple[Any, ...], local: tuple[Any, ...], stream: Stream, body: bytes | None, respond: Callable[[Response], None]
    ) -> asyncio.Future[bytes | None] | None:
        """What a call gets goes to ``respond``; ``body`` None: it was too large."""
        if stream.method != "POST":
            respond(Response(405, (("allow", "POST"), ("content-length", "0")), b""))
            return None
        kind = stream.fields.get("content-type", "")
        if kind != KIND[1] and not kind.startswith((KIND[1] + "+", KIND[1] + ";")):
            respond(Response(415, (("content-length", "0"),), b""))
            return None
        try:
            packet = self.packet_of(stream, body)
        except StatusError as error:
            respond(failure(error))
            return None
        future = self.gate.ask(packet, client, local)

        def done(replied: asyncio.Future[bytes | None]) -> None:
            if replied.cancelled():
                return
            if replied.exception() is not None:
                respond(failure(StatusError(UNKNOWN, refusal(packet))))
            else:
                # Without a reply it is the query that comes back.
                respond(DONE._replace(body=pack(replied.result() or packet)))

        future.add_done_callback(done)
        return future

    def packet_of(self, stream: Stream, body: bytes | None) -> bytes:
        """The DNS message of a call. Raises StatusError."""
        if stream.target != METHOD:
            service, _, method = stream.target.lstrip("/").rpartition("/")
            known = f"/{service}" == METHOD.rpartition("/")[0]
            text = f"unknown method {method} for service {service}" if known else f"unknown service {service}"
            raise StatusError(UNIMPLEMENTED, text if service else f"malformed method name: {stream.target!r}")
        if body is None:
            raise StatusError(RESOURCE_EXHAUSTED, f"grpc: received message larger than max ({PACKET_MAX + 1} vs. {PACKET_MAX})")
        encoding = stream.fields.get("grpc-encoding", "identity")
        if encoding not in ("identity", ""):
            raise StatusError(UNIMPLEMENTED, f'grpc: Decompressor is not installed for grpc-encoding "{encoding}"')
        return unpack(body)

    def refuse_head(self) -> Response:
        """For a head that is too large."""
        return failure(StatusError(RESOURCE_EXHAUSTED, "fields are too large"))
