"""The parser of PROXY headers: both versions, what is refused and why, beginnings of headers, and random octets beside a reference."""

from __future__ import annotations

import os
import random
from ipaddress import ip_address

import pytest

from fastdns.proxy.header import parse
from tests.proxying import (
    BLOCK_MAX,
    LOCAL,
    PROXY,
    SIGNATURE,
    TCP4,
    TCP6,
    UDP4,
    UDP6,
    UNIX,
    UNIXGRAM,
    UNSPEC,
    binary,
    block,
    reference,
    text,
    tlv,
)

INPUTS = int(os.environ.get("FASTDNS_PACKETS", "20000"))


def end(address: str, port: int) -> tuple[bytes, int]:
    return ip_address(address).packed, port


CLIENT = (end("192.0.2.7", 4321), end("127.0.0.1", 53))
CLIENT6 = (end("2001:db8::7", 4321), end("::1", 53))

PRESENT = [
    (text("192.0.2.7"), 1, TCP4, CLIENT),
    (text("2001:db8::7"), 1, TCP6, CLIENT6),
    (text("2001:DB8:0:0:0:0:0:7"), 1, TCP6, CLIENT6),
    (text("::ffff:192.0.2.7", "::1"), 1, TCP6, (CLIENT[0], CLIENT6[1])),
    (text("192.0.2.7", port=0, to=65535), 1, TCP4, (end("192.0.2.7", 0), end("127.0.0.1", 65535))),
    (b"PROXY UNKNOWN\r\n", 1, 0, None),
    (b"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", 1, 0, None),
    (b"PROXY UNKNOWN anything, \0 and more\r\n", 1, 0, None),
    (binary("192.0.2.7"), 2, TCP4, CLIENT),
    (binary("192.0.2.7", udp=True), 2, UDP4, CLIENT),
    (binary("2001:db8::7"), 2, TCP6, CLIENT6),
    (binary("2001:db8::7", udp=True), 2, UDP6, CLIENT6),
    (binary("::ffff:192.0.2.7", "::ffff:127.0.0.1"), 2, TCP6, CLIENT),
    # TLVs are skipped: ALPN, CRC32C (which is not compared), a unique id; also broken ones.
    (binary("192.0.2.7", tlvs=tlv(1, b"dot") + tlv(3, b"\1\2\3\4") + tlv(5, bytes(128))), 2, TCP4, CLIENT),
    (binary("192.0.2.7", tlvs=b"\1\xff\xff"), 2, TCP4, CLIENT),
    (binary("192.0.2.7", tlvs=bytes(BLOCK_MAX - 12)), 2, TCP4, CLIENT),
    (block(PROXY, UNIX, bytes(216)), 2, UNIX, None),
    (block(PROXY, UNIXGRAM, bytes(216)), 2, UNIXGRAM, None),
    (block(LOCAL, UNSPEC, b""), 2, 0, None),
    (block(LOCAL, UNSPEC, bytes(99)), 2, 0, None),
    (block(LOCAL, TCP4, b""), 2, 0, None),
    (block(LOCAL, UDP4, bytes(12)), 2, 0, None),
]


@pytest.mark.parametrize(("octets", "version", "kind", "clients"), PRESENT)
def test_headers(octets: bytes, version: int, kind: int, clients: object) -> None:
    """Also with a query behind them, and each beginning of them is the beginning of a header."""
    assert parse(octets) == (version, len(octets), kind, clients)
    assert parse(octets + b"\r\nPROXY") == (version, len(octets), kind, clients)
    for size in range(len(octets)):
        begun = parse(octets[:size])
        assert begun is not None
        wanted, error = begun  # type: ignore[misc]
        assert size < wanted <= len(octets)
        assert bool(error) == (size >= 5 if version == 1 else size >= 12)


@pytest.mark.parametrize(
    ("octets", "error"),
    [
        (b"PROXY\r\n", "can't read address family or protocol"),
        (b"PROXY \r\n", "can't read address family or protocol"),
        (b"PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n", "can't read address family or protocol"),
        (b"PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n", "can't read address family or protocol"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", "can't read address family or protocol"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n", "can't read address family or protocol"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n", "can't read address family or protocol"),
        (b"PROXY unknown\r\n", "can't read address family or protocol"),
        (b"PROXYTCP4 1.2.3.4 1.2.3.4 1 2\r\n", "can't read version 1 header"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", r"version 1 header is invalid, must end with \r\n"),
        (b"PROXY UNKNOWN\n\r\n", r"version 1 header is invalid, must end with \r\n"),
        (b"PROXY UNKNOWN" + bytes(94), "version 1 header must be 107 bytes or less"),
        (b"PROXY UNKNOWN" + b" " * 93 + b"\r\n", "version 1 header must be 107 bytes or less"),
        (b"PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", "invalid address"),
        (b"PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n", "invalid address"),
        (b"PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n", "invalid address"),
        (b"PROXY TCP4 ::1 ::1 1 2\r\n", "invalid address"),
        (b"PROXY TCP4 1.2.3.4\0 1.2.3.4 1 2\r\n", "invalid address"),
        (b"PROXY TCP4  1.2.3.4 1 2\r\n", "invalid address"),
        (b"PROXY TCP6 1.2.3.4 ::1 1 2\r\n", "invalid address"),
        (b"PROXY TCP6 fe80::1%lo ::1 1 2\r\n", "invalid address"),
        (b"PROXY TCP6 ::1 1:2:3:4:5:6:7::8:9 1 2\r\n", "invalid address"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n", "invalid port number"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n", "invalid port number"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 +2\r\n", "invalid port number"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n", "invalid port number"),
        (block(0x11, TCP4, bytes(12)), "unsupported proxy protocol version and command"),
        (block(0x22, TCP4, bytes(12)), "unsupported proxy protocol version and command"),
        (block(0x31, TCP4, bytes(12)), "unsupported proxy protocol version and command"),
        (block(PROXY, UNSPEC, b""), "unsupported address family and protocol"),
        (block(PROXY, 0x10, bytes(12)), "unsupported address family and protocol"),
        (block(PROXY, 0x13, bytes(12)), "unsupported address family and protocol"),
        (block(PROXY, 0x01, bytes(12)), "unsupported address family and protocol"),
        (block(PROXY, 0x41, bytes(12)), "unsupported address family and protocol"),
        (block(LOCAL, 0x13, bytes(12)), "unsupported address family and protocol"),
        (block(PROXY, TCP4, bytes(11)), "invalid length"),
        (block(PROXY, TCP6, bytes(35)), "invalid length"),
        (block(PROXY, UNIX, bytes(215)), "invalid length"),
        (block(PROXY, TCP4, bytes(20), size=BLOCK_MAX + 1), "invalid length"),
        (block(PROXY, TCP4, b"", size=65535), "invalid length"),
        (block(LOCAL, UNSPEC, b"", size=65535), "invalid length"),
    ],
)
def test_malformed(octets: bytes, error: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(octets)
    assert str(caught.value) == f"proxyproto: {error}"


@pytest.mark.parametrize(
    "octets", [b"\0\x1d", b"PING", b"POST / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n", SIGNATURE[:11] + b"\r", b"\x16\x03\1", b"PROXX", b"proxy "]
)
def test_no_header(octets: bytes) -> None:
    assert parse(octets) is None


def outcome(octets: bytes) -> tuple[str, int, object]:
    """What `reference` gives, by our parser."""
    try:
        found = parse(octets)
    except ValueError:
        return "malformed", 0, None
    if found is None:
        return "absent", 0, None
    return ("partial", 0, None) if len(found) == 2 else ("present", found[1], found[3])


def test_random_octets() -> None:
    """Headers that were changed a little, cut or joined: the same as by the reference."""
    rng = random.Random(20)
    seeds = [row[0] for row in PRESENT if len(row[0]) < 300] + [SIGNATURE, b"PROXY ", text("10.0.0.1") + binary("::1")]
    seen = set()
    for _ in range(INPUTS):
        octets = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(octets))
            match rng.randrange(5):
                case 0:
                    octets[at] = rng.randrange(256)
                case 1:
                    octets[at] = rng.choice(b" \r\n:.0159%f\x00\x20\x21\x11")
                case 2:
                    del octets[at : at + rng.randrange(1, 4)]
                case 3:
                    octets[at:at] = rng.choice([b" ", b":", b"0", b"\r\n", b"::", rng.randbytes(3)])
                case 4:
                    octets = octets[: at + 1]
            if not octets:
                octets = bytearray(b"P")
        wanted = reference(bytes(octets))
        assert outcome(bytes(octets)) == wanted, bytes(octets)
        seen.add(wanted[0])
    assert seen == {"absent", "present", "partial", "malformed"}
