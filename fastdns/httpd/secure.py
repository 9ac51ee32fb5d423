"""HTTP over TLS, in Python: one thread accepts, and each connection has a thread. Imported only when a directive configures TLS for its endpoint.

As in httpd/listener.pyx, a client that finds all slots taken evicts a connection of the network, and in that of the address, that holds most of them, first
one whose reply it does not read. A reply for which there is no space does the same. Requests are answered one at a time: threads that prepare pages all at
once would hold up what else needs Python, such as /ready.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from fastdns.httpd.message import TIMEOUT, Later, Reply, Request, parse_head

__all__ = ["SecureListener"]

HEAD_MAX = 8192
CONNECTIONS = 64
THREADS = 2 * CONNECTIONS  # those of connections that were replaced, and have not ended yet, among them
REPLIES_MAX = 16 << 20  # octets of replies that wait for their clients
BLOCKED = 0.2  # seconds after which a reply that is not read counts as such


class Client(NamedTuple):
    """An address. ``subnet`` is the same address, or its IPv6 /64; ``network`` is its IPv4 /24 or IPv6 /56."""

    network: str
    subnet: str
    address: str


@dataclass(eq=False, slots=True)
class Place:
    """A connection's. ``octets`` of the reply that is written ``since`` then (monotonic, seconds); 0: none."""

    connection: socket.socket
    client: Client
    octets: int = 0
    since: float = 0.0
    dropped: bool = False  # while it waited for its turn
    turn: threading.Event = field(default_factory=threading.Event)

    def blocked(self, now: float) -> bool:
        return self.octets > 0 and now - self.since > BLOCKED


class SecureListener:
    """Serves a listening socket until `close`."""

    def __init__(
        self,
        listener: socket.socket,
        context: Callable[[], ssl.SSLContext],
        answer: Callable[[Request], Reply | Later],
        later: Callable[[str, str, Later], Reply],
    ) -> None:
        """``context`` is called for each connection, so that certificates can change; ``later`` makes a client's reply, for a path, that may take its time."""
        self.listener = listener
        self.context = context
        self.answer, self.later = answer, later
        self.lock = threading.Lock()
        self.busy = False  # a request is answered
        self.waiting: list[Place] = []  # for that, the longest first
        self.places: list[Place] = []  # the oldest first
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
            place = self._take_place(connection, client_of(peer[0]))
            try:
                threading.Thread(target=self._converse, args=(place,), name="https", daemon=True).start()
            except RuntimeError:  # no thread can be started
                self._leave(place)

    def _take_place(self, connection: socket.socket, client: Client) -> Place:
        place = Place(connection, client)
        with self.lock:
            if len(self.places) >= CONNECTIONS:
                now = time.monotonic()
                rank = ranking(self.places, lambda other: 1)
                self._end(max(self.places, key=lambda other: (rank(other), other.blocked(now))))  # of equal ones the first
            self.places.append(place)
        return place

    def _end(self, victim: Place) -> None:
        self.places.remove(victim)
        if victim in self.waiting:
            self.waiting.remove(victim)
            victim.dropped = True
            victim.turn.set()
        try:
            victim.connection.shutdown(socket.SHUT_RDWR)  # its thread closes it
        except OSError:
            pass

    @contextmanager
    def _turn(self, place: Place) -> Iterator[None]:
        """While a request is answered, which waits until no other one is. ConnectionError when the connection has to end meanwhile."""
        with self.lock:
            waits, self.busy = self.busy, True
            if waits:
                place.turn.clear()
                self.waiting.append(place)
        if waits:
            place.turn.wait()
            if place.dropped:
                raise ConnectionError
        try:
            yield
        finally:
            self._pass_turn()

    def _pass_turn(self) -> None:
        """To the client that has the fewest waiting, of these to the request that has waited longest."""
        with self.lock:
            following = min(self.waiting, key=ranking(self.waiting, lambda place: 1), default=None)
            if following is None:
                self.busy = False
            else:
                self.waiting.remove(following)
                following.turn.set()

    @contextmanager
    def _writing(self, place: Place, octets: int) -> Iterator[None]:
        """While a reply is written. Others, of whom holds most octets, end until all replies are within their bound."""
        with self.lock:
            place.octets, place.since = octets, time.monotonic()
            while sum(other.octets for other in self.places) > REPLIES_MAX:
                others = [other for other in self.places if other.octets and other is not place]
                if not others:
                    break
                self._end(max(others, key=ranking(self.places, lambda other: other.octets)))
        try:
            yield
        finally:
            with self.lock:
                place.octets = 0

    def _converse(self, place: Place) -> None:
        plain = place.connection
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
                    if not self._reply(place, connection, head):
                        return
        except (OSError, ValueError):
            pass
        finally:
            self._leave(place)

    def _leave(self, place: Place) -> None:
        with self.lock:
            if place in self.places:
                self.places.remove(place)
        place.connection.close()
        self.threads.release()

    def _reply(self, place: Place, connection: ssl.SSLSocket, head: bytes) -> bool:
        """Answers a request. Returns whether the connection stays open."""
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != 3 or words[2] not in (b"HTTP/1.0", b"HTTP/1.1") or not words[1]:
            connection.sendall(Reply(400, b"").head() + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
            return False
        request = parse_head(head)
        with self._turn(place):
            made = self.answer(request)
        reply = self.later(place.client.subnet, request.path, made) if isinstance(made, Later) else made
        last = words[2] == b"HTTP/1.0" or request.fields.get("connection", "").lower() == "close"
        last = last or "content-length" in request.fields or "transfer-encoding" in request.fields
        tail = f"Content-Length: {len(reply.body)}\r\n{'Connection: close' if last else ''}".encode().rstrip() + b"\r\n\r\n"
        whole = reply.head() + tail + (b"" if request.method == "HEAD" else reply.body)
        with self._writing(place, len(whole)):
            connection.sendall(whole)
        return not last


def ranking(places: Iterable[Place], weigh: Callable[[Place], int]) -> Callable[[Place], tuple[int, int]]:
    """Orders clients by the weight of all places of their network, then of their own."""
    networks: Counter[str] = Counter()
    clients: Counter[Client] = Counter()
    for place in places:
        networks[place.client.network] += weigh(place)
        clients[place.client] += weigh(place)
    return lambda place: (networks[place.client.network], clients[place.client])


def client_of(address: str) -> Client:
    """The client of an address as the kernel writes it."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    lengths = (24, 32) if parsed.version == 4 else (56, 64)
    network, subnet = (str(ipaddress.ip_network((parsed, length), strict=False)) for length in lengths)
    return Client(network, subnet, str(parsed))


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
