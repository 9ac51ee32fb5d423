"""Queries out of captures, which are written here octet by octet from the formats' definitions."""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path

import pytest

from fastdns._wire import name_wire
from fastdns.bench.workload import Question, WorkloadError
from fastdns.bench.workloads.recorded import read_recorded
from fastdns.comparison import streams

pytest.importorskip("dpkt")

ETHERNET, RAW, SLL, SLL2, VLAN, UNKNOWN = 1, 101, 113, 276, -1, 999


def query(name: str, qtype: int = 1, flags: int = 0x0100, qclass: int = 1) -> bytes:
    return struct.pack("!6H", 7, flags, 1, 0, 0, 0) + name_wire(name) + struct.pack("!HH", qtype, qclass)


def udp(data: bytes, port: int = 53, source: int = 4000) -> bytes:
    return struct.pack("!4H", source, port, 8 + len(data), 0) + data


def tcp(data: bytes, number: int, flags: int = 0x18, port: int = 53, source: int = 4000) -> bytes:
    return struct.pack("!HHIIBBHHH", source, port, number & 0xFFFFFFFF, 0, 5 << 4, flags, 1000, 0, 0) + data


def ip(segment: bytes, protocol: int = 17, source: str = "10.0.0.1", offset: int = 0) -> bytes:
    address = ipaddress.ip_address(source)
    if address.version == 6:
        return struct.pack("!IHBB", 6 << 28, len(segment), protocol, 64) + address.packed + address.packed + segment
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(segment), 1, offset, 64, protocol, 0, address.packed, bytes((10, 0, 0, 2))) + segment


def framed(packet: bytes, link: int) -> bytes:
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    return {
        ETHERNET: bytes(12) + struct.pack("!H", kind),
        VLAN: bytes(12) + struct.pack("!HHH", 0x8100, 7, kind),
        RAW: b"",
        SLL: struct.pack("!HHH8sH", 4, 1, 6, bytes(8), kind),
        SLL2: struct.pack("!HHIHBB8s", kind, 0, 1, 1, 4, 6, bytes(8)),
        0: struct.pack("=I", 2),
        UNKNOWN: b"",
    }[link] + packet


def pcap(packets: list[bytes], link: int = ETHERNET, order: str = "<") -> bytes:
    head = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, abs(link))
    frames = [framed(packet, link) for packet in packets]
    return head + b"".join(struct.pack(order + "IIII", 0, at, len(frame), len(frame)) + frame for at, frame in enumerate(frames))


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = 12 + len(body)
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def pcapng(packets: list[bytes], link: int = ETHERNET) -> bytes:
    frames = [framed(packet, link) for packet in packets]
    head = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", link, 0, 65535))
    return head + b"".join(block(6, struct.pack("<IIIII", 0, 0, at, len(frame), len(frame)) + frame) for at, frame in enumerate(frames))


ONE, TWO = ip(udp(query("a.example."))), ip(udp(query("b.example.", 28)), source="fd00::1")


@pytest.mark.parametrize("octets", [pcap([ONE, TWO], link) for link in (ETHERNET, RAW, SLL, SLL2, VLAN, 0)] + [pcap([ONE, TWO], order=">"), pcapng([ONE, TWO])])
def test_formats(tmp_path: Path, octets: bytes) -> None:
    path = tmp_path / "capture"
    path.write_bytes(octets)
    assert list(read_recorded(path)) == [Question("a.example.", 1), Question("b.example.", 28)]


def stream(*pieces: tuple[int, bytes], first: int = 1000, flags: int = 2, source: int = 4000) -> list[bytes]:
    """A connection: SYN, then data at offsets."""
    start = [ip(tcp(b"", first, flags, source=source), 6)] if flags else []
    return start + [ip(tcp(data, first + 1 + offset, source=source), 6) for offset, data in pieces]


MESSAGE = len(query("a.example.")).to_bytes(2) + query("a.example.")
OTHER = len(query("b.example.")).to_bytes(2) + query("b.example.")
BOTH, HALF = MESSAGE + OTHER, len(MESSAGE) // 2


