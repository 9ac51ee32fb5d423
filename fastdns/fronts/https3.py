"""DNS over HTTP/3. RFC 8484, RFC 9114."""

from __future__ import annotations

import re
from asyncio import Future
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pylsqpack
from aioquic.h3 import connection as library
from aioquic.h3.connection import ErrorCode, FrameType, H3Connection, HeadersState, MessageError, QpackDecompressionFailed, Setting, encode_frame
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.events import StopSendingReceived, StreamDataReceived, StreamReset

from fastdns.fronts.queries import HTTPS3
from fastdns.fronts.quic import STREAMS_MAX, QuicFront
from fastdns.fronts.quic_peer import Limits, Peer
from fastdns.fronts.request import HttpFront, is_for_us
from fastdns.fronts.response import BODY_MAX, Response, date
from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from fastdns.fronts.datagrams import Way
    from fastdns.fronts.front import Settings
    from fastdns.fronts.quic_transport import Transport

__all__ = ["Https3Front"]

#: Octets of a request's headers: names and values, and 32 for each (RFC 9114 4.2.2).
HEADERS_MAX = 16384

#: Streams of a connection where the directive says 0, which is quic-go's default.
STREAMS_DEFAULT = 100

#: Names and values of fields that are all right (RFC 9114 4.2, RFC 9110 5.5). The library looks at them octet by octet, in Python: it is asked
#: only where these do not match.
NAME = re.compile(rb":?[\x21-\x39\x3b-\x40\x5b-\x7e]*")
VALUE = re.compile(rb"(?:[^\0\r\n \t](?:[^\0\r\n]*[^\0\r\n \t])?)?")


def _quickly(pattern: re.Pattern[bytes], check: Callable[..., None]) -> Callable[..., None]:
    def checked(*octets: bytes) -> None:
        if pattern.fullmatch(octets[-1]) is None:
            check(*octets)

    return checked


library.validate_header_name = _quickly(NAME, library.validate_header_name)
library.validate_header_value = _quickly(VALUE, library.validate_header_value)


class Http3(H3Connection):
    """The library's, without a dynamic table for what clients send: one field of it in a few octets of a request could become kilobytes of headers."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._decoder = pylsqpack.Decoder(0, 0)
        #: The stream of a request that HTTP does not allow.
        self.malformed: int | None = None

    def respond(self, stream_id: int, fields: list[tuple[bytes, bytes]], body: bytes) -> None:
        """A whole response at once: its headers and, if it has one, its body."""
        with self._get_or_create_stream(stream_id) as stream:
            stream.headers_send_state = HeadersState.AFTER_HEADERS
            stream.finish_sending()
            instructions, head = self._encoder.encode(stream_id, fields)
            if instructions and self._local_encoder_stream_id is not None:
                self._quic.send_stream_data(self._local_encoder_stream_id, instructions)
            frames = encode_frame(FrameType.HEADERS, head) + (encode_frame(FrameType.DATA, body) if body else b"")
            self._quic.send_stream_data(stream_id, frames, True)

    def _decode_headers(self, stream_id: int, frame_data: bytes | None) -> list[tuple[bytes, bytes]]:
        try:
            return self._decoder.feed_header(stream_id, frame_data or b"")[1]  # without a table there is nothing to tell the client
        except (pylsqpack.DecompressionFailed, pylsqpack.StreamBlocked) as error:
            raise QpackDecompressionFailed from error

    def _get_local_settings(self) -> dict[int, int]:
        return {Setting.QPACK_MAX_TABLE_CAPACITY: 0, Setting.QPACK_BLOCKED_STREAMS: 0, Setting.MAX_FIELD_SECTION_SIZE: HEADERS_MAX}

    def _receive_stream_data(self, event: StreamDataReceived) -> list[H3Event]:
        try:
            return super()._receive_stream_data(event)
        except MessageError:
            if event.stream_id & 3:
                raise
            # RFC 9114 4.1.2: an error of its stream, where the library closes the connection.
            self.malformed = event.stream_id
            return []

    def kept(self) -> int:
        """Octets received of frames that are not complete."""
        return sum(len(stream.buffer) for stream in self._stream.values())

    def swells(self, stream_id: int) -> bool:
        """Whether the headers of a request that is still coming are too long."""
        stream = self._stream.get(stream_id)
        return (
            stream is not None
            and stream.headers_recv_state is stream.headers_send_state is HeadersState.INITIAL
            and stream.frame_type == FrameType.HEADERS
            and stream.frame_size is not None
            and stream.frame_size > HEADERS_MAX
        )


class Request:
    """A request that is not complete, or waits for its reply."""

    __slots__ = ("body", "future", "method", "target")

    def __init__(self, method: str, target: str) -> None:
        self.method = method
        self.target = target
        #: What has come of a POST; None for what is not read, or not any more.
        self.body: bytearray | None = None
        self.future: Future[bytes | None] | None = None


class Https3Peer(Peer):
    """A client's connection and the requests on it."""

    front: Https3Front

    def begin(self) -> None:
        self._http = Http3(self.transport)
        #: By stream, until the response is given.
        self._requests: dict[int, Request] = {}
        #: Streams whose request has got its response, but has not ended: what still comes of it is of no interest.
        self._unended: set[int] = set()
        #: The stream that something is being received of, or -1.
        self._receiving = -1
        self.touch()

    def receive(self, event: StreamDataReceived) -> None:
        http, stream = self._http, event.stream_id
        self._receiving = stream
        for happened in http.handle_event(event):
            if stream in self._unended:
                pass
            elif isinstance(happened, HeadersReceived):
                self._head(stream, happened)
            elif isinstance(happened, DataReceived):
                self._more(stream, happened)
        if http.malformed == stream:
            http.malformed = None
            self._abort(stream, ErrorCode.H3_MESSAGE_ERROR)
        elif stream & 3 == 0 and stream not in self._requests and http.swells(stream):
            self._requests[stream] = Request("", "")
            self._respond(stream, self.front.refuse_head(), ErrorCode.H3_EXCESSIVE_LOAD)
        if event.end_stream and stream & 3 == 0:
            self.finish_stream(stream)
            self._unended.discard(stream)
        self._receiving = -1

    def reset(self, stream: int) -> None:
        self._http.handle_event(StreamReset(ErrorCode.H3_REQUEST_CANCELLED, stream))
        if stream & 3 == 0:
            self.finish_stream(stream)
            self._forget(stream)
            self._unended.discard(stream)
            self.transport.reset_stream(stream, ErrorCode.H3_REQUEST_CANCELLED)
            self.touch()

    def stop(self, stream: int) -> None:
        self._http.handle_event(StopSendingReceived(ErrorCode.H3_REQUEST_CANCELLED, stream))
        self._forget(stream)

    def expire(self, stream: int) -> None:
        self._abort(stream, ErrorCode.H3_REQUEST_INCOMPLETE)

    def kept(self) -> int:
        return self._http.kept() + sum(len(request.body) for request in self._requests.values() if request.body is not None)

    def pending(self) -> Iterable[Future[Any]]:
        return [request.future for request in self._requests.values() if request.future is not None]

    def over(self) -> None:
        for future in self.pending():
            future.cancel()
        self._requests.clear()
        self._unended.clear()

    # ---- a request ----

    def _head(self, stream: int, event: HeadersReceived) -> None:
        request = self._requests.get(stream)
        if request is not None:  # trailers
            if event.stream_ended:
                self._complete(stream, request, whole=True)
            return
        fields = dict(event.headers)
        request = self._requests[stream] = Request(fields[b":method"].decode("latin-1"), fields.get(b":path", b"").decode("latin-1"))
        if sum(len(name) + len(value) + 32 for name, value in event.headers) > HEADERS_MAX:
            self._respond(stream, self.front.refuse_head(), ErrorCode.H3_EXCESSIVE_LOAD)
            return
        request.body = bytearray()
        reads = request.method == "POST" and is_for_us(request.target) and int(fields.get(b"content-length", 0)) <= BODY_MAX
        if event.stream_ended or not reads:
            self._complete(stream, request, whole=event.stream_ended)

    def _more(self, stream: int, event: DataReceived) -> None:
        request = self._requests.get(stream)
        if request is None or request.body is None:
            return
        request.body += event.data
        if event.stream_ended or len(request.body) > BODY_MAX:
            self._complete(stream, request, whole=event.stream_ended)

    def _complete(self, stream: int, request: Request, whole: bool) -> None:
        """Ask what the request asks, or say what is wrong with it; ``whole``: its body has come to its end within the limit."""
        if request.body is None:  # that has happened
            return
        body = bytes(request.body) if whole and len(request.body) <= BODY_MAX else None
        request.body = None
        self.finish_stream(stream)

        def respond(response: Response) -> None:
            if self._requests.get(stream) is request:
                self._respond(stream, response)

        request.future = self.front.answer(self.client, self.way.local, request.method, request.target, body, respond)

    def _respond(self, stream: int, response: Response, reading: int = ErrorCode.H3_NO_ERROR) -> None:
        """The response, after which nothing more of the request is of interest (RFC 9114 4.1)."""
        request = self._requests.pop(stream)
        self.finish_stream(stream)
        body = b"" if request.method == "HEAD" else response.body
        fields = [(b":status", b"%d" % response.status), *((name.encode(), value.encode()) for name, value in response.fields), (b"date", date().encode())]
        self._http.respond(stream, fields, body)
        if self.transport.stop_reading(stream, reading) or stream == self._receiving:
            self._unended.add(stream)
        self.sent(len(body))

    def _abort(self, stream: int, code: int) -> None:
        """Neither read nor answer a request any more; one that was answered stays so."""
        self.finish_stream(stream)
        self.transport.stop_reading(stream, code)
        if stream not in self._unended:
            self._forget(stream)
            self.transport.reset_stream(stream, code)
        self.touch()

    def _forget(self, stream: int) -> None:
        request = self._requests.pop(stream, None)
        if request is not None and request.future is not None:
            request.future.cancel()


class Https3Front(HttpFront, QuicFront):
    """The DoH3 connections of one listening address."""

    transport = HTTPS3
    title = "DoH3"
    responses = Metric("coredns_dns_https3_responses_total", "Counter of DoH3 responses per server and http status code.", "counter", ("server", "status"))
    directive = "https3"
    defaults: ClassVar[Mapping[str, int]] = {"max_streams": 256, "max_connections": 200}
    protocol = "h3"
    no_error = ErrorCode.H3_NO_ERROR
    excessive_load = ErrorCode.H3_EXCESSIVE_LOAD

    def limits_of(self, settings: Settings) -> Limits:
        limits = settings.limits
        return Limits(min(limits["max_streams"] or STREAMS_DEFAULT, STREAMS_MAX), limits["max_connections"], settings.read_timeout)

    def make_peer(self, transport: Transport, way: Way) -> Peer:
        return Https3Peer(self, transport, way)

    def refuse(self, peer: Peer) -> None:
        peer.close(self.excessive_load, "too many connections")
