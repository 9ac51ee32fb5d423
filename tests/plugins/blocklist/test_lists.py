"""blocklist: lists that are something else. Whatever the octets are, a list is read, or refused with a ValueError."""

from __future__ import annotations

import random

import pytest

from fastdns.index.name_map import NameMap
from fastdns.plugins.blocklist.fetch import Body, Packer
from fastdns.plugins.blocklist.lists import KINDS, LOCAL, Contents
from fastdns.plugins.blocklist.source import Source
from tests.plugins.blocklist.test_blocklist import DOMAINS, HOSTS, RPZ

TEXTS = {"hosts": HOSTS, "domains": DOMAINS, "rpz": RPZ}


def pack(text: bytes) -> Body:
    packer = Packer()
    packer.add(text)
    return packer.body()


def read(kind: str, text: bytes, limit: int = 1000) -> tuple[NameMap, Contents]:
    names = NameMap(limit=limit)
    draft = names.draft()
    contents = Contents(draft, 1)
    Source(kind, "list").read_into(pack(text), contents)
    names.publish(draft)
    return names, contents


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("seed", range(4))
def test_mutated_lists(kind: str, seed: int) -> None:
    rng = random.Random(f"{kind}{seed}")
    good = TEXTS[kind].encode()
    whole, _ = read(kind, good)
    assert len(whole) >= 3
    refused = 0
    for _ in range(300):
        text = bytearray(good)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(text))
            text[at : at + rng.choice((0, 1, 1, 1, 9))] = rng.choice((rng.randbytes(rng.randint(1, 4)), b"\n", b"\0", b"*.", b"(", b'"', b"$", b"rpz-"))
        try:
            names, contents = read(kind, bytes(text))
        except ValueError:
            refused += 1
        else:
            assert contents.names >= len(names)
            assert names.match(".") is None, "nothing but the root itself stands for every name"
    assert refused == 0 or kind == "rpz"


@pytest.mark.parametrize("kind", TEXTS)
def test_octets_that_are_no_list(kind: str) -> None:
    rng = random.Random(kind)
    for size in (0, 1, 100, 100_000):
        for text in (rng.randbytes(size), b"x" * size, b"." * size, b"* " * size, b"\n" * size):
            try:
                names, _ = read(kind, text)
            except ValueError:
                continue
            assert names.match("example.org.") is None


def test_the_bound_on_names_is_that_of_the_map() -> None:
    with pytest.raises(ValueError, match="more than 10 names"):
        read("domains", b"".join(b"n%d.test\n" % i for i in range(11)), limit=10)


def test_names_that_are_too_long() -> None:
    long = ".".join(["a" * 63] * 3 + ["b" * 61])
    names, contents = read("domains", f"{long}\n{long}x\n{'a' * 64}.test\n{'b' * 63}.test\n".encode())
    assert len(names) == 2
    assert contents.ignored == 2


def test_local_data() -> None:
    _, contents = read("rpz", b"a.test 5 A 192.0.2.1\nA.test 5 A 192.0.2.2\n*.a.test 7 TXT x\na.test CNAME .\n")
    assert {(name, scope, record.qtype, record.ttl) for (name, scope), records in contents.local.items() for record in records} == {
        (b"\1a\4test\0", 1, 1, 5),
        (b"\1a\4test\0", 2, 16, 7),
    }
    assert [len(records) for records in contents.local.values()] == [2, 1]
    assert LOCAL < KINDS
