"""Messages of DNS out of packet captures (pcap and pcapng): UDP, and TCP streams put together.

dpkt reads pcap and the layers below DNS. It has no requirements of its own, and takes 13 µs for a packet, where scapy takes
170 µs and pypcapkit 4 ms: captures that are worth sending again have millions of packets.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastdns.comparison.pcapng import SECTION, Packet, read_packets
from fastdns.comparison.recorded import REBUILT, Recorded, RecordingError

__all__ = ["read_capture"]

#: Octets of a stream that are kept while they wait for those before them.
AHEAD = 1 << 20
#: Streams that are followed at once, and octets that all of them keep: those that have had no segment for longest go first. The end of many is not captured.
STREAMS, KEPT = 1 << 16, 64 << 20


def read_capture(path: str | Path, port: int = 53) -> Iterator[Recorded]:
    """What was sent to a port, and from it, in its order. Other packets, cut ones and rebuilt replies are passed over. Raises RecordingError."""
    try:
        import dpkt
    except ImportError:
        raise RecordingError("captures need more than is installed: pip install 'fastdns[bench]'") from None
    try:
        with open(path, "rb") as file:
            yield from _all_messages(dpkt, file, str(path), port)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def _all_messages(dpkt: Any, file: Any, path: str, port: int) -> Iterator[Recorded]:
    layers = _layers(dpkt)
    packets = _packets(dpkt, file, path, layers)
    streams = Streams()
    count = 0
    unknown = Counter[int]()
    try:
        for packet in packets:
            count += 1
            layer = layers.get(packet.link)
            if layer is None:
                unknown[packet.link] += 1
                continue
            rebuilt = any(comment.startswith(REBUILT) for comment in packet.comments)
            for message in _messages(dpkt, layer, packet.octets, port, streams):
                if not (rebuilt and message.is_reply):  # it lacks the records that the answer had
                    yield message
    except (ValueError, dpkt.Error, EOFError) as error:
        raise RecordingError(f"{path}: after packet {count}: {error or 'the file is damaged'}") from error
    if count and unknown.total() == count:
        raise _unknown(path, next(iter(unknown)))


def _packets(dpkt: Any, file: Any, path: str, layers: dict[int, Any]) -> Iterator[Packet]:
    """Of a file that was just opened. Raises RecordingError for another format."""
    kind = file.read(len(SECTION))
    file.seek(0)
    if kind == SECTION:
        return read_packets(file)
    try:
        reader = dpkt.pcap.Reader(file)
        link = reader.datalink()
    except (ValueError, dpkt.Error) as error:
        raise RecordingError(f"{path}: neither pcap nor pcapng: {error}") from error
    if link not in layers:
        raise _unknown(path, link)
    return (Packet(link, octets, ()) for _, octets in reader)


def _unknown(path: str, link: int) -> RecordingError:
    return RecordingError(f"{path}: packets of link type {link} are not known")


def _layers(dpkt: Any) -> dict[int, Any]:
    """Link types (www.tcpdump.org/linktypes.html) and what takes them apart."""
    import struct

    def raw(octets: bytes) -> Any:
        return _ip(dpkt, octets)

    def loopback(octets: bytes) -> Any:
        return _ip(dpkt, octets[4:])

    def sll2(octets: bytes) -> Any:
        return _ip(dpkt, octets[20:]) if struct.unpack_from("!H", octets)[0] in (0x0800, 0x86DD) else None

    return {
        0: loopback,
        1: lambda octets: dpkt.ethernet.Ethernet(octets).data,
        12: raw,
        14: raw,
        101: raw,
        108: loopback,
        113: lambda octets: dpkt.sll.SLL(octets).data,
        228: raw,
        229: raw,
        276: sll2,
    }


def _ip(dpkt: Any, octets: bytes) -> Any:
    version = octets[0] >> 4
    return dpkt.ip.IP(octets) if version == 4 else dpkt.ip6.IP6(octets) if version == 6 else None


def _messages(dpkt: Any, layer: Any, octets: bytes, port: int, streams: Streams) -> Iterator[Recorded]:
    """DNS messages that a packet completes."""
    import struct

    try:
        packet = layer(octets)
    except (dpkt.Error, struct.error, IndexError, ValueError):  # cut, or not what it says
        return
    if not isinstance(packet, dpkt.ip.IP | dpkt.ip6.IP6):
        return
    later: int = getattr(packet, "offset", 0)
    segment = packet.data
    if later or not isinstance(segment, dpkt.udp.UDP | dpkt.tcp.TCP) or port not in (segment.dport, segment.sport):  # later: a fragment without the head
        return
    is_reply = segment.dport != port
    client = packet.dst if is_reply else packet.src
    if isinstance(segment, dpkt.udp.UDP):
        if len(segment.data) == segment.ulen - 8:
            yield Recorded(bytes(segment.data), is_reply, client)
        return
    key = (packet.src, segment.sport, packet.dst, segment.dport)
    if segment.flags & dpkt.tcp.TH_SYN:
        streams.open(key, segment.seq + 1)
    for message in streams.take(key, segment.seq, bytes(segment.data)):
        yield Recorded(message, is_reply, client)
    if segment.flags & (dpkt.tcp.TH_FIN | dpkt.tcp.TH_RST):
        streams.close(key)


# ---- TCP ----

Key = tuple[bytes, int, bytes, int]


@dataclass
class Stream:
    #: Sequence number that comes next.
    following: int
    octets: bytearray = field(default_factory=bytearray)
    #: Segments that came before those in front of them, by sequence number.
    ahead: dict[int, bytes] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """Octets of the segments that came before those in front of them."""
        return sum(map(len, self.ahead.values()))


class Streams:
    """What each side sends in its connections, in order. One whose beginning is missing is taken to begin with a message."""

    def __init__(self) -> None:
        #: The one that had a segment last is the last.
        self.by_key: OrderedDict[Key, Stream] = OrderedDict()
        #: Octets that all of them keep.
        self.kept = 0

    def open(self, key: Key, following: int) -> None:
        self.close(key)
        self.by_key[key] = Stream(following & 0xFFFFFFFF)
        self._evict()

    def close(self, key: Key) -> None:
        if (stream := self.by_key.pop(key, None)) is not None:
            self.kept -= len(stream.octets) + stream.waiting

    def take(self, key: Key, number: int, data: bytes) -> Iterator[bytes]:
        """The messages that a segment completes (RFC 1035 4.2.2)."""
        if not data:
            return
        stream = self.by_key.get(key) or Stream(number)
        self.close(key)
        stream.ahead[number] = data
        self._join(stream)
        octets = stream.octets
        while len(octets) >= 2 and len(octets) >= (end := 2 + int.from_bytes(octets[:2])):
            yield bytes(octets[2:end])
            del octets[:end]
        if stream.waiting <= AHEAD:  # else a segment was not captured
            self.by_key[key] = stream
            self.kept += len(octets) + stream.waiting
            self._evict()

    def _evict(self) -> None:
        while len(self.by_key) > STREAMS or self.kept > KEPT:
            self.close(next(iter(self.by_key)))

    @staticmethod
    def _join(stream: Stream) -> None:
        """Put behind the octets what follows on them; what came twice counts once."""
        moved = True
        while moved:
            moved = False
            for number, data in sorted(stream.ahead.items(), key=lambda item: (item[0] - stream.following) & 0xFFFFFFFF):
                known = (stream.following - number) & 0xFFFFFFFF
                if known >= 1 << 31:
                    continue
                del stream.ahead[number]
                fresh = data[known:]
                stream.octets += fresh
                stream.following = (stream.following + len(fresh)) & 0xFFFFFFFF
                moved = moved or bool(fresh)
