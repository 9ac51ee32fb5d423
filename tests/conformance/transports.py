"""Sends a query over the transport that it names."""

from __future__ import annotations

import base64
import socket
import ssl
import struct
import time
from collections.abc import Callable
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import grpc
import httpx

from tests import grpc_client
from tests.conformance.errors import Problem
from tests.conformance.queries import Query

__all__ = ["LIBRARY", "framed", "read_framed", "send", "udp_exchange"]

#: Transports of libraries, whose errors are an answer of their own.
LIBRARY = frozenset({"https", "https3", "quic", "grpc"})


def send(query: Query) -> bytes | None:
    """The reply's octets, or None where none came. Raises Problem."""
    return SENDERS[query.transport](query)


def _udp(query: Query) -> bytes | None:
    return udp_exchange(query.wire(), query.host, query.port, query.source, query.timeout, query.message.id, query.refused_limit)


def udp_exchange(
    wire: bytes, host: str, port: int, source: str | None, timeout: float, message_id: int | None = None, refused_limit: float = 2.0
) -> bytes | None:
    """Datagrams with another id are passed over. While nothing listens, the query is sent again for ``refused_limit`` seconds at most."""
    end = time.monotonic() + timeout
    give_up = time.monotonic() + min(timeout, refused_limit)
    while True:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as client:
            if source:
                client.bind((source, 0))
            client.connect((host, port))
            try:
                client.send(wire)
                while (left := end - time.monotonic()) > 0:
                    client.settimeout(left)
                    data = client.recv(65535)
                    if message_id is None or len(data) < 2 or int.from_bytes(data[:2], "big") == message_id:
                        return data
                return None
            except TimeoutError:
                return None
            except ConnectionRefusedError:
                if time.monotonic() > give_up:
                    return None
                time.sleep(0.05)


def framed(wire: bytes) -> bytes:
    """RFC 1035, section 4.2.2: two octets of length before the message."""
    return struct.pack("!H", len(wire)) + wire


def read_framed(connection: socket.socket, timeout: float) -> bytes | None:
    """One message; None where the connection ends before it does."""
    connection.settimeout(timeout)
    head = _read_exact(connection, 2)
    return head and _read_exact(connection, int.from_bytes(head, "big"))


def _read_exact(connection: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            return None
        data += part
    return data


def _tcp(query: Query, tls: bool = False) -> bytes | None:
    try:
        connection = socket.create_connection((query.host, query.port), query.timeout, (query.source, 0) if query.source else None)
    except OSError as error:
        raise Problem(f"connect: {error}") from None
    try:
        if tls:
            connection = _unverified(query).wrap_socket(connection, server_hostname=query.option("sni", "localhost"))
        connection.sendall(framed(query.wire()))
        return read_framed(connection, query.timeout)
    except ssl.SSLError as error:
        raise Problem(f"tls: {error.reason}") from None
    except OSError:
        return None
    finally:
        connection.close()


def _tls(query: Query) -> bytes | None:
    return _tcp(query, tls=True)


def _unverified(query: Query) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if "clientcert" in query.options:
        folder = Path(query.options["clientcert"][0])
        context.load_cert_chain(folder / "client.pem", folder / "client.key")
    return context


def _https(query: Query) -> bytes | None:
    """RFC 8484, over HTTP/2 or HTTP/1.1."""
    scheme = "http" if "plain" in query.options else "https"
    url = f"{scheme}://127.0.0.1:{query.port}{query.option('path', '/dns-query')}"
    accept = {"accept": "application/dns-message"}
    with httpx.Client(verify=False, http2="h1" not in query.options, timeout=query.timeout, trust_env=False) as client:
        if "get" in query.options:
            text = base64.urlsafe_b64encode(query.wire()).decode().rstrip("=")
            reply = client.get(url, params={"dns": text}, headers=accept)
        else:
            reply = client.post(url, content=query.wire(), headers={"content-type": "application/dns-message", **accept})
    if reply.status_code != 200:
        raise Problem(f"http status {reply.status_code}")
    return reply.content


def _https3(query: Query) -> bytes | None:
    query.message.id = 0
    url = f"https://127.0.0.1:{query.port}/dns-query"
    version = dns.query.HTTPVersion.H3
    return _wire(lambda: dns.query.https(query.message, url, query.timeout, verify=False, http_version=version, post="get" not in query.options))


def _quic(query: Query) -> bytes | None:
    query.message.id = 0
    return _wire(lambda: dns.query.quic(query.message, "127.0.0.1", query.timeout, query.port, verify=False))


def _wire(ask: Callable[[], dns.message.Message]) -> bytes | None:
    try:
        return ask().wire
    except dns.exception.Timeout:
        return None


def _grpc(query: Query) -> bytes | None:
    target, options = f"127.0.0.1:{query.port}", [("grpc.enable_http_proxy", 0)]
    if "certs" in query.options:
        authority = (Path(query.options["certs"][0]) / "ca.pem").read_bytes()
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(authority), options)
    else:
        channel = grpc.insecure_channel(target, options)
    with channel:
        call = channel.unary_unary(grpc_client.METHOD, grpc_client.packet, grpc_client.packet_message)
        try:
            reply: bytes = call(query.wire(), timeout=query.timeout)
        except grpc.RpcError as error:
            raise Problem(f"grpc status {error.code().name}") from None
    return reply


SENDERS: dict[str, Callable[[Query], bytes | None]] = {
    "udp": _udp,
    "tcp": _tcp,
    "tls": _tls,
    "https": _https,
    "https3": _https3,
    "quic": _quic,
    "grpc": _grpc,
}
