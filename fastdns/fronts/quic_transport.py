"""aioquic's connection with the bounds of a server that strangers talk to. RFC 9000."""

from __future__ import annotations

import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import END_STATES, Limit, QuicConnection, QuicConnectionState
from aioquic.quic.packet import QuicFrameType
from aioquic.quic.stream import QuicStreamSender
from aioquic.tls import Alert, AlertDescription, Epoch, SessionTicket, verify_certificate
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

if TYPE_CHECKING:
    from fastdns.fronts.credentials import Credentials

__all__ = ["ACK_DELAY", "CONNECTION_WINDOW", "STREAM_WINDOW", "TicketStore", "Transport"]

#: Octets that a client may send on one stream, which is never raised: more than the longest message with its length, or request with its headers.
STREAM_WINDOW = 96 * 1024

#: Octets of a connection that a server keeps: behind a gap, of requests that are not complete, and of those that wait their turn.
CONNECTION_WINDOW = 128 * 1024

#: Seconds that an acknowledgement waits for something to ride along with. Clients are told 25 ms (max_ack_delay).
ACK_DELAY = 0.01

#: An alert that the library has no name for.
CERTIFICATE_REQUIRED = 116

# Members of an enumeration are equal only where they are the same, so this hash is right, and it is not computed in Python; the library's maps of every
# packet are by them.
Epoch.__hash__ = object.__hash__  # type: ignore[method-assign]


class Silent:
    """In place of the library's loggers: strangers write no lines into the log, and a packet pays nothing for lines that nobody reads."""

    def debug(self, *_: object) -> None:
        """Nothing."""

    info = warning = error = debug


SILENT: Any = Silent()


class TicketStore:
    """Session tickets issued, each good once: what was sent as early data cannot be replayed (RFC 8446 8.1)."""

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._tickets: OrderedDict[bytes, SessionTicket] = OrderedDict()

    def put(self, ticket: SessionTicket) -> None:
        """Keep one; the oldest goes when there are too many."""
        self._tickets[ticket.ticket] = ticket
        if len(self._tickets) > self._capacity:
            self._tickets.popitem(last=False)

    def take(self, name: bytes) -> SessionTicket | None:
        """The ticket that a client shows, or None."""
        return self._tickets.pop(name, None)


