"""Zones: versions built from records in any order, published at one moment, and sets of zones."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fastdns._wire import name_wire
from fastdns.index.zone import Zone, ZoneError, ZoneSet
from fastdns.plugins.transfer import Transfer
from fastdns.zonefile.parser import ZoneFileError

A, NS, CNAME, SOA, MX, TXT, NSEC3, NSEC3PARAM = 1, 2, 5, 6, 15, 16, 50, 51


def soa(serial: int) -> bytes:
    return name_wire("NS.example.org.") + name_wire("admin.example.org.") + serial.to_bytes(4, "big") + bytes(16)


def draft(zone: Zone, records: list[tuple[str, int, bytes]], serial: int | None = 1) -> object:
    made = zone.draft()
    for name, kind, rdata in records:
        made.add(name_wire(name), kind, 300, rdata)
    if serial is not None:
        made.add(name_wire("example.org."), SOA, 300, soa(serial))
    made.finish()
    return made


def test_records_of_a_name_may_come_apart() -> None:
    zone = Zone("Example.org.")
    records = [(f"{name}.example.org.", A, bytes([10, 0, part, number])) for part in range(5) for number, name in enumerate("abc")]
    records += [("a.example.org.", TXT, b"\1x"), ("x.b.example.org.", TXT, b"\1y"), ("b.example.org.", TXT, b"\1z")]
    zone.publish(draft(zone, records))  # type: ignore[arg-type]
    for number, name in enumerate("abc"):
        found = [rdata for kind, _, rdata in zone.index.get(f"{name}.example.org.") if kind == A]
        assert found == [bytes([10, 0, part, number]) for part in range(5)], "as they came"
    assert [kind for kind, _, _ in zone.index.get("b.example.org.")] == [A] * 5 + [TXT]
    assert zone.index.statistics["records"] == 19
    assert zone.serial == 1


def test_the_last_soa_counts_and_names_are_lower_case() -> None:
    zone = Zone("example.org.")
    records = [("example.org.", SOA, soa(1)), ("other.test.", SOA, soa(2)), ("M.example.org.", MX, b"\0\1" + name_wire("MAIL.Example.org."))]
    zone.publish(draft(zone, records, serial=3))  # type: ignore[arg-type]
    assert zone.serial == 3
    assert [rdata[: len(name_wire("ns.example.org."))] for _, _, rdata in zone.index.get("example.org.")] == [name_wire("ns.example.org.")]
    assert zone.index.get("m.example.org.") == [(MX, 300, b"\0\1" + name_wire("mail.example.org."))]


def test_what_is_left_out_is_counted() -> None:
    zone = Zone("example.org.")
    made = zone.draft()
    assert made.add(name_wire("WWW.other.test."), A, 300, bytes(4))
    assert made.add(name_wire("x.example.org."), A, 300, bytes(4), 3)
    assert made.ignored == (2, "WWW.other.test.")
    with pytest.raises(ZoneError, match="no SOA record for origin example.org."):
        made.finish()
    with pytest.raises(ValueError, match="not a finished draft"):
        zone.publish(made)
    assert zone.serial is None


@pytest.mark.parametrize(
    ("kind", "rdata"),
    [
        (CNAME, b""),
        (CNAME, b"\3www"),
        (CNAME, b"\xc0\x0c"),
        (CNAME, b"\1a\0" + bytes(500)),
        (39, b"\1a\0b"),
        (33, bytes(8)),
        (NS, b"\x40" + bytes(64)),
        (MX, b"\0\1"),
        (MX, b"\0\1\5abc\0"),
        (SOA, name_wire("a.") + name_wire("b.") + bytes(19)),
        (SOA, name_wire("a.") + bytes(20)),
        (33, bytes(6)),
        (46, bytes(18)),
        (64, b"\0\1\2"),
        (CNAME, b"\1a" * 127 + b"\1a\0"),
    ],
)
def test_rdata_whose_names_are_cut_off_is_refused(kind: int, rdata: bytes) -> None:
    with pytest.raises(ZoneError, match=r"malformed rdata at x\.example\.org\."):
        Zone("example.org.").draft().add(name_wire("x.example.org."), kind, 300, rdata)


def test_a_file_with_the_serial_that_is_there_is_not_read_further(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("@ 300 IN SOA ns admin 7 1 1 1 1\nwww 300 IN A 192.0.2.1\nbroken\n")
    zone = Zone("example.org.")
    assert not zone.draft(7).read(str(tmp_path / "db"))
    with pytest.raises(ZoneFileError, match="at line: 3"):
        zone.draft(6).read(str(tmp_path / "db"))
    with pytest.raises(FileNotFoundError):
        zone.draft().read(str(tmp_path / "none"))


def test_hashes_of_too_many_rounds_are_refused() -> None:
    zone = Zone("example.org.")
    draft(zone, [("example.org.", NSEC3PARAM, b"\1\0\1\xf4\0")])
    with pytest.raises(ZoneError, match="more than 500 iterations"):
        draft(zone, [("example.org.", NSEC3PARAM, b"\1\0\1\xf5\0")])


def test_versions_are_published_whole_while_they_are_read() -> None:
    """Snapshots taken while versions change have records of one version only, and memory stays flat."""
    zone = Zone("example.org.")
    names = [f"n{i}.example.org." for i in range(50)]
    stop = threading.Event()
    wrong: list[str] = []

    def look() -> None:
        while not stop.is_set():
            transfer = Transfer.of_index(zone.index)
            versions = {rdata for _, kind, _, rdata in transfer or () if kind == A}
            if transfer is not None and len(versions) != 1:
                wrong.append(f"{versions}")

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for serial in range(1, 200):
            zone.publish(draft(zone, [(name, A, serial.to_bytes(4, "big")) for name in names], serial))  # type: ignore[arg-type]
            assert zone.serial == serial
    finally:
        stop.set()
        looking.join()
    assert not wrong
    zone.index.collect()
    assert zone.index.statistics["pending"] == 0


def test_sets_of_zones() -> None:
    first, second, again = Zone("a.test."), Zone("B.test."), Zone("A.TEST.")
    zones = ZoneSet([first, second, again])
    assert zones.zones == (again, second)
    zones.replace([])
    assert zones.zones == ()
    assert zones.collect() == 0
