"""HTTP over TLS, in Python: one thread accepts, and each connection has a thread. Imported only when a directive configures TLS for its endpoint.

A client that finds all places taken replaces the oldest connection of the client that has most of them, as in httpd/listener.pyx.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable

from fastdns.httpd.message import TIMEOUT, Reply, Request, parse_head

__all__ = ["SecureListener"]

HEAD_MAX = 8192
CONNECTIONS = 64
THREADS = 2 * CONNECTIONS  # those of connections that were replaced, and have not ended yet, among them


class SecureListener:
    """Serves a listening socket until `close`."""

    def __init__(self, listener: socket.socket, context: Callable[[], ssl.SSLContext], answer: Callable[[Request], Reply]) -> None:
        """``context`` is called for each connection, so that certificates can change."""
        self.listener = listener
        self.context = context
        self.answer = answer
        self.lock = threading.Lock()
        self.places: dict[socket.socket, str] = {}  # the client's network by connection, the oldest first
        self.threads = threading.BoundedSemaphore(THREADS)
        listener.settimeout(None)
        threading.Thread(target=self._accept, name="https", daemon=True).start()

    def close(self) -> None:
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        except OSError:
            pass
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self.listener.accept()
            except OSError:
                if self.listener.fileno() < 0:
                    return
                time.sleep(0.05)  # no descriptor is left, or the client has closed the connection
                continue
            if not self.threads.acquire(blocking=False):
                connection.close()
                continue
            self._take_place(connection, _network(peer[0]))
            try:
                threading.Thread(target=self._converse, args=(connection,), name="https", daemon=True).start()
            except RuntimeError:  # no thread can be started
                self._leave(connection)

    def _take_place(self, connection: socket.socket, network: str) -> None:
        with self.lock:
            if len(self.places) >= CONNECTIONS:
                held = Counter(self.places.values())
                most = max(held.values())
                victim = next(other for other, holder in self.places.items() if held[holder] == most)
                del self.places[victim]
                try:
                    victim.shutdown(socket.SHUT_RDWR)  # its thread closes it
                except OSError:
                    pass
            self.places[connection] = network

    def _converse(self, plain: socket.socket) -> None:
        try:
            plain.settimeout(TIMEOUT)
            # A duplicate: wrapping takes the descriptor, by which _take_place ends the connection.
            with self.context().wrap_socket(plain.dup(), server_side=True, do_handshake_on_connect=False) as connection:
                connection.do_handshake()
                buffered = b""
                while True:
                    head, buffered = _read_head(connection, buffered)
                    if not head:
                        return
                    if not self._reply(connection, head):
                        return
        except (OSError, ValueError):
            pass
        finally:
            self._leave(plain)

    def _leave(self, connection: socket.socket) -> None:
        with self.lock:
            self.places.pop(connection, None)
        connection.close()
        self.threads.release()

    def _reply(self, connection: ssl.SSLSocket, head: bytes) -> bool:
        """Answers a request. Returns whether the connection stays open."""
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != 3 or words[2] not in (b"HTTP/1.0", b"HTTP/1.1") or not words[1]:
            connection.sendall(Reply(400, b"").head() + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
            return False
        request = parse_head(head)
        reply = self.answer(request)
        last = words[2] == b"HTTP/1.0" or request.fields.get("connection", "").lower() == "close"
        last = last or "content-length" in request.fields or "transfer-encoding" in request.fields
        tail = f"Content-Length: {len(reply.body)}\r\n{'Connection: close' if last else ''}".encode().rstrip() + b"\r\n\r\n"
        connection.sendall(reply.head() + tail + (b"" if request.method == "HEAD" else reply.body))
        return not last


def _network(address: str) -> str:
    """The clients that count as one: those of an IPv4 address, and those of an IPv6 /64."""
    client = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(client, ipaddress.IPv6Address):
        if client.ipv4_mapped is not None:
            return str(client.ipv4_mapped)
        return str(ipaddress.ip_network((client, 64), strict=False))
    return address


def _read_head(connection: ssl.SSLSocket, buffered: bytes) -> tuple[bytes, bytes]:
    """A complete head and the octets behind it; an empty head when the client closed, timed out or sent more than HEAD_MAX octets."""
    deadline = time.monotonic() + TIMEOUT
    while b"\r\n\r\n" not in buffered:
        left = deadline - time.monotonic()
        if len(buffered) > HEAD_MAX or left <= 0:
            return b"", b""
        connection.settimeout(left)
        chunk = connection.recv(4096)
        if not chunk:
            return b"", b""
        buffered += chunk
    connection.settimeout(TIMEOUT)
    head, _, rest = buffered.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest
