"""Maps of names: closest entries, precedence, hostile names, versions under readers, memory."""

from __future__ import annotations

import gc
import os
import random
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from fastdns._wire import name_text, name_wire, suffix_hashes
from fastdns.index.name_map import BELOW, BOTH, EXACT, NameMap

#: (value, entry's name, suffix)
Found = tuple[int, str, str | None]

LONGEST = ".".join(["a" * 63] * 3 + ["b" * 61]) + "."
DEEPEST = "x." * 127


def look(names: NameMap, name: str) -> Found | None:
    found = names.match(name)
    return None if found is None else (found.value, found.name, found.suffix)


@pytest.mark.parametrize(
    ("entries", "name", "wanted"),
    [
        ((), "a.test.", None),
        (("ads.test",), "ads.test.", (1, "ads.test.", "ads.test.")),
        (("ads.test",), "X.y.ADS.Test", (1, "ads.test.", "ads.test.")),
        (("ads.test",), "bads.test.", None),
        (("ads.test",), "test.", None),
        (("ads.test",), ".", None),
        ((".",), "any.name.", (1, ".", ".")),
        ((".",), ".", (1, ".", ".")),
        ((("ads.test", 7, EXACT),), "ads.test.", (7, "ads.test.", None)),
        ((("ads.test", 7, EXACT),), "x.ads.test.", None),
        ((("ads.test", 7, BELOW),), "ads.test.", None),
        ((("ads.test", 7, BELOW),), "x.ads.test.", (7, "ads.test.", None)),
        # The closest one: the name itself before those above it.
        ((("a.test", 1), ("b.a.test", 2)), "c.b.a.test.", (2, "b.a.test.", "b.a.test.")),
        ((("a.test", 1), ("b.a.test", 2)), "c.a.test.", (1, "a.test.", None)),
        ((("b.a.test", 2), ("a.test", 1)), "c.a.test.", (1, "a.test.", None)),
        ((("a.test", 1), ("c.b.a.test", 2, EXACT)), "d.c.b.a.test.", (1, "a.test.", None)),
        ((("a.test", 1), ("b.a.test", 1)), "c.a.test.", (1, "a.test.", "a.test.")),
        ((("a.test", 1, EXACT), ("a.test", 2, BELOW)), "a.test.", (1, "a.test.", None)),
        ((("a.test", 1, EXACT), ("a.test", 2, BELOW)), "b.a.test.", (2, "a.test.", None)),
        # 0 is an exception.
        ((("a.test", 1), ("b.a.test", 0)), "c.b.a.test.", None),
        ((("a.test", 1), ("b.a.test", 0, EXACT)), "b.a.test.", None),
        ((("a.test", 1), ("b.a.test", 0, EXACT)), "c.b.a.test.", (1, "a.test.", None)),
        # The first value of a name and scope stays.
        ((("a.test", 3), ("A.Test", 4)), "a.test.", (3, "a.test.", "a.test.")),
        ((("a.test", 3, EXACT), ("a.test", 4)), "x.a.test.", (4, "a.test.", None)),
        # Escapes, and octets that are no letters.
        ((r"a\.b.test",), r"a\.b.test.", (1, r"a\.b.test.", r"a\.b.test.")),
        ((r"a\.b.test",), "b.test.", None),
        ((b"\1\0\4test\0",), r"\000.test.", (1, r"\000.test.", r"\000.test.")),
        ((LONGEST,), LONGEST, (1, LONGEST, LONGEST)),
        ((DEEPEST,), DEEPEST, (1, DEEPEST, DEEPEST)),
        (("x.x.x",), DEEPEST, (1, "x.x.x.", "x.x.x.")),
        ((DEEPEST,), "x.x.", None),
    ],
)
def test_the_closest_entry_holds(entries: Iterable[str | tuple[str, int]], name: str, wanted: Found | None) -> None:
    assert look(NameMap(entries), name) == wanted


@pytest.mark.parametrize(
    "entry",
    ["", "a..b", "." * 2, "a" * 64 + ".test", LONGEST + "c", "x." * 128, "@", "\\", "\\300.test", "\udcff.test", b"", b"\1a", b"\1a\0\0", b"\1a\xc0\0",
     ("a.test", 256), ("a.test", -1), ("a.test", 1, 0), ("a.test", 1, 4)],
)  # fmt: skip
def test_bad_entries_leave_the_former_names(entry: str | bytes | tuple[str, int]) -> None:
    names = NameMap(["a.test"])
    with pytest.raises(ValueError, match=r"not a name|surrogates|value is 0 to 255|scopes are"):
        names.replace(["b.test", entry])
    assert look(names, "a.test.")
    assert not look(names, "b.test.")


def test_what_the_iterable_raises_leaves_the_former_names() -> None:
    def entries() -> Iterator[str]:
        yield "b.test"
        raise OSError("cut")

    names = NameMap(["a.test"])
    with pytest.raises(OSError, match="cut"):
        names.replace(entries())
    assert look(names, "a.test.")
    assert not look(names, "b.test.")


def test_limits() -> None:
    names = NameMap(limit=3)
    names.replace(["a.test", "b.test", "c.test", "A.test"])
    assert len(names) == 3
    with pytest.raises(ValueError, match="more than 3 names"):
        names.replace(["a.test", "b.test", "c.test", "d.test"])
    assert len(names) == 3
    with pytest.raises(ValueError, match="at most 16777216 names"):
        NameMap(limit=16777217)


def test_what_is_sealed_takes_precedence() -> None:
    names = NameMap()
    draft = names.draft()
    assert draft.add("keep.test", 0)
    assert draft.add("exact.test", 0, EXACT)
    assert draft.add("below.test", 0, BELOW)
    draft.seal()
    assert not draft.add("keep.test")
    assert not draft.add("x.y.keep.test")
    assert draft.add("test", 2)
    assert draft.add("exact.test", 3)
    assert draft.add("x.exact.test", 4)
    assert draft.add("below.test", 5)
    assert not draft.add("x.below.test", 5)
    names.publish(draft)
    assert len(names) == 5
    wanted = {"keep": None, "x.keep": None, "exact": None, "y.exact": 3, "x.exact": 4, "below": 5, "x.below": None, "other": 2}
    assert {name: (look(names, f"{name}.test.") or (None,))[0] for name in wanted} == wanted


def test_a_draft_is_used_up() -> None:
    names = NameMap()
    draft = names.draft()
    draft.add("a.test")
    names.publish(draft)
    for use in (lambda: names.publish(draft), lambda: draft.add("b.test"), draft.seal):
        with pytest.raises(ValueError, match="used up"):
            use()
    assert len(draft) == 0


class Model:
    """The same in dictionaries."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int], int] = {}

    def add(self, name: str, value: int, scopes: int) -> None:
        for scope in (EXACT, BELOW):
            if scopes & scope:
                self.values.setdefault((name, scope), value)

    def match(self, name: str) -> Found | None:
        labels = name.split(".")
        for i in range(len(labels)):
            suffix = ".".join(labels[i:]) or "."
            value = self.values.get((suffix, BELOW if i else EXACT))
            if value is not None:
                return (value, suffix, suffix if self.whole(suffix) else None) if value else None
        return None

    def whole(self, name: str) -> bool:
        wanted = self.values.get((name, BELOW))
        return (
            wanted is not None
            and self.values.get((name, EXACT)) == wanted
            and all(value == wanted for (other, _), value in self.values.items() if other.endswith("." + name))
        )


@pytest.mark.parametrize("seed", range(6))
def test_random_entries(seed: int) -> None:
    rng = random.Random(seed)

    def name() -> str:
        return "".join(rng.choice("abc") + "." for _ in range(rng.randint(1, 6)))

    model = Model()
    entries = [(name(), rng.randrange(3), rng.choice((EXACT, BELOW, BOTH))) for _ in range(rng.choice((5, 60, 700)))]
    for entry in entries:
        model.add(*entry)
    names = NameMap(entries)
    assert len(names) == len({name for name, _ in model.values})
    for asked in (name() for _ in range(1500)):
        assert look(names, asked) == model.match(asked), asked


def test_names_of_one_hash() -> None:
    """A table with 32 bits of a hash has names that share them: each is found, and none for another."""
    by_hash = defaultdict(list)
    for number in range(300_000):
        by_hash[suffix_hashes(name_wire(f"n{number}.test."))[0]].append(f"n{number}.test.")
    shared = [found for found in by_hash.values() if len(found) > 1]
    assert shared
    names = NameMap(found[0] for found in shared)
    for first, *others in shared:
        assert look(names, first) == (1, first, first)
        assert not any(look(names, other) for other in others)
    names.replace(name for found in shared for name in found)
    assert all(look(names, name) == (1, name, name) for found in shared for name in found)


def test_hostile_names() -> None:
    """Names of every length and depth, of any octets."""
    rng = random.Random(7)
    wires = set()
    while len(wires) < 3000:
        wire = b""
        most = rng.choice((1, 2, 63))
        while len(wire) < 254 and rng.random() > 0.005:
            label = rng.randbytes(min(rng.randint(1, most), 253 - len(wire)))
            if not label:
                break
            wire += bytes([len(label)]) + label
        wires.add((wire + b"\0").lower())
    names = NameMap((wire, 1, EXACT) for wire in wires)
    assert len(names) == len(wires)
    assert max(map(len, wires)) == 255
    for wire in wires:
        assert look(names, name_text(wire)) == (1, name_text(wire), None)


def test_readers_see_one_version() -> None:
    """Every name of a version has its number, also while versions come and go: nobody reads memory that was freed."""
    names = NameMap((f"n{i}.test.", 1) for i in range(200))
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        rng = random.Random()
        while not stop.is_set():
            found = names.match(f"x.n{rng.randrange(200)}.test.")
            if found is None or found.suffix is None or not 1 <= found.value <= 250:
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for value in range(1, 250):
        names.replace((f"n{i}.test.", value) for i in range(200 + value))
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.memory
def test_memory_of_a_million_names() -> None:
    """64 MB at most, also after they were replaced: the former version goes back to the system."""
    count = 1_000_000
    gc.collect()
    before = resident()
    names = NameMap()
    for _ in range(3):
        names.replace(f"host-{number}.site{number % 50_000}.example.com" for number in range(count))
        assert len(names) == count
        assert resident() - before < 64 << 20
        assert names.octets < 64 << 20
    names.replace(())
    assert resident() - before < 4 << 20
