"""What DoQ and DoH3 share: which of the connections on them a datagram is for. RFC 9000."""

from __future__ import annotations

import asyncio
import io
import os
import socket
from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from aioquic._buffer import Buffer
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE, QuicConfiguration
from aioquic.quic.packet import QuicHeader, QuicPacketType, encode_quic_retry, encode_quic_version_negotiation, pull_quic_header
from aioquic.quic.retry import QuicRetryTokenHandler

from fastdns.fronts.datagrams import Datagrams, Way
from fastdns.fronts.front import Front, Settings
from fastdns.fronts.quic_peer import LIVING, Limits, Peer, Stage
from fastdns.fronts.quic_transport import CONNECTION_WINDOW, STREAM_WINDOW, TicketStore, Transport
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.fronts.queries import Placed

__all__ = ["STREAMS_MAX", "QuicFront"]

#: Datagrams taken from a socket at a time, before anybody else on the loop has a turn.
BATCH = 64

#: Octets that the kernel keeps for a socket, if it may: bursts are of all connections together.
RECEIVE_BUFFER = 4 << 20

#: Octets of a connection id; the library's default, and what the short header is read by.
CONNECTION_ID_LENGTH = 8

#: Bit of the first octet.
LONG_HEADER = 0x80

#: Handshakes under way above which a client must show that it has its address (Retry, RFC 9000 8.1.2), and above which none begins.
RETRY_ABOVE = 32
HANDSHAKES_MAX = 256

#: Streams that a connection may have open, whatever the Corefile says: a client that opens one opens all with lower ids.
STREAMS_MAX = 65536

#: Seconds between two lines about connections that failed for a reason of ours.
COMPLAINT_INTERVAL = 60.0

log = Log("server")


class QuicFront(Front):
    """The QUIC connections of one listening address, whatever the protocol over them.

    A reload changes what connections to come are offered, and leaves those that stand as they are.
    """

    kind = socket.SOCK_DGRAM

    #: Of TLS (ALPN).
    protocol: ClassVar[str]

    #: With which a connection is closed for no fault of anybody.
    no_error: ClassVar[int]
    #: With which one is closed that costs too much.
    excessive_load: ClassVar[int]

    def __init__(self, sock: socket.socket, settings: Settings, loop: asyncio.AbstractEventLoop, place: Placed) -> None:
        super().__init__(sock, settings, loop, place)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self.tickets = TicketStore()
        #: Connections by each of the ids that their datagrams may show.
        self.peers: dict[bytes, Peer] = {}
        self._stages: Counter[Stage] = Counter()
        self._touched: list[Peer] = []
        self._scheduled = False
        self._batching = False
        self._quiet_until = 0.0
        self._retry = QuicRetryTokenHandler()
        self._datagrams = Datagrams(sock)
        self._configure()

    @abstractmethod
    def make_peer(self, transport: Transport, way: Way) -> Peer:
        """A connection of the protocol."""

    @abstractmethod
    def refuse(self, peer: Peer) -> None:
        """Close a connection that is one too many."""

    @abstractmethod
    def limits_of(self, settings: Settings) -> Limits:
        """What the protocol's directive says."""

    # ---- life ----

    async def start(self) -> None:
        self.loop.add_reader(self.sock.fileno(), self._readable)

    async def stop(self) -> None:
        # A successor on the same socket reads what comes from now on.
        self.loop.remove_reader(self.sock.fileno())
        try:
            while pending := [future for peer in self._connections() for future in peer.pending() if not future.done()]:
                await asyncio.wait(pending)
                await asyncio.sleep(0)  # those who wait for them have sent the replies, or asked what waited for its turn
        finally:
            self._flush_touched()
            now = self.loop.time()
            for peer in self._connections():
                if peer.stage in LIVING:
                    peer.transport.close(error_code=self.no_error)
                    self.flush(peer, now)
                peer.drop()

    def adopt(self, settings: Settings) -> None:
        super().adopt(settings)
        self._configure()

    @classmethod
    def read(cls, settings: Settings) -> None:
        if settings.tls is not None:
            settings.tls.chain()

    def _configure(self) -> None:
        self.limits = self.limits_of(self.settings)
        self.configuration = configuration(self.settings, self.protocol)

    def _connections(self) -> set[Peer]:
        return set(self.peers.values())

    # ---- what peers call ----

    def touch(self, peer: Peer) -> None:
        """Flush a connection once what goes on now is done."""
        if not peer.touched:
            peer.touched = True
            self._touched.append(peer)
        if not self._batching and not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._flush_touched)

    def flush(self, peer: Peer, now: float) -> None:
        """Let a connection act. Whatever goes wrong in one ends that one only."""
        try:
            peer.flush(now)
        except Exception as error:
            self._complain(error)
            peer.drop()

    def admit(self, peer: Peer) -> bool:
        """Count a connection among those served; False, and it is closed, when it is one too many."""
        if self.limits.connections and self._stages[Stage.SERVED] >= self.limits.connections:
            self.refuse(peer)
            return False
        self._enter(peer, Stage.SERVED)
        return True

    def leave(self, peer: Peer) -> None:
        """It is served no more, but still shown to who sends to it."""
        self._enter(peer, Stage.ENDED)

    def learn(self, peer: Peer, name: bytes) -> None:
        """Datagrams with this connection id are its."""
        peer.names.add(name)
        self.peers[name] = peer

    def unlearn(self, peer: Peer, name: bytes) -> None:
        """The client uses this connection id no more."""
        peer.names.discard(name)
        self.peers.pop(name, None)

    def forget(self, peer: Peer) -> None:
        """Nothing leads to it any more."""
        for name in peer.names:
            self.peers.pop(name, None)
        peer.names.clear()
        if peer.stage is not Stage.FORGOTTEN:
            self._enter(peer, Stage.FORGOTTEN)

    # ---- below ----

    def _enter(self, peer: Peer, stage: Stage) -> None:
        self._stages[peer.stage] -= 1
        peer.stage = stage
        self._stages[stage] += 1

    def _complain(self, error: Exception) -> None:
        """Say so, but not for each of the datagrams that somebody sends for it."""
        now = self.loop.time()
        if now >= self._quiet_until:
            self._quiet_until = now + COMPLAINT_INTERVAL
            log.error(f"a connection of {self.protocol} failed: {error!r}")

    def _readable(self) -> None:
        now = self.loop.time()
        receive = self._datagrams.receive
        self._batching = True
        try:
            for _ in range(BATCH):
                try:
                    octets, address, way = receive()
                except (BlockingIOError, InterruptedError):
                    break
                except OSError:  # of an earlier datagram of ours
                    continue
                self._datagram(octets, address, way, now)
        finally:
            self._batching = False
        self._flush_touched()

    def _flush_touched(self) -> None:
        self._scheduled = False
        now = self.loop.time()
        touched, self._touched = self._touched, []
        self.gate.hold()
        try:
            for peer in touched:
                peer.touched = False
                self.flush(peer, now)
        finally:
            self.gate.release()

    def _datagram(self, octets: bytes, address: Any, way: Way, now: float) -> None:
        if len(octets) <= CONNECTION_ID_LENGTH:
            return
        if octets[0] & LONG_HEADER:
            peer = self._long(octets, address, way, now)
        else:
            peer = self.peers.get(octets[1 : 1 + CONNECTION_ID_LENGTH])
        if peer is None:
            return
        peer.way = way
        try:
            peer.datagram(octets, address, now)
        except Exception as error:
            self._complain(error)
            peer.drop()
            return
        if peer.transport.unborn:  # nothing that was said could be understood
            peer.drop()
        else:
            self.touch(peer)

    def _long(self, octets: bytes, address: Any, way: Way, now: float) -> Peer | None:
        """Whose a packet with a long header is: of a connection, or the first of one that it makes."""
        try:
            header = pull_quic_header(Buffer(data=octets), host_cid_length=CONNECTION_ID_LENGTH)
        except ValueError:
            return None
        peer = self.peers.get(header.destination_cid)
        if peer is not None or len(octets) < SMALLEST_MAX_DATAGRAM_SIZE:
            return peer
        if header.packet_type is QuicPacketType.VERSION_NEGOTIATION:
            return None
        versions = self.configuration.supported_versions
        if header.version not in versions:
            way.send(
                encode_quic_version_negotiation(source_cid=header.destination_cid, destination_cid=header.source_cid, supported_versions=versions), address
            )
            return None
        if header.packet_type is not QuicPacketType.INITIAL or self._stages[Stage.HANDSHAKE] >= HANDSHAKES_MAX:
            return None
        original, retried = header.destination_cid, None
        if header.token:
            try:
                original = self._retry.validate_token(address=address, destination_cid=header.destination_cid, token=header.token, now=now)
                retried = header.destination_cid
            except ValueError:
                pass  # perhaps of a server that was here before: as good as none (RFC 9000 8.1.3)
        if retried is None and self._stages[Stage.HANDSHAKE] >= RETRY_ABOVE:
            way.send(self._prove(header, address, now), address)
            return None
        return self._make(header.destination_cid, original, retried, way)

    def _prove(self, header: QuicHeader, address: Any, now: float) -> bytes:
        """A Retry packet: whoever answers it has the address that the first packet came from."""
        name = os.urandom(CONNECTION_ID_LENGTH)
        token = self._retry.create_token(address=address, original_destination_connection_id=header.destination_cid, retry_source_connection_id=name, now=now)
        return encode_quic_retry(
            version=header.version or 0,
            source_cid=name,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )

    def _make(self, name: bytes, original: bytes, retried: bytes | None, way: Way) -> Peer:
        transport = Transport(
            self.configuration, original=original, retry=retried, streams=self.limits.streams, tickets=self.tickets, credentials=self.settings.tls
        )
        peer = self.make_peer(transport, way)
        self._stages[Stage.HANDSHAKE] += 1
        for known in (name, transport.host_cid):
            self.learn(peer, known)
        return peer


def configuration(settings: Settings, protocol: str) -> QuicConfiguration:
    """What connections to come are offered. OSError, ValueError."""
    if settings.tls is None:
        raise ValueError("QUIC needs a certificate")
    certificates, key = settings.tls.chain()
    keylog = settings.tls.keylog
    return QuicConfiguration(
        is_client=False,
        alpn_protocols=[protocol],
        certificate=certificates[0],
        certificate_chain=certificates[1:],
        private_key=key,
        connection_id_length=CONNECTION_ID_LENGTH,
        idle_timeout=settings.idle_timeout,
        max_data=CONNECTION_WINDOW,
        max_stream_data=STREAM_WINDOW,
        secrets_log_file=KeyLog(keylog) if keylog else None,
    )


class KeyLog(io.StringIO):
    """The file of `keylog`, opened for each line: nothing keeps it open over reloads."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def write(self, line: str) -> int:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
