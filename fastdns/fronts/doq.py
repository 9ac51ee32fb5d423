"""DNS over QUIC: a query a stream. RFC 9250."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from fastdns.fronts.queries import QUIC, Rejected
from fastdns.fronts.quic import STREAMS_MAX, QuicFront
from fastdns.fronts.quic_peer import Limits, Peer
from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from aioquic.quic.events import StreamDataReceived

    from fastdns.fronts.datagrams import Way
    from fastdns.fronts.front import Settings
    from fastdns.fronts.quic_transport import Transport

__all__ = ["DoqFront"]

#: Error codes of RFC 9250 4.3.
NO_ERROR, PROTOCOL_ERROR, REQUEST_CANCELLED, EXCESSIVE_LOAD = 0x0, 0x2, 0x3, 0x4
#: Connections of an address; no directive changes it.
CONNECTIONS_MAX = 200


RESPONSES = Metric("coredns_dns_quic_responses_total", "Counter of DoQ responses per server and QUIC application code.", "counter", ("server", "status"))


class DoqPeer(Peer):
    """A client's connection and the queries on it."""

    front: DoqFront

    def begin(self) -> None:
        #: What has come of queries that are not complete, by stream.
        self._partial: dict[int, bytearray] = {}
        #: Complete queries for which there is no worker yet.
        self.waiting: dict[int, bytes] = {}
        #: What will bring the replies.
        self.asked: dict[int, Future[bytes | None]] = {}
        #: Streams whose query was taken, but which have not ended: the end is not waited for, and what comes besides is ignored.
        self._unended: set[int] = set()

    def receive(self, event: StreamDataReceived) -> None:
        stream, end = event.stream_id, event.end_stream
        octets: bytes | bytearray = event.data
        if stream & 3:  # a unidirectional one has no use
            return
        if stream in self._unended:
            if end:
                self._unended.discard(stream)
            return
        begun = self._partial.get(stream)
        if begun is not None:
            begun += octets
            octets = begun
        have = len(octets)
        if have >= 2:
            size = 2 + (octets[0] << 8 | octets[1])
            if 2 < size <= have:
                self._take(stream, bytes(octets[2:size]), end)
                return
            if size == 2:
                end = True
        if end:
            self._fail()
        elif begun is None:
            self._partial[stream] = bytearray(octets)

    def reset(self, stream: int) -> None:
        """RFC 9250 4.3.1: the query is not answered; the others of the connection are."""
        self._partial.pop(stream, None)
        self._unended.discard(stream)
        if stream & 3 == 0:
            self.finish_stream(stream)
            self.stop(stream)
            self.transport.reset_stream(stream, REQUEST_CANCELLED)
            self.touch()

    def stop(self, stream: int) -> None:
        if stream in self._partial or stream in self.reading or stream >= 4 * self.noticed:  # no reply is wanted before the query is complete
            self.finish_stream(stream)
            self._partial.pop(stream, None)
            self._unended.add(stream)
        self.waiting.pop(stream, None)
        future = self.asked.pop(stream, None)
        if future is not None:
            future.cancel()

    def expire(self, stream: int) -> None:
        self._fail()

    def kept(self) -> int:
        return sum(map(len, self._partial.values())) + sum(map(len, self.waiting.values()))

    def pending(self) -> Iterable[Future[Any]]:
        return self.asked.values()

    def over(self) -> None:
        for future in self.asked.values():
            future.cancel()
        for kept in (self._partial, self.waiting, self.asked, self._unended):
            kept.clear()

    def answered(self, stream: int, future: Future[bytes | None]) -> None:
        """The server has answered a query, or will not."""
        if self.asked.pop(stream, None) is None:
            return
        try:
            reply = future.result()
        except Rejected:
            self._fail()
            return
        self.front.count(NO_ERROR)
        if reply is not None:  # else the stream stays open
            self.send(stream, len(reply).to_bytes(2, "big") + reply, True)

    def _take(self, stream: int, message: bytes, end: bool) -> None:
        self.finish_stream(stream)
        self._partial.pop(stream, None)
        if not end:
            self._unended.add(stream)
        self.front.ask(self, stream, message)

    def _fail(self) -> None:
        """RFC 9250 4.3.3: an error of the protocol ends the connection."""
        if not self.transport.ended:
            self.front.count(PROTOCOL_ERROR)
            self.close(PROTOCOL_ERROR)


class DoqFront(QuicFront):
    """The DoQ connections of one listening address."""

    protocol = "doq"

    transport = QUIC
    directive = "quic"
    defaults: ClassVar[Mapping[str, int]] = {"max_streams": 256, "worker_pool_size": 1024}
    no_error = NO_ERROR
    excessive_load = EXCESSIVE_LOAD

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._working = 0
        self._waiting: deque[tuple[DoqPeer, int]] = deque()

    def limits_of(self, settings: Settings) -> Limits:
        limits = settings.limits
        return Limits(min(limits["max_streams"], STREAMS_MAX), CONNECTIONS_MAX, settings.read_timeout, limits["worker_pool_size"])

    def make_peer(self, transport: Transport, way: Way) -> Peer:
        return DoqPeer(self, transport, way)

    def refuse(self, peer: Peer) -> None:
        peer.close(NO_ERROR, "too many connections")

    def ask(self, peer: DoqPeer, stream: int, message: bytes) -> None:
        """Have a query answered as soon as a worker is free. One that is still being sent takes none."""
        if self.limits.workers and self._working >= self.limits.workers:
            peer.waiting[stream] = message
            self._waiting.append((peer, stream))
        else:
            self._ask(peer, stream, message)

    def count(self, code: int) -> None:
        """A query was served, or a connection closed."""
        RESPONSES.add((self.settings.address, f"{code:#x}"))

    def _ask(self, peer: DoqPeer, stream: int, message: bytes) -> None:
        self._working += 1
        future = self.gate.ask(message, peer.client, peer.way.local)
        peer.asked[stream] = future
        future.add_done_callback(partial(self._answered, peer, stream))

    def _answered(self, peer: DoqPeer, stream: int, future: Future[bytes | None]) -> None:
        self._working -= 1
        while self._waiting and self._working < self.limits.workers:
            waiter, of = self._waiting.popleft()
            message = waiter.waiting.pop(of, None)
            if message is not None:
                self._ask(waiter, of, message)
        peer.answered(stream, future)
