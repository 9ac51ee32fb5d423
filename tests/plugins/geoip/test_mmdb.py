"""Reading databases: every kind of value, every size of tree, and files that are broken."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fastdns.plugins.geoip._mmdb import Database
from tests.plugins.geoip.mmdb import Float32, Pointer, Unsigned, database, encode, pointer

VALUES: list[Any] = [
    "",
    "text",
    "Zürich",
    *("x" * size for size in (28, 29, 284, 285, 65820, 65821, 70000)),
    b"octets",
    True,
    False,
    0,
    1,
    2**32 - 1,
    Unsigned(65535, 5),
    Unsigned(2**64 - 1, 9),
    0.0,
    -52.2242,
    1e300,
    Float32(0.5),
    [],
    {},
    [1, "a", [True], {"b": []}],
    {f"key {number}": number for number in range(400)},
    {"a": {"b": {"c": ["d"]}}},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_values(value: Any) -> None:
    made = Database(database({"192.0.2.0/24": ["before", {}], "198.51.100.0/24": value, "203.0.113.0/24": "behind"}))
    assert made.get("198.51.100.9") == value
    assert made.get("203.0.113.1") == "behind"


@pytest.mark.parametrize("at", [0, 100, 2047, 2048, 526335, 526336, 700_000, 134_744_064])
def test_pointers(at: int) -> None:
    """Pointers of one to four octets lead to a value that others share."""
    first = bytes(at) + encode({"en": "shared"})
    networks = {"192.0.2.0/24": {"names": Pointer(at), "last": 7}, "198.51.100.0/24": [Pointer(at), Pointer(at)]}
    made = Database(database(networks, first=first, size=32))
    assert made.get("192.0.2.1") == {"names": {"en": "shared"}, "last": 7}
    assert made.get("198.51.100.1") == [{"en": "shared"}] * 2


@pytest.mark.parametrize("size", [24, 28, 32])
@pytest.mark.parametrize("version", [4, 6])
def test_trees(size: int, version: int) -> None:
    networks: dict[str, Any] = {f"10.{a}.{b}.0/24": f"{a} {b}" for a in range(16) for b in range(0, 256, 5)} | {"192.0.2.1/32": "one", "128.0.0.0/2": "quarter"}
    if version == 6:
        networks |= {"2001:db8::/32": "documentation", "2001:db9::1/128": "host"}
    made = Database(database(networks, version=version, size=size))
    for network, value in networks.items():
        assert made.get(network.partition("/")[0]) == value
    assert made.get("10.15.255.255") == "15 255"
    assert made.get("191.255.255.255") == "quarter"
    assert [made.get(address) for address in ("10.1.1.1", "192.0.2.2", "9.255.255.255")] == [None] * 3
    if version == 6:
        assert made.get("2001:db8:ffff::1") == "documentation"
        assert made.get("2001:db9::2") is None
        assert made.get("::10.0.5.1") == "0 5"
    else:
        with pytest.raises(ValueError, match="no addresses of this family"):
            made.get("2001:db8::1")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "error opening database: invalid MaxMind DB file"),
        (b"no database", "error opening database: invalid MaxMind DB file"),
        (database({"192.0.2.0/24": 1})[:-1], "a value is broken"),
        (bytes(40) + b"\xab\xcd\xefMaxMind.com", "a value is broken"),
        (bytes(40) + b"\xab\xcd\xefMaxMind.com" + encode("text"), "invalid metadata"),
        (database({"192.0.2.0/24": 1}, node_count=2**31), "invalid metadata"),
        (database({"192.0.2.0/24": 1}, node_count="many"), "invalid metadata"),
        (database({"192.0.2.0/24": 1}, node_count=Unsigned(2**64 - 1, 9)), "invalid metadata"),
        (database({"192.0.2.0/24": 1}, record_size=20), "unsupported record size"),
        (database({"192.0.2.0/24": 1}, ip_version=5), "invalid metadata"),
        (database({"192.0.2.0/24": 1}, binary_format_major_version=3), "invalid metadata"),
    ],
)
def test_files_that_are_none(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Database(data)


@pytest.mark.parametrize(
    "value",
    [
        pointer(1000),  # behind the end
        bytes([0xE1]),  # a map without its member
        encode([1])[:-2] + b"\xff\xff\xff\xff",  # an array of too many
        bytes([0x5F, 0xFF, 0xFF, 0xFF]) + b"short",  # a text of 16 MB
        bytes([1, 9]),  # an unknown kind
        bytes([8, 3]) + b"\0",  # a number of eight octets that has one
    ],
)
def test_broken_values(value: bytes) -> None:
    """Where the values end, reading does."""
    data = bytearray(database({"192.0.2.0/24": "x"}))
    at = data.rfind(b"\xab\xcd\xefMaxMind.com")
    data[at - 2 : at] = value
    with pytest.raises(ValueError, match="value"):
        Database(bytes(data)).get("192.0.2.1")


def test_a_pointer_to_a_pointer_is_refused() -> None:
    made = Database(database({"192.0.2.0/24": Pointer(0)}, first=pointer(0)))
    with pytest.raises(ValueError, match="broken"):
        made.get("192.0.2.1")


def test_changed_octets_do_no_harm() -> None:
    """Any file gives a value, none, or an error."""
    good = database({"10.0.0.0/8": {"city": {"names": {"en": "A", "de": ["B", 1.5, True]}}}, "2001:db8::/32": {"names": "x" * 300}})
    chance = random.Random(7)
    outcomes = set()
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        try:
            made = Database(bytes(data))
            for address in ("10.1.2.3", "2001:db8::1", "192.0.2.1", "::"):
                outcomes.add(type(made.get(address)))
        except ValueError as error:
            outcomes.add(type(error))
    assert {dict, type(None), ValueError} <= outcomes