class Transport(QuicConnection):
    """The server's side of one connection.

    Other than the library's it takes the number of streams from the configuration of the server, never opens its windows further than what it has
    read makes room for (a client that sends a lot may not so earn the right to have a lot kept), and sends acknowledgements along with replies.
    """

    def __init__(
        self, configuration: QuicConfiguration, *, original: bytes, retry: bytes | None, streams: int, tickets: TicketStore, credentials: Credentials | None
    ) -> None:
        # A resumed session shows no certificate.
        self._credentials = credentials if credentials is not None and credentials.client_auth != "nocert" else None
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original,
            retry_source_connection_id=retry,
            session_ticket_fetcher=None if self._credentials else tickets.take,
            session_ticket_handler=None if self._credentials else tickets.put,
        )
        self._logger = self._loss._logger = SILENT
        self._ack_delay = ACK_DELAY
        #: Octets that the protocol above keeps of what was received.
        self.kept_above: Callable[[], int] = int
        self._streams_allowed = streams
        #: Packets were found to be lost since `has_news` was asked.
        self._lost = False
        self._forward_lost = self._loss._on_packets_lost
        self._loss._on_packets_lost = self._on_packets_lost  # type: ignore[method-assign]
        self._local_max_streams_bidi = Limit(QuicFrameType.MAX_STREAMS_BIDI, "max_streams_bidi", streams)
        self._local_max_streams_uni = Limit(QuicFrameType.MAX_STREAMS_UNI, "max_streams_uni", streams)

    @property
    def unborn(self) -> bool:
        """Nothing has come yet that could be decrypted."""
        return self._state is QuicConnectionState.FIRSTFLIGHT

    @property
    def ended(self) -> bool:
        """Closed by either side, or about to be."""
        return self._close_event is not None or self._state in END_STATES

    @property
    def opened(self) -> int:
        """Bidirectional streams that the client has opened so far; the next one has four times this as its id."""
        used: int = self._local_max_streams_bidi.used
        return used

    def fault(self) -> int:
        """The alert that the client's certificate deserves, or its lack, once the handshake is complete; 0 where all is well. RFC 8446 6.2."""
        if self._credentials is None:
            return 0
        kind, certificate = self._credentials.client_auth, self.tls._peer_certificate
        if certificate is None:
            return CERTIFICATE_REQUIRED if kind in ("require", "require_and_verify") else 0
        if kind not in ("verify_if_given", "require_and_verify"):
            return 0
        default = ssl.get_default_verify_paths()
        authority = self._credentials.authority
        try:
            verify_certificate(certificate, self.tls._peer_certificate_chain, cafile=authority or default.cafile, capath=None if authority else default.capath)
        except Alert as alert:
            return int(alert.description)
        return 0 if is_for_clients(certificate) else int(AlertDescription.unsupported_certificate)

    def stop_reading(self, stream: int, code: int) -> bool:
        """Ask the client to send no more on a stream; False where it has ended already."""
        found = self._streams.get(stream)
        if found is None or found.receiver.is_finished:
            return False
        self.stop_stream(stream, code)
        return True

    def has_news(self, now: float) -> bool:
        """Whether what was received is a reason to send something now. To find out by building packets costs as much as sending one."""
        path = self._network_paths[0]
        if self._lost or not self._handshake_confirmed or len(self._network_paths) > 1 or not path.is_validated:
            self._lost = False
            return True
        streams, data = self._local_max_streams_bidi, self._local_max_data
        acknowledge_at = self._spaces[Epoch.ONE_RTT].ack_at
        return (
            self.ended
            or (acknowledge_at is not None and acknowledge_at <= now)
            or (streams.sent - streams.used) * 2 < self._streams_allowed  # those that ended are counted when packets are built
            or data.value - data.used < CONNECTION_WINDOW // 2
            or bool(self._retire_connection_ids or path.remote_challenges)
            or any(not stream.sender.buffer_is_empty for stream in self._streams_queue)
        )

    def _on_packets_lost(self, packets: Any, **how: Any) -> None:
        packets = tuple(packets)
        self._lost = self._lost or bool(packets)
        self._forward_lost(packets=packets, **how)

    def backlog(self) -> int:
        """Octets that are kept to be sent, or sent again."""
        return sum(len(stream.sender._buffer) for stream in self._streams.values())

    def acknowledge(self, now: float) -> None:
        """Let what is acknowledged travel in the packets that leave next."""
        space = self._spaces.get(Epoch.ONE_RTT)
        if space is not None and space.ack_at is not None and space.ack_at > now:
            space.ack_at = now

    def slim(self) -> None:
        """Give back what only the handshake needed."""
        for epoch in (Epoch.INITIAL, Epoch.HANDSHAKE):
            self._crypto_buffers.pop(epoch, None)

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        self.tls._request_client_certificate = self._credentials is not None

    def _write_stream_frame(self, builder: Any, space: Any, stream: Any, max_offset: int) -> int:
        used: int = super()._write_stream_frame(builder, space, stream, max_offset)
        if not has_rest(stream.sender):  # which the library would find out by asking for another frame, for each packet
            stream.sender.buffer_is_empty = True
        return used

    # The library doubles a limit once half of it is used. Seeming unused it is left alone, and only written where it has changed.

    def _write_connection_limits(self, builder: Any, space: Any) -> None:
        limit = self._local_max_data
        used = limit.used
        if limit.value - used < CONNECTION_WINDOW // 2:
            kept = self.kept_above() + sum(stream.receiver.highest_offset - stream.receiver.starting_offset() for stream in self._streams.values())
            limit.value = max(limit.value, used - kept + CONNECTION_WINDOW)
        limit.used = 0
        try:
            super()._write_connection_limits(builder, space)
        finally:
            limit.used = used

    def _write_stream_limits(self, builder: Any, space: Any, stream: Any) -> None:
        receiver = stream.receiver
        if stream.stream_id & 2 and receiver.highest_offset * 2 > stream.max_stream_data_local > 0:
            # A control stream of HTTP/3 lives as long as its connection.
            stream.max_stream_data_local = max(stream.max_stream_data_local, receiver.starting_offset() + STREAM_WINDOW)
        elif stream.max_stream_data_local_sent == stream.max_stream_data_local:
            return
        highest, receiver.highest_offset = receiver.highest_offset, 0
        try:
            super()._write_stream_limits(builder, space, stream)
        finally:
            receiver.highest_offset = highest


def has_rest(sender: QuicStreamSender) -> bool:
    """Whether a stream has something to send."""
    return sender._pending_eof or len(sender._pending) > 0


def is_for_clients(certificate: x509.Certificate) -> bool:
    """Whether its extended key usage, where it has one, allows clients. RFC 5280 4.2.1.12."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.CLIENT_AUTH in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages
