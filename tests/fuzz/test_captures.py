"""Mutated captures and dnstap files: their messages up to the damage, or an error that names the file."""

from __future__ import annotations

import os
import random
import struct

import pytest

from fastdns.comparison.recorded import Recorded
from fastdns.plugins.dnstap import frames
from fastdns.plugins.recorder.pcapng import Capture
from tests.bench.test_capture import ETHERNET, RAW, SLL, SLL2, VLAN, ip, pcap, pcapng, query, stream, udp
from tests.fuzz import captures
from tests.fuzz.mutating import mutate
from tests.fuzz.targets import CORPORA

pytest.importorskip("dpkt")

COUNT = int(os.environ.get("FASTDNS_CAPTURES", "4000"))
MESSAGE = len(query("a.example.")).to_bytes(2) + query("a.example.")
WORDS = [b"\0", b"\xff" * 4, bytes(4), b"\n\r\r\n", bytes.fromhex("d4c3b2a1"), b"\x45\0", b"\x60\0\0\0", b"\x08\0", b"\x86\xdd", b"\x81\0", b"\0\x35"]


def seeds() -> list[bytes]:
    packets = [ip(udp(query("a.example."))), ip(udp(query("b.example.", 28)), source="fd00::1"), *stream((30, MESSAGE[30:]), (0, MESSAGE[:30]))]
    files = [pcap(packets, link) for link in (ETHERNET, RAW, SLL, SLL2, VLAN)]
    return [*files, pcap(packets, order=">"), pcapng(packets), dnstap(bytes(4)), *(path.read_bytes() for path in sorted((CORPORA / "capture").iterdir()))]


def dnstap(address: bytes) -> bytes:
    """A file with a client's query."""
    fields = ((4, address), (10, query("a.")))
    body = b"\x08\x05" + b"".join(struct.pack("<BB", number << 3 | 2, len(value)) + value for number, value in fields)
    frame = struct.pack("<BB", 14 << 3 | 2, len(body)) + body
    return frames.control(frames.START, frames.CONTENT_TYPE) + struct.pack("!I", len(frame)) + frame + frames.control(frames.STOP)


@pytest.mark.timeout(3600)
def test_R1_mutated_captures() -> None:
    chance = random.Random(35)
    known = seeds()
    read = 0
    for _ in range(COUNT):
        octets = mutate(chance.choice(known), WORDS, chance)
        assert captures.check(octets) == "", octets.hex()
        read += bool(captures.read(octets))
    assert COUNT // 20 < read < COUNT


#: Heads of packets that hold another one of their kind.
LAYERS = {"IPv4": bytes.fromhex("45000000000000004004000000000000") + bytes(4), "IPv6": bytes.fromhex("6000000000002940") + bytes(32)}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_layers_without_end(layer: bytes) -> None:
    """Packets in packets in packets, more than Python has frames for: they are passed over, and what follows is read."""
    packet = b""
    for _ in range(1500):
        head = bytearray(layer)
        length = len(packet) + (20 if len(layer) == 20 else 0)
        head[2 if len(layer) == 20 else 4 : 4 if len(layer) == 20 else 6] = struct.pack("!H", length)
        packet = bytes(head) + packet
    assert [message.octets for message in captures.read(pcap([packet, ip(udp(query("b.")))], RAW))] == [query("b.")]


def test_a_length_of_the_rest_of_the_file() -> None:
    octets = pcap([ip(udp(query("a.")))], RAW) + struct.pack("<4I", 0, 0, 1 << 30, 1 << 30) + bytes(1000)
    assert [message.octets for message in captures.read(octets)] == [query("a.")]


def test_an_address_of_five_octets_is_none() -> None:
    """In dnstap an address is a field of any length."""
    assert captures.read(dnstap(b"12345")) == [Recorded(query("a."), False, b"")]
    assert captures.check(dnstap(b"12345")) == ""


def test_the_corpus_has_every_format() -> None:
    heads = {path.read_bytes()[:4] for path in (CORPORA / "capture").iterdir()}
    assert {Capture(0).head()[:4], bytes.fromhex("d4c3b2a1"), bytes(4)} <= heads
