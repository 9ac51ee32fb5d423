"""A client of DNS over gRPC: Google's own library, and protobuf written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.message
import grpc

from tests.waiting import REPLY

__all__ = ["Client", "client", "packet", "packet_message"]

METHOD = "/coredns.dns.DnsService/Query"


def packet(message: bytes) -> bytes:
    """``DnsPacket``, serialized."""
    size, octets = len(message), b"\x0a"
    while size >= 0x80:
        octets, size = octets + bytes([size & 0x7F | 0x80]), size >> 7
    return octets + bytes([size]) + message


def packet_message(octets: bytes) -> bytes:
    """Of a serialized ``DnsPacket``."""
    if not octets:
        return b""
    assert octets[0] == 0x0A
    at, size, shift = 1, 0, 0
    while True:
        size |= (octets[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not octets[at - 1] & 0x80:
            break
    assert len(octets) == at + size
    return octets[at:]


class Client:
    """A channel to one server."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel

    def call(self, message: bytes, method: str = METHOD, serialized: bool = False, **options: object) -> bytes:
        """Raises grpc.RpcError."""
        call = self.channel.unary_unary(method, (lambda octets: octets) if serialized else packet, packet_message)
        reply: bytes = call(message, timeout=REPLY, **options)
        return reply

    def query(self, name: str, kind: str = "A", **options: object) -> dns.message.Message:
        request = dns.message.make_query(name, kind, **options)  # type: ignore[arg-type]
        return dns.message.from_wire(self.call(request.to_wire()))

    def failure(self, message: bytes, **options: object) -> tuple[str, str]:
        """Status and text of a call that has to fail."""
        try:
            self.call(message, **options)  # type: ignore[arg-type]
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError("the call succeeded")


@contextmanager
def client(port: int, certificates: Path | None = None, name: str = "server.test") -> Iterator[Client]:
    """``certificates``: a folder with ``ca.pem``; None: clear text."""
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    if certificates is None:
        channel = grpc.insecure_channel(f"127.0.0.1:{port}", options)
    else:
        trusted = grpc.ssl_channel_credentials((certificates / "ca.pem").read_bytes())
        channel = grpc.secure_channel(f"127.0.0.1:{port}", trusted, [*options, ("grpc.ssl_target_name_override", name)])
    with channel:
        yield Client(channel)
