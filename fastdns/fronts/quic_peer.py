"""One connection of a QUIC front: datagrams in, streams with a deadline each, datagrams out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import Future, TimerHandle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol, cast

from aioquic.quic import events
from aioquic.quic.packet import QuicErrorCode, QuicFrameType

from fastdns.fronts.quic_transport import ACK_DELAY, Transport

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from fastdns.fronts.datagrams import Way

__all__ = ["LIVING", "Limits", "Peer", "Stage"]

#: Seconds for a handshake, whatever the idle timeout is.
HANDSHAKE_TIMEOUT = 5.0

#: Octets of replies that a connection's client may leave unacknowledged.
BACKLOG_MAX = 256 * 1024


class Stage(Enum):
    """What a connection counts as."""

    HANDSHAKE = auto()
    SERVED = auto()
    ENDED = auto()
    FORGOTTEN = auto()


#: Those of connections that somebody may still be served on.
LIVING = (Stage.HANDSHAKE, Stage.SERVED)


@dataclass(frozen=True)
class Limits:
    """What a front allows its clients."""

    #: Streams of each kind that a connection may have open.
    streams: int
    #: Connections; 0 for any number.
    connections: int
    #: Seconds for a request to be complete, from when its stream was opened.
    read_timeout: float
    #: Queries that wait for their answers at a time, for all connections; further ones wait their turn. 0 for any number.
    workers: int = 0


class PeerFront(Protocol):
    """What a connection needs of its front end."""

    loop: AbstractEventLoop
    limits: Limits

    @property
    def excessive_load(self) -> int:
        """Error code with which a connection is closed that costs too much."""

    def touch(self, peer: Peer) -> None:
        """Flush a connection once what goes on now is done."""

    def flush(self, peer: Peer, now: float) -> None:
        """Let a connection act."""

    def admit(self, peer: Peer) -> bool:
        """Count a connection among those served; False, and it is closed, when it is one too many."""

    def leave(self, peer: Peer) -> None:
        """It is served no more."""

    def learn(self, peer: Peer, name: bytes) -> None:
        """Datagrams with this connection id are its."""

    def unlearn(self, peer: Peer, name: bytes) -> None:
        """The client uses this connection id no more."""

    def forget(self, peer: Peer) -> None:
        """Nothing leads to it any more."""


class Peer(ABC):
    """A client's connection. All methods run on the front's loop.

    A stream has a deadline from when the client opened it until its request is complete (`finish_stream`). `flush` is called once after whatever
    happened to a connection, not for each thing that happens, so that replies leave together.
    """

    def __init__(self, front: PeerFront, transport: Transport, way: Way) -> None:
        self.front = front
        self.transport = transport
        transport.kept_above = self.kept
        #: Socket and local address that its datagrams come to.
        self.way = way
        self.stage = Stage.HANDSHAKE
        #: Connection ids that lead to it; the front's.
        self.names: set[bytes] = set()
        #: The front has it on its list of those to flush.
        self.touched = False
        #: Deadline of each stream whose request is not complete, the earliest first.
        self.reading: dict[int, float] = {}
        #: Ids of the client's bidirectional streams below this have been noticed.
        #: Bidirectional streams of the client that have been noticed; the next one's id is four times this.
        self.noticed = 0
        #: Ids above, whose requests are complete.
        self._early: set[int] = set()
        self._give_up_at: float | None = front.loop.time() + HANDSHAKE_TIMEOUT
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0
        self._wrote = False
        #: Octets since the backlog was looked at.
        self._given = 0
        self._last_words: list[tuple[bytes, Any]] = []
        self._deaf_to = 0

    # ---- what a protocol fills in ----

    @abstractmethod
    def begin(self) -> None:
        """The connection is one of those that are served."""

    @abstractmethod
    def receive(self, event: events.StreamDataReceived) -> None:
        """Octets of a stream, in order, perhaps the last ones."""

    @abstractmethod
    def reset(self, stream: int) -> None:
        """The client will send no more on a stream, which was not at its end."""

    @abstractmethod
    def stop(self, stream: int) -> None:
        """The client does not want what we send on a stream."""

    @abstractmethod
    def expire(self, stream: int) -> None:
        """A stream's request was not complete in time."""

    @abstractmethod
    def kept(self) -> int:
        """Octets that the client has sent and that wait here for something."""

    @abstractmethod
    def pending(self) -> Iterable[Future[Any]]:
        """What will bring replies."""

    @abstractmethod
    def over(self) -> None:
        """The connection has ended; whatever is still under way is for nobody."""

    # ---- what protocols call ----

    def close(self, code: int, reason: str = "") -> None:
        """End the connection with an application error code."""
        self.transport.close(error_code=code, reason_phrase=reason)
        self.touch()

    def send(self, stream: int, octets: bytes, end: bool) -> None:
        """Send on a stream, soon."""
        self.transport.send_stream_data(stream, octets, end)
        self.sent(len(octets))

    def sent(self, octets: int) -> None:
        """So much has been given to the transport. A client that takes nothing of it is not served any longer."""
        self._given += octets
        if self._given > BACKLOG_MAX // 4:
            self._given = 0
            if self.transport.backlog() > BACKLOG_MAX:
                self.close(self.front.excessive_load, "replies are not taken")
        self.touch()

    def touch(self) -> None:
        """Something waits to be sent."""
        self._wrote = True
        self.front.touch(self)

    def finish_stream(self, stream: int) -> None:
        """A stream's request is complete, or given up."""
        if self.reading.pop(stream, None) is None and stream >= self.noticed * 4:
            self._early.add(stream)

    @property
    def client(self) -> tuple[Any, ...]:
        """Where its datagrams come from now: it may move (RFC 9000 9)."""
        return cast(tuple[Any, ...], self.transport.get_peer_address())

    # ---- what the front calls ----

    def datagram(self, octets: bytes, address: Any, now: float) -> None:
        """One datagram. Sends nothing yet."""
        if self.stage not in LIVING:
            self._repeat_last_words()
            return
        self.transport.receive_datagram(octets, address, now)

    def flush(self, now: float) -> None:
        """Act on what has come, send what there is to send, and set the clock."""
        if self.stage is Stage.FORGOTTEN:
            return
        transport = self.transport
        self._take_events(now)
        if self.stage is Stage.SERVED:
            self._notice(now)
        if self._wrote or transport.has_news(now):
            self._send(now)
        self._set_clock(now)

    def _send(self, now: float) -> None:
        transport = self.transport
        if self._wrote:
            transport.acknowledge(now)
            self._wrote = False
        ending = transport.ended
        datagrams = transport.datagrams_to_send(now)
        for octets, address in datagrams:
            self.way.send(octets, address)
        if ending and self.stage in LIVING:
            self._last_words = datagrams
            self._end()

    def drop(self) -> None:
        """Forget it at once and without a word."""
        if self.stage in LIVING:
            self._end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.front.forget(self)

    # ---- below ----

    def _take_events(self, now: float) -> None:
        next_event = cast(Callable[[], Any], self.transport.next_event)
        while (event := next_event()) is not None:
            kind = type(event)
            if kind is events.StreamDataReceived:
                if self._admitted():
                    self.receive(event)
                continue
            self._wrote = True  # whatever it is, there may be an answer to it
            if kind is events.HandshakeCompleted:
                self.transport.slim()
                self._give_up_at = None
                fault = self.transport.fault()
                if fault:
                    self.transport.close(QuicErrorCode.CRYPTO_ERROR + fault, QuicFrameType.CRYPTO)
                self._admitted()
            elif kind is events.StreamReset:
                if self._admitted():
                    self.reset(event.stream_id)
            elif kind is events.StopSendingReceived:
                if self._admitted():
                    self.stop(event.stream_id)
            elif kind is events.ConnectionIdIssued:
                self.front.learn(self, event.connection_id)
            elif kind is events.ConnectionIdRetired:
                self.front.unlearn(self, event.connection_id)

    def _admitted(self) -> bool:
        """Whether it is served: it is from when its handshake is complete, or early data has come, if there is room."""
        if self.stage is Stage.HANDSHAKE and not self.transport.ended and self.front.admit(self):
            self.begin()
        return self.stage is Stage.SERVED and not self.transport.ended

    def _notice(self, now: float) -> None:
        """Give the streams that the client has opened since the last look, and that have not brought their request yet, a deadline."""
        opened = self.transport.opened
        while self.noticed < opened:
            stream = self.noticed * 4
            if stream in self._early:
                self._early.discard(stream)
            else:
                self.reading[stream] = now + self.front.limits.read_timeout
            self.noticed += 1

    def _set_clock(self, now: float) -> None:
        """One timer for everything. It is left alone when what comes next is later than it, or hardly earlier: it then looks again."""
        if self._timer is not None and self._timer_at <= now + ACK_DELAY:
            return
        at = self.transport.get_timer()
        if at is None:  # terminated
            self.drop()
            return
        if self.reading:
            at = min(at, next(iter(self.reading.values())))
        if self._give_up_at is not None:
            at = min(at, self._give_up_at)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self.front.loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        loop = self.front.loop
        now = max(self._timer_at, loop.time())
        if self._give_up_at is not None and now >= self._give_up_at:
            self.drop()
            return
        at = self.transport.get_timer()
        if at is not None and now >= at:
            self.transport.handle_timer(now)
            self._wrote = True
        if self.stage is Stage.SERVED:
            for stream in [stream for stream, deadline in self.reading.items() if deadline <= now]:
                self.finish_stream(stream)
                if not self.transport.ended:
                    self.expire(stream)
        self.front.flush(self, now)

    def _end(self) -> None:
        served = self.stage is Stage.SERVED
        self.front.leave(self)
        self.reading.clear()
        self._give_up_at = None
        if served:
            self.over()

    def _repeat_last_words(self) -> None:
        """The client has not heard that the connection is closed: say it again, to every second, fourth, eighth … datagram (RFC 9000 10.2.1)."""
        self._deaf_to += 1
        if self._deaf_to & (self._deaf_to - 1) == 0:
            for octets, address in self._last_words:
                self.way.send(octets, address)
