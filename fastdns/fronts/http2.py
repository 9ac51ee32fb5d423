"""DNS over HTTP/2 (RFC 9113): many requests at once, with limits to what a client may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar

from fastdns.fronts.frames import FRAME_MAX, PREFACE, Code, Fault, Flag, Heads, Kind, frame, unpadded
from fastdns.fronts.hpack import Encoder
from fastdns.fronts.response import BODY_MAX, HEAD_MAX, HEAD_WITH_TARGET_MAX, Response, date

if TYPE_CHECKING:
    from fastdns.fronts.http_connection import HttpConnection

__all__ = ["Http2"]

STREAMS_MAX = 250
#: Octets of all streams, and of one, that a client may send before we take them.
WINDOW = 1 << 20
STREAM_WINDOW = 65535
WINDOW_MAX = (1 << 31) - 1
#: Octets of replies that wait for the client's window: above, the streams that would add to them are reset.
PENDING_MAX = 1 << 20
#: Streams that a client may reset, if they are more than half of those it opened (CVE-2023-44487).
RESETS_MAX = 200
#: Frames that ask for nothing (pings, settings, empty data...), beside ten for each request.
IDLE_FRAMES_MAX = 1000


class Stream:
    """A request and what of its reply has not left yet."""

    __slots__ = ("began", "body", "complete", "ended", "fields", "method", "pending", "room", "target", "trailers", "under_way", "window")

    def __init__(self, method: str, target: str, began: float, window: int) -> None:
        self.method = method
        self.target = target
        self.began = began
        #: Octets that we may send, and that the client may.
        self.window = window
        self.room = STREAM_WINDOW
        #: The client has said all.
        self.ended = False
        self.body: bytearray | None = bytearray()
        self.complete = False
        self.under_way: asyncio.Future[bytes | None] | None = None
        self.pending = b""
        self.trailers: tuple[tuple[str, str], ...] = ()
        #: Those of `Http2.noted` that the request has.
        self.fields: dict[str, str] = {}


class Http2:
    """The streams of one connection."""

    #: Octets of a request's body, of its fields without its target, and with it.
    body_max = BODY_MAX
    head_max = HEAD_MAX
    head_list_max = HEAD_WITH_TARGET_MAX
    #: Fields that `answer` looks at.
    noted: frozenset[str] = frozenset()

    @property
    def streams_max(self) -> int:
        """Requests of the connection at a time."""
        return STREAMS_MAX

    def answer(self, stream: Stream, body: bytes | None, respond: Callable[[Response], None]) -> asyncio.Future[bytes | None] | None:
        """What a request gets goes to ``respond``, at once or later; then the future is returned. ``body`` None: it was too large."""
        connection = self.connection
        return connection.front.answer(connection.client, connection.local, stream.method, stream.target, body, respond)

    def __init__(self, connection: HttpConnection) -> None:
        self.connection = connection
        self.heads = Heads(self.head_list_max, self.noted)
        self.encoder = Encoder()
        self._input = b""
        self._output: list[bytes] = []
        #: Stream and flags of a head that goes on in the next frame, and what there is of it.
        self._block: tuple[int, int, bytearray] | None = None
        self._greeted = self._settled = False
        self._newest = 0
        #: As those of a stream.
        self._window = 65535
        self._room = WINDOW
        self._initial = 65535
        settings_wanted = ((3, self.streams_max), (4, STREAM_WINDOW), (6, self.head_list_max))
        self._put(Kind.SETTINGS, 0, 0, b"".join([name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in settings_wanted]))
        self._put(Kind.WINDOW_UPDATE, 0, 0, (WINDOW - 65535).to_bytes(4, "big"))
        self.streams: dict[int, Stream] = {}
        self.opened = 0
        self.resets = 0
        self.idle_frames = 0
        self.pending = 0
        self.last = False
        self._flushing = False
        self._ending = False
        self._since = connection.front.loop.time()
        settings = connection.front.settings
        connection.wait(max(0.0, connection.began + settings.read_timeout - self._since))
        self._flush()

    # ---- what comes ----

    def receive(self, data: bytes) -> None:
        connection = self.connection
        self._input = self._input + data if self._input else data
        gate = connection.front.gate
        gate.hold()
        try:
            self._read()
        except Fault as fault:
            self._end(fault.code)
            return
        finally:
            gate.release()
        if connection.closing:
            return
        if (self.resets > RESETS_MAX and self.resets * 2 > self.opened) or self.idle_frames > IDLE_FRAMES_MAX + 10 * self.opened:
            self._end(Code.ENHANCE_YOUR_CALM)
            return
        self._soon()

    def _read(self) -> None:
        """Takes up all whole frames."""
        data = self._input
        at = 0
        if not self._greeted:
            if not PREFACE.startswith(data[: len(PREFACE)]):
                raise Fault(Code.PROTOCOL_ERROR)
            if len(data) < len(PREFACE):
                return
            self._greeted = True
            at = len(PREFACE)
        while len(data) - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            if size > FRAME_MAX:
                raise Fault(Code.FRAME_SIZE_ERROR)
            end = at + 9 + size
            if end > len(data):
                break
            self._take(data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + 9], "big") & WINDOW_MAX, data[at + 9 : end])
            at = end
        self._input = data[at:]

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and (kind != Kind.CONTINUATION or number != self._block[0]):
            raise Fault(Code.PROTOCOL_ERROR)
        if not self._settled:
            if kind != Kind.SETTINGS or flags & Flag.ACK:
                raise Fault(Code.PROTOCOL_ERROR)
            self._settled = True
        act = self.ACTS.get(kind)
        if act is not None:
            act(self, flags, number, payload)
        else:  # of a kind that nobody knows (5.5)
            self.idle_frames += 1

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if number % 2 == 0:
            raise Fault(Code.PROTOCOL_ERROR)
        payload = unpadded(flags, payload)
        if flags & Flag.PRIORITY:
            if len(payload) < 5:
                raise Fault(Code.FRAME_SIZE_ERROR)
            payload = payload[5:]
        if flags & Flag.END_HEADERS:
            self._begin(number, flags, payload)
        else:
            self._block = (number, flags, bytearray(payload))

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None:
            raise Fault(Code.PROTOCOL_ERROR)
        self.idle_frames += not payload
        _, first, block = self._block
        block += payload
        if len(block) > self.head_list_max or self.idle_frames > IDLE_FRAMES_MAX:
            raise Fault(Code.ENHANCE_YOUR_CALM)
        if flags & Flag.END_HEADERS:
            self._block = None
            self._begin(number, first, bytes(block))

    def _begin(self, number: int, flags: int, block: bytes) -> None:
        """The whole of a head: a request's, or what follows its body."""
        head = self.heads.read(block)
        stream = self.streams.get(number)
        if stream is not None:
            if not flags & Flag.END_STREAM or stream.ended:
                raise Fault(Code.PROTOCOL_ERROR)
            stream.ended = True
            self._ask(number)
            return
        if number <= self._newest:  # of a stream that we have reset, perhaps
            self.idle_frames += 1
            return
        self._newest = number
        self.opened += 1
        if self.last or len(self.streams) >= self.streams_max:
            self._reset(number, Code.REFUSED_STREAM)
            self.resets += not self.last
            return
        if head is None:
            self._reset(number, Code.PROTOCOL_ERROR)
            self.resets += 1
            return
        stream = Stream(head.method, head.target, self.connection.front.loop.time(), self._initial)
        stream.fields = head.fields
        stream.ended = bool(flags & Flag.END_STREAM)
        self.streams[number] = stream
        if head.size > self.head_max:
            self._respond(number, self.connection.front.refuse_head())
        elif stream.ended:
            self._ask(number)

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        stream = self.streams.get(number)
        if number == 0 or (stream is None and number > self._newest):
            raise Fault(Code.PROTOCOL_ERROR)
        self._room -= len(payload)
        if self._room < 0:
            raise Fault(Code.FLOW_CONTROL_ERROR)
        if self._room < WINDOW // 2:
            self._put(Kind.WINDOW_UPDATE, 0, 0, (WINDOW - self._room).to_bytes(4, "big"))
            self._room = WINDOW
        data = unpadded(flags, payload)
        if not data and not flags & Flag.END_STREAM:
            self.idle_frames += 1
        if stream is None:
            return
        stream.room -= len(payload)
        if stream.ended or stream.room < 0:
            self._reset(number, Code.STREAM_CLOSED if stream.ended else Code.FLOW_CONTROL_ERROR)
            self._forget(number)
            return
        stream.ended = bool(flags & Flag.END_STREAM)
        if stream.body is not None and not stream.complete:
            stream.body += data
            if len(stream.body) > self.body_max:
                stream.body = None
                self._ask(number)
        if stream.ended:
            self._ask(number)
        elif stream.room < STREAM_WINDOW // 2 and number in self.streams:
            self._put(Kind.WINDOW_UPDATE, 0, number, (STREAM_WINDOW - stream.room).to_bytes(4, "big"))
            stream.room = STREAM_WINDOW

    def _stream_reset(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Fault(Code.FRAME_SIZE_ERROR)
        if number == 0 or number > self._newest:
            raise Fault(Code.PROTOCOL_ERROR)
        self.resets += 1
        self._forget(number)

    def _settings(self, flags: int, number: int, payload: bytes) -> None:
        self.idle_frames += 1
        if number:
            raise Fault(Code.PROTOCOL_ERROR)
        if len(payload) % 6 or (flags & Flag.ACK and payload):
            raise Fault(Code.FRAME_SIZE_ERROR)
        if flags & Flag.ACK:
            return
        self.connection.asked = True  # it speaks HTTP/2: from here on it may be idle for longer than the handshake may take
        for at in range(0, len(payload), 6):
            name, value = int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big")
            if (name == 2 and value > 1) or (name == 5 and not FRAME_MAX <= value < 1 << 24):
                raise Fault(Code.PROTOCOL_ERROR)
            if name == 4:
                if value > WINDOW_MAX:
                    raise Fault(Code.FLOW_CONTROL_ERROR)
                for stream in self.streams.values():
                    stream.window += value - self._initial
                self._initial = value
        self._put(Kind.SETTINGS, Flag.ACK, 0)
        self.go_on()

    def _ping(self, flags: int, number: int, payload: bytes) -> None:
        self.idle_frames += 1
        if number:
            raise Fault(Code.PROTOCOL_ERROR)
        if len(payload) != 8:
            raise Fault(Code.FRAME_SIZE_ERROR)
        if not flags & Flag.ACK:
            self._put(Kind.PING, Flag.ACK, 0, payload)

    def _window_update(self, flags: int, number: int, payload: bytes) -> None:
        self.idle_frames += 1
        if len(payload) != 4:
            raise Fault(Code.FRAME_SIZE_ERROR)
        more = int.from_bytes(payload, "big") & WINDOW_MAX
        if number == 0:
            self._window += more
            if not more or self._window > WINDOW_MAX:
                raise Fault(Code.FLOW_CONTROL_ERROR if more else Code.PROTOCOL_ERROR)
        elif number > self._newest:
            raise Fault(Code.PROTOCOL_ERROR)
        elif (stream := self.streams.get(number)) is not None:
            stream.window += more
            if not more or stream.window > WINDOW_MAX:
                self._reset(number, Code.FLOW_CONTROL_ERROR if more else Code.PROTOCOL_ERROR)
                self._forget(number)
        self.go_on()

    def _priority(self, flags: int, number: int, payload: bytes) -> None:
        self.idle_frames += 1
        if number == 0 or len(payload) != 5:
            raise Fault(Code.FRAME_SIZE_ERROR if number else Code.PROTOCOL_ERROR)

    def _goaway(self, flags: int, number: int, payload: bytes) -> None:
        self.finish()

    def _push_promise(self, flags: int, number: int, payload: bytes) -> None:
        raise Fault(Code.PROTOCOL_ERROR)

    ACTS: ClassVar[dict[int, Callable[[Http2, int, int, bytes], None]]] = {
        Kind.DATA: _data,
        Kind.HEADERS: _headers,
        Kind.PRIORITY: _priority,
        Kind.RST_STREAM: _stream_reset,
        Kind.SETTINGS: _settings,
        Kind.PUSH_PROMISE: _push_promise,
        Kind.PING: _ping,
        Kind.GOAWAY: _goaway,
        Kind.WINDOW_UPDATE: _window_update,
        Kind.CONTINUATION: _continuation,
    }

    def _ask(self, number: int) -> None:
        stream = self.streams.get(number)
        if stream is None or stream.complete:
            return
        stream.complete = True
        body = None if stream.body is None else bytes(stream.body)
        stream.under_way = self.answer(stream, body, lambda response: self._respond(number, response))

    def _forget(self, number: int) -> None:
        stream = self.streams.pop(number, None)
        if stream is None:
            return
        self.pending -= len(stream.pending)
        if stream.under_way is not None:
            stream.under_way.cancel()

    # ---- what leaves ----

    def _put(self, kind: int, flags: int, number: int, payload: bytes = b"") -> None:
        self._output.append(frame(kind, flags, number, payload))

    def _put_fields(self, number: int, fields: Iterable[tuple[str, str]], ended: bool) -> None:
        block = self.encoder.encode([(name.encode("ascii"), value.encode("latin-1")) for name, value in fields])
        kind, flags = Kind.HEADERS, Flag.END_STREAM if ended else 0
        while len(block) > FRAME_MAX:
            self._put(kind, flags, number, block[:FRAME_MAX])
            block, kind, flags = block[FRAME_MAX:], Kind.CONTINUATION, 0
        self._put(kind, flags | Flag.END_HEADERS, number, block)

    def _reset(self, number: int, code: Code) -> None:
        self._put(Kind.RST_STREAM, 0, number, code.to_bytes(4, "big"))

    def _respond(self, number: int, response: Response) -> None:
        stream = self.streams.get(number)
        if stream is None or self.connection.closing:
            return
        stream.complete = True
        stream.under_way = None
        stream.began = self.connection.front.loop.time()
        stream.pending = response.body if stream.method != "HEAD" else b""
        stream.trailers = response.trailers
        fields = [(":status", str(response.status)), ("date", date()), *response.fields]
        self._put_fields(number, fields, ended=not stream.pending and not stream.trailers)
        self.pending += len(stream.pending)
        self._send(number, stream)
        if self.pending > PENDING_MAX and number in self.streams:
            self._reset(number, Code.ENHANCE_YOUR_CALM)
            self._forget(number)
        self._soon()

    def _send(self, number: int, stream: Stream) -> None:
        """As much as the client's window takes; the stream ends with the last of it."""
        while stream.pending:
            room = min(stream.window, self._window, FRAME_MAX)
            if room <= 0:
                return
            part, stream.pending = stream.pending[:room], stream.pending[room:]
            self.pending -= len(part)
            stream.window -= len(part)
            self._window -= len(part)
            self._put(Kind.DATA, Flag.END_STREAM if not stream.pending and not stream.trailers else 0, number, part)
        if stream.trailers:
            self._put_fields(number, stream.trailers, ended=True)
        if not stream.ended:  # the client has not said all, and nobody will listen
            self._reset(number, Code.NO_ERROR)
        del self.streams[number]
        self.connection.asked = True
        self._since = self.connection.front.loop.time()

    def go_on(self) -> None:
        """Sends what waited for room."""
        if self.pending:
            for number, stream in list(self.streams.items()):
                if stream.pending:
                    self._send(number, stream)
        self._soon()

    def _soon(self) -> None:
        """Has what was said leave in one piece at the end of this turn of the loop."""
        if not self._flushing:
            self._flushing = True
            self.connection.front.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        connection = self.connection
        if self._output and not connection.closing:
            connection.transport.write(b"".join(self._output))
        self._output.clear()
        if self.last and not self.streams and not self._ending and not connection.closing:
            self._end(Code.NO_ERROR)

    # ---- the end, and time ----

    def _end(self, code: Code) -> None:
        """The connection ends at once, with what was asked on it."""
        self._ending = True
        self.lose()
        self._put(Kind.GOAWAY, 0, 0, self._newest.to_bytes(4, "big") + code.to_bytes(4, "big"))
        self.last = True
        self._flush()
        self.connection.close()

    def finish(self) -> None:
        self.last = True
        self._soon()

    def lose(self) -> None:
        for number in list(self.streams):
            self._forget(number)

    def time_is_up(self) -> None:
        """Requests that are not complete in time are reset; a connection that has none is idle until it ends."""
        connection = self.connection
        settings = connection.front.settings
        now = connection.front.loop.time()
        if not connection.asked and not self.opened:
            connection.close()
            return
        for number, stream in list(self.streams.items()):
            stuck = settings.write_timeout if stream.complete else settings.read_timeout
            if (not stream.complete or stream.pending) and now - stream.began >= stuck:
                self._reset(number, Code.CANCEL)
                self._forget(number)
        if not self.streams and now - self._since >= settings.idle_timeout - 0.001:
            self._end(Code.NO_ERROR)
            return
        self._soon()
        if self.streams:
            connection.wait(settings.read_timeout)
        else:
            connection.wait(max(0.05, min(settings.read_timeout, self._since + settings.idle_timeout - now)))
