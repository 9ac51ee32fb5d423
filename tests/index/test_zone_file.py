"""Zones in files: what is written is read again, and what is damaged is read as a version before, or not at all."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest

from fastdns._wire import name_wire
from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone
from fastdns.index.zone_dump import ZoneDump, change_block, change_content
from fastdns.index.zone_load import ZoneFile

Rows = list[tuple[bytes, int, int, bytes]]

APEX = name_wire("example.org.")
A, NS, CNAME, SOA, TXT = 1, 2, 5, 6, 16


def soa(serial: int) -> bytes:
    return name_wire("ns.example.org.") + name_wire("host.example.org.") + struct.pack(">IIIII", serial, 3600, 600, 86400, 60)


def below(label: str) -> bytes:
    return name_wire(f"{label}.example.org.")


def zone(serial: int, rows: Rows) -> Zone:
    made = Zone("example.org.")
    draft = made.draft()
    for owner, kind, ttl, rdata in [(APEX, SOA, 60, soa(serial)), (APEX, NS, 60, below("ns")), *rows]:
        draft.add(owner, kind, ttl, rdata)
    draft.finish()
    made.publish(draft)
    return made


def some(count: int) -> Rows:
    rows: Rows = [(below(f"n{i}"), A, i, bytes([10, 0, i >> 8, i & 255])) for i in range(count)]
    rows += [(below("*.deep.down"), TXT, 5, b"\1x"), (below("alias"), CNAME, 5, below("n1")), (below("alias"), CNAME, 5, below("n0"))]
    return rows + [(below("long"), TXT, 5, b"\xff" + b"y" * 255 + b"\5%05d" % i) for i in range(min(count, 2000))]


def write(path: Path, of: Zone) -> ZoneDump:
    dump = ZoneDump(of)
    with path.open("wb") as file:
        dump.write(file.fileno())
    return dump


def change(of: Zone, serial: int, deleted: Rows, added: Rows) -> bytes:
    """Publishes a change of a zone; returns its content."""
    made = ZoneChange(of, of.serial or 0)
    for row in deleted:
        made.delete(*row)
    for row in [*added, (APEX, SOA, 60, soa(serial))]:
        made.add(*row)
    made.finish()
    made.publish()
    return change_content(made)


def read(path: Path) -> tuple[Zone, ZoneFile]:
    """Raises what reading raises."""
    made = Zone("example.org.")
    with path.open("rb") as file:
        kept = ZoneFile(made, file.fileno(), os.fstat(file.fileno()).st_size)
        made.publish(kept.read())
        later = kept.read_changes(made.serial or 0)
        if later is not None:
            later.publish()
        return made, kept


def rows_of(of: Zone) -> Rows:
    return list(of.index.snapshot())


@pytest.mark.parametrize("count", [0, 1, 5000, 40000])
def test_what_is_written_is_read(tmp_path: Path, count: int) -> None:
    first = zone(7, some(count))
    dump = write(tmp_path / "zone", first)
    second, kept = read(tmp_path / "zone")
    assert rows_of(second) == rows_of(first)
    assert (second.serial, second.conflicts) == (7, first.conflicts)
    assert (kept.blocks, kept.end, kept.changes) == (dump.blocks, (tmp_path / "zone").stat().st_size, 0)
    assert second.index.find(below("other.deep.down"), TXT).wildcard


def test_changes_follow(tmp_path: Path) -> None:
    first = zone(7, some(10))
    dump = write(tmp_path / "zone", first)
    contents = [
        change(first, 8, [(below("n1"), A, 1, b"\x0a\0\0\1")], [(below("new"), A, 9, b"\x0a\0\1\1")]),
        change(first, 9, [(below("new"), A, 9, b"\x0a\0\1\1")], [(below("n1"), A, 8, b"\x0a\0\0\1"), (below("last"), TXT, 1, b"\0")]),
        change(first, 3, [], []),
    ]
    with (tmp_path / "zone").open("ab") as file:
        for i, content in enumerate(contents):
            file.write(change_block(content, dump.blocks + i))
    second, kept = read(tmp_path / "zone")
    assert rows_of(second) == rows_of(first)
    assert (second.serial, kept.changes, kept.end) == (3, 3, (tmp_path / "zone").stat().st_size)


@pytest.mark.parametrize("number", [-1, 1])
def test_a_change_in_another_place_is_not_read(tmp_path: Path, number: int) -> None:
    first = zone(7, some(10))
    dump = write(tmp_path / "zone", first)
    content = change(first, 8, [], [(below("new"), A, 9, b"\x0a\0\1\1")])
    with (tmp_path / "zone").open("ab") as file:
        file.write(change_block(content, dump.blocks + number))
    second, kept = read(tmp_path / "zone")
    assert (second.serial, kept.changes, kept.end) == (7, 0, kept.whole)


def test_a_change_of_another_version_is_refused(tmp_path: Path) -> None:
    dump = write(tmp_path / "zone", zone(6, some(10)))
    content = change(zone(7, some(10)), 8, [], [(below("new"), A, 9, b"\x0a\0\1\1")])
    with (tmp_path / "zone").open("ab") as file:
        file.write(change_block(content, dump.blocks))
    with pytest.raises(ValueError, match="is damaged"):
        read(tmp_path / "zone")


def test_what_is_cut_is_a_version_before_or_nothing(tmp_path: Path) -> None:
    """At every octet: the zone without the change, or an error."""
    first = zone(7, some(3))
    dump = write(tmp_path / "zone", first)
    before = rows_of(first)
    content = change(first, 8, [], [(below("new"), A, 9, b"\x0a\0\1\1")])
    whole = (tmp_path / "zone").read_bytes()
    octets = whole + change_block(content, dump.blocks)
    for length in range(len(octets)):
        (tmp_path / "zone").write_bytes(octets[:length])
        if length < len(whole):
            with pytest.raises(ValueError, match="cut short|that this version has written"):
                read(tmp_path / "zone")
        else:
            found, kept = read(tmp_path / "zone")
            assert (rows_of(found), kept.end) == (before, len(whole))


def test_a_damaged_octet_is_noticed(tmp_path: Path) -> None:
    """Of the zone: nothing is read. Of the head's number of names: it is a hint."""
    first = zone(7, some(3))
    write(tmp_path / "zone", first)
    whole = bytearray((tmp_path / "zone").read_bytes())
    for at in [*range(16), *range(20, len(whole))]:
        octets = whole.copy()
        octets[at] ^= 1 << random.Random(at).randrange(8)
        (tmp_path / "zone").write_bytes(octets)
        with pytest.raises(ValueError, match="cut short|that this version has written"):
            read(tmp_path / "zone")
    for names in (0, 0xFFFFFFFF):
        (tmp_path / "zone").write_bytes(whole[:16] + struct.pack(">I", names) + whole[20:])
        assert rows_of(read(tmp_path / "zone")[0]) == rows_of(first)


def test_a_file_of_another_zone_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "zone", zone(7, some(3)))
    with (tmp_path / "zone").open("rb") as file, pytest.raises(ValueError, match="is damaged"):
        ZoneFile(Zone("example.com."), file.fileno(), (tmp_path / "zone").stat().st_size).read()


def test_a_file_that_is_cut_while_it_is_read_is_cut_short(tmp_path: Path) -> None:
    write(tmp_path / "zone", zone(7, some(3)))
    size = (tmp_path / "zone").stat().st_size
    os.truncate(tmp_path / "zone", size - 40)
    with (tmp_path / "zone").open("rb") as file, pytest.raises(ValueError, match="cut short"):
        ZoneFile(Zone("example.org."), file.fileno(), size).read()