@pytest.mark.parametrize(
    ("packets", "names"),
    [
        ([ip(udp(query("a."), port=5353)), ip(udp(query("b.")))], "b."),
        ([ip(udp(query("a.", flags=0x8180))), ip(udp(query("b.")))], "b."),  # a reply
        ([ip(udp(query("a.", qclass=3))), ip(udp(query("b.")))], "b."),
        ([ip(udp(b"nonsense")), ip(udp(b"")), ip(udp(query("b.")))], "b."),
        ([ip(udp(query("a."))[:-3]), ip(udp(query("b.")))], "b."),  # cut
        ([ip(udp(query("a.")), offset=100), ip(udp(query("b.")))], "b."),  # the rest of a datagram
        ([ip(b"", 1), ip(udp(query("b.")))], "b."),
        (stream((0, BOTH)), "a.example. b.example."),
        (stream((0, BOTH[:1]), (1, BOTH[1:HALF]), (HALF, BOTH[HALF:])), "a.example. b.example."),
        (stream((HALF, BOTH[HALF:]), (0, BOTH[:HALF])), "a.example. b.example."),  # out of order
        (stream((0, BOTH[:HALF]), (0, BOTH[:HALF]), (HALF - 3, BOTH[HALF - 3 :])), "a.example. b.example."),  # sent again
        (stream((0, BOTH), flags=0), "a.example. b.example."),  # the beginning was not captured
        (stream((0, BOTH[:HALF]), (HALF, BOTH[HALF:]), first=0xFFFFFFF0), "a.example. b.example."),  # numbers begin again at 0
        (stream((0, MESSAGE[:5])) + stream((0, OTHER), first=5), "b.example."),  # the port is used again
        (stream((0, MESSAGE[:5])) + stream((0, OTHER), source=4001), "b.example."),
    ],
)
def test_what_is_taken(tmp_path: Path, packets: list[bytes], names: str) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap(packets))
    assert [question.name for question in read_recorded(path)] == names.split()


def test_streams_whose_end_is_not_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that had no segment for longest are given up, by their number and by their octets."""
    sources = range(4001, 4005)
    heads = [packet for source in sources for packet in stream((0, MESSAGE[:HALF]), source=source)]
    tails = [packet for source in (4001, 4003, 4004, 4002) for packet in stream((HALF, MESSAGE[HALF:]), flags=0, source=source)]
    again = stream((HALF, MESSAGE[HALF : HALF + 1]), flags=0, source=4001)
    path = tmp_path / "capture"
    path.write_bytes(pcap([*heads, *again, *stream((0, MESSAGE), source=4005), *tails]))
    assert len(list(read_recorded(path))) == 5
    for bound, value, left in (("STREAMS", 4, 4), ("KEPT", 4 * HALF + 1, 5), ("KEPT", 4 * HALF, 4)):
        with monkeypatch.context() as patched:
            patched.setattr(streams, bound, value)
            assert len(list(read_recorded(path))) == left


def test_another_port(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap([ip(udp(query("a."), port=5353)), ip(udp(query("b.")))]))
    assert [question.name for question in read_recorded(path, 5353)] == ["a."]


@pytest.mark.parametrize(
    ("octets", "complaint"),
    [
        (b"nonsense, and more of it than a header has", "neither pcap nor pcapng: "),
        (b"", "neither pcap nor pcapng: "),
        (pcap([], UNKNOWN), "packets of link type 999 are not known"),
        (pcap([ip(udp(query("a."), port=5353))]), "no queries of clients in 0 messages"),
        (pcapng([ONE, TWO])[:-10], "after packet 1: "),
        (pcapng([ONE, TWO], UNKNOWN), "packets of link type 999 are not known"),
    ],
)
def test_complaints(tmp_path: Path, octets: bytes, complaint: str) -> None:
    path = tmp_path / "capture"
    path.write_bytes(octets)
    with pytest.raises(WorkloadError) as raised:
        list(read_recorded(path))
    assert str(raised.value).startswith(f"{path}: {complaint}")


def test_a_missing_file() -> None:
    with pytest.raises(WorkloadError, match=r"^/nowhere/capture: No such file or directory$"):
        list(read_recorded("/nowhere/capture"))
