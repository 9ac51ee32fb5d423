"""file: zones whose records contradict each other. They are served, always in the same way, and it is told."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.rcode
import pytest

from fastdns.index.conflicts import conflicts_of
from fastdns.index.zone import Zone
from tests.server import Server, command
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

SOA = "@ 300 IN SOA ns admin 1 3600 600 86400 60"

#: In an order in which what is served is never the first.
RECORDS = [
    SOA,
    "@ 300 IN NS ns",
    "ns 300 IN A 192.0.2.53",
    "b 300 IN A 192.0.2.2",
    "z 300 IN A 192.0.2.3",
    "host.b 300 IN A 192.0.2.4",
    "host.z 300 IN A 192.0.2.5",
    'both 300 IN TXT "hidden"',
    "both 300 IN A 192.0.2.66",
    "both 300 IN CNAME b",
    "*.wild 300 IN A 192.0.2.66",
    "*.wild 300 IN CNAME b",
    "two 300 IN CNAME z",
    "two 300 IN CNAME B",
    "two 300 IN CNAME longer",
    "same 300 IN CNAME b",
    "same 300 IN CNAME B",
    "moved 300 IN DNAME z",
    "moved 300 IN DNAME b",
    "moved 300 IN DNAME zz",
    "host.moved 300 IN A 192.0.2.66",
    "deep.host.moved 300 IN A 192.0.2.66",
    "cut 300 IN CNAME b",
    "cut 300 IN NS ns",
    "dcut 300 IN DNAME b",
    "dcut 300 IN NS ns.dcut",
    "ns.dcut 300 IN A 192.0.2.6",
    "mail 300 IN MX 10 both",
    "mail 300 IN MX 20 host.moved",
    "mail 300 IN MX 30 b",
    "kept 300 IN CNAME b",
    "kept 300 IN KEY 256 3 13 AQAB",
]

REFERRAL = ["cut.example.org. 300 IN NS ns.example.org."]
B = "b.example.org. 300 IN A 192.0.2.2"
MOVED = "moved.example.org. 300 IN DNAME b.example.org."

# question, answer, authority when it is a referral, additional section
ANSWERS: list[tuple[str, list[str], list[str], list[str]]] = [
    ("both A", ["both.example.org. 300 IN CNAME b.example.org.", B], [], []),
    ("both TXT", ["both.example.org. 300 IN CNAME b.example.org."], [], []),
    ("both CNAME", ["both.example.org. 300 IN CNAME b.example.org."], [], []),
    ("q.wild A", ["q.wild.example.org. 300 IN CNAME b.example.org.", B], [], []),
    ("two A", ["two.example.org. 300 IN CNAME b.example.org.", B], [], []),
    ("two CNAME", ["two.example.org. 300 IN CNAME b.example.org."], [], []),
    ("same CNAME", ["same.example.org. 300 IN CNAME b.example.org."], [], []),
    ("moved DNAME", [MOVED], [], []),
    ("x.moved CNAME", [MOVED, "x.moved.example.org. 300 IN CNAME x.b.example.org."], [], []),
    ("host.moved A", [MOVED, "host.moved.example.org. 300 IN CNAME host.b.example.org.", "host.b.example.org. 300 IN A 192.0.2.4"], [], []),
    ("deep.host.moved CNAME", [MOVED, "deep.host.moved.example.org. 300 IN CNAME deep.host.b.example.org."], [], []),
    ("cut A", [], REFERRAL, ["ns.example.org. 300 IN A 192.0.2.53"]),
    ("cut CNAME", [], REFERRAL, ["ns.example.org. 300 IN A 192.0.2.53"]),
    ("x.cut A", [], REFERRAL, ["ns.example.org. 300 IN A 192.0.2.53"]),
    ("x.dcut A", [], ["dcut.example.org. 300 IN NS ns.dcut.example.org."], ["ns.dcut.example.org. 300 IN A 192.0.2.6"]),
    (
        "mail MX",
        [f"mail.example.org. 300 IN MX {text}.example.org." for text in ("10 both", "20 host.moved", "30 b")],
        [],
        [B],
    ),
]

#: Name, line of `RECORDS` (from 1) and text of what is told.
TOLD = [
    ("both", 8, "CNAME and other data: only the CNAME is served (RFC 2181 10.1)"),
    ("*.wild", 11, "CNAME and other data: only the CNAME is served (RFC 2181 10.1)"),
    ("two", 13, "several CNAME records: only the canonically smallest is served (RFC 2181 10.1)"),
    ("moved", 18, "several DNAME records: only the canonically smallest is served (RFC 6672 2.4)"),
    ("host.moved", 21, "data below a DNAME: it is not served (RFC 6672 2.4)"),
    ("deep.host.moved", 22, "data below a DNAME: it is not served (RFC 6672 2.4)"),
    ("cut", 23, "CNAME and NS: the delegation is served (RFC 2181 10.1)"),
    ("dcut", 25, "DNAME and NS: the delegation is served (RFC 6672 2.3)"),
]

COREFILE = """example.org:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    file {dir}/db {
        reload 100ms
    }
}"""
GAUGE = 'fastdns_zone_conflicts{zone="example.org."}'


def lines(records: list[str]) -> str:
    return "".join(record + "\n" for record in records)


def section(rrsets: list[object]) -> list[str]:
    return sorted(line for rrset in rrsets for line in str(rrset).splitlines())


def start(serve: Serve, text: str, corefile: str = COREFILE, **options: object) -> Server:
    return serve(corefile, prepare=lambda folder: (folder / "db").write_text(text), **options)


def write(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def warnings(server: Server) -> list[str]:
    return [line.removeprefix("[WARNING] plugin/file: ") for line in server.log().splitlines() if line.startswith("[WARNING] plugin/file: ")]


# ---- answers ----


@pytest.mark.parametrize("order", ["given", "reversed", "mixed"])
def test_the_answer_does_not_depend_on_the_order(serve: Serve, order: str) -> None:
    records = RECORDS[1:]
    if order == "reversed":
        records.reverse()
    elif order == "mixed":
        random.Random(7).shuffle(records)
    server = start(serve, lines([SOA, *records]))
    for question, answer, authority, additional in ANSWERS:
        name, kind = question.split()
        reply = server.query(f"{name}.example.org.", kind)
        assert dns.rcode.to_text(reply.rcode()) == "NOERROR", question
        assert section(reply.answer) == sorted(answer), question
        assert section(reply.additional) == sorted(additional), question
        if authority:
            assert section(reply.authority) == authority, question
            assert not reply.flags & dns.flags.AA, question


def test_a_cname_at_the_apex(serve: Serve) -> None:
    server = start(serve, lines([*RECORDS[:4], "@ 300 IN MX 10 b", "@ 300 IN CNAME b"]))
    assert section(server.query("example.org.", "SOA").answer) == ["example.org. 300 IN SOA ns.example.org. admin.example.org. 1 3600 600 86400 60"]
    assert section(server.query("example.org.", "NS").answer) == ["example.org. 300 IN NS ns.example.org."]
    for kind in ("MX", "A", "TXT"):
        assert section(server.query("example.org.", kind).answer)[-1] == "example.org. 300 IN CNAME b.example.org."
    text = "example.org.: CNAME at the apex of the zone: it is served for all types but SOA and NS (RFC 2181 10.1)"
    assert warnings(server) == [f"{server.folder}/db:6: {text}"]


@pytest.mark.parametrize("serials", [(1, 3, 2), (3, 2, 1), (1, 2, 3)])
def test_of_several_soa_records_that_with_the_highest_serial_is_served(serve: Serve, serials: tuple[int, ...]) -> None:
    server = start(serve, lines([*(SOA.replace(" 1 ", f" {serial} ") for serial in serials), *RECORDS[1:3]]))
    assert [rdata.serial for rdata in server.query("example.org.", "SOA").answer[0]] == [3]
    line = next(at for at, serial in enumerate(serials, 1) if serial != 3)
    assert warnings(server) == [f"{server.folder}/db:{line}: example.org.: several SOA records: only that with the highest serial is served (RFC 1035 5.2)"]
    os.utime(server.folder / "db")
    with pytest.raises(AssertionError):
        server.wait_log("Successfully reloaded", limit=0.5)
    write(server.folder / "db", lines([*(SOA.replace(" 1 ", f" {serial} ") for serial in (4, *serials)), *RECORDS[1:3]]))
    server.wait_log("Successfully reloaded zone .* with 4 SOA serial")


# ---- what is told ----


def test_file_and_line_are_logged_at_the_start_and_at_a_reload_and_counted(serve: Serve) -> None:
    server = start(serve, lines(RECORDS))
    db = server.folder / "db"
    told = [f"{db}:{line}: {name}.example.org.: {text}" for name, line, text in TOLD]
    assert warnings(server) == told
    assert server.metric(server.ports["port2"], GAUGE) == len(TOLD)
    write(db, lines([SOA.replace(" 1 ", " 2 "), *RECORDS[1:10]]))
    server.wait_log("Successfully reloaded zone .* with 2 SOA serial")
    until(lambda: warnings(server) == [*told, told[0]])
    until(lambda: server.metric(server.ports["port2"], GAUGE) == 1)
    write(db, lines([SOA.replace(" 1 ", " 3 "), *RECORDS[1:7]]))
    until(lambda: f"{GAUGE} 0\n" in server.get(server.ports["port2"], "/metrics"))
    assert len(warnings(server)) == len(told) + 1


def test_records_that_do_not_contradict_each_other(serve: Serve) -> None:
    """RFC 4034 3 and 4: RRSIG and NSEC beside a CNAME; RFC 5155 7.2.8: owners of NSEC3 below a DNAME are no names of the zone."""
    signature = "300 IN RRSIG CNAME 13 3 300 20300101000000 20200101000000 1 example.org. AAAA"
    records = [
        *RECORDS[:6],
        "a 300 IN CNAME b",
        f"a {signature}",
        "a 300 IN NSEC b CNAME RRSIG NSEC",
        "twice 300 IN CNAME b",
        "twice 300 IN CNAME B",
        "d 300 IN DNAME b",
        "d 300 IN A 192.0.2.1",
        "cut 300 IN NS ns.cut",
        "ns.cut 300 IN A 192.0.2.7",
        "x.cut 300 IN DNAME b",
    ]
    server = start(serve, lines(records))
    assert warnings(server) == []
    assert "fastdns_zone_conflicts{" not in server.get(server.ports["port2"], "/metrics")
    hashed = "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom 300 IN NSEC3 1 0 0 - 1p9mhaveqvm6t7vbl5lop2u3t2rp3tom A"
    write(server.folder / "db", lines([SOA.replace(" 1 ", " 2 "), "@ 300 IN NS ns.example.net.", "@ 300 IN DNAME example.net.", hashed]))
    server.wait_log("Successfully reloaded zone .* with 2 SOA serial")
    assert warnings(server) == []


def test_the_place_is_that_of_the_file_that_is_included_and_of_the_line_that_generates(serve: Serve) -> None:
    text = lines(
        [SOA, "@ 300 IN NS ns.example.net.", "$INCLUDE more inner", "$GENERATE 1-3 g$ CNAME b", "g2 300 IN A 192.0.2.2", "$GENERATE 3-4 g$ TXT (", "x )"]
    )
    more = "; a comment\na 300 IN CNAME b\na 300 IN TXT (\n x )\n"

    def prepare(folder: Path) -> None:
        (folder / "db").write_text(text)
        (folder / "more").write_text(more)

    server = serve(COREFILE, prepare=prepare)
    served = "CNAME and other data: only the CNAME is served (RFC 2181 10.1)"
    assert warnings(server) == [
        f"{server.folder}/more:3: a.inner.example.org.: {served}",
        f"{server.folder}/db:5: g2.example.org.: {served}",
        f"{server.folder}/db:6: g3.example.org.: {served}",
    ]


def test_the_first_ten_names_are_told_and_the_number_of_the_others(serve: Serve) -> None:
    names = [f"n{number}" for number in range(25)]
    records = [f"{name} 300 IN CNAME b\n{name} 300 IN A 192.0.2.1\n{name} 300 IN TXT x" for name in names]
    server = start(serve, lines([SOA, "@ 300 IN NS ns.example.net.", *records]))
    told = warnings(server)
    assert [line.split(": ")[1] for line in told[:10]] == [f"{name}.example.org." for name in names[:10]]
    assert told[10:] == [f'"{server.folder}/db" has 15 more names with records that contradict each other']
    assert server.metric(server.ports["port2"], GAUGE) == 25


def test_a_sample_goes_with_its_zone(serve: Serve) -> None:
    server = start(serve, lines(RECORDS))
    server.reload(re.sub(r"file [^}]*}", "whoami", server.corefile.read_text()))
    until(lambda: "fastdns_zone_conflicts{" not in server.get(server.ports["port2"], "/metrics"))


# ---- refuse_conflicts ----

REFUSES = COREFILE.replace("reload 100ms", "reload 100ms\n        refuse_conflicts")


def test_a_file_that_is_refused_at_the_start(serve: Serve) -> None:
    server = start(serve, lines(RECORDS), REFUSES, wait=False)
    assert server.exit_status() == 1
    db = server.folder / "db"
    text = f'plugin/file: file "{db}" has records that contradict each other: {db}:8: both.example.org.: CNAME and other data (RFC 2181 10.1), and 7 more names'
    assert text in server.log()
    assert warnings(server) == []


def test_a_version_that_is_refused_leaves_the_old_one(serve: Serve) -> None:
    server = start(serve, lines(RECORDS[:7]), REFUSES)
    db = server.folder / "db"
    write(db, lines([SOA.replace(" 1 ", " 2 "), *RECORDS[1:10]]))
    text = rf'file "{db}" has records that contradict each other: {db}:8: both.example.org.: CNAME and other data \(RFC 2181 10.1\)$'
    server.wait_log(rf'^\[ERROR\] plugin/file: Parsing zone "example.org.": {text}')
    assert server.query("both.example.org.").rcode() == dns.rcode.NXDOMAIN
    write(db, lines([SOA.replace(" 1 ", " 3 "), *RECORDS[1:7], "both 300 IN A 192.0.2.1"]))
    server.until("both.example.org.", "A", ["192.0.2.1"])


def test_it_holds_for_later_files_of_the_block(serve: Serve) -> None:
    corefile = "example.org:{port} example.net:{port} {\n bind 127.0.0.1\n file {dir}/good example.net {\n refuse_conflicts\n }\n file {dir}/db example.org\n}"

    def prepare(folder: Path) -> None:
        (folder / "good").write_text(lines(RECORDS[:7]))
        (folder / "db").write_text(lines(RECORDS))

    server = serve(corefile, wait=False, prepare=prepare)
    assert server.exit_status() == 1
    assert "and 7 more names" in server.log()


# ---- check ----


def check(folder: Path, corefile: str, *flags: str) -> tuple[int, str]:
    (folder / "Corefile").write_text(corefile)
    done = subprocess.run([*command(), "check", *flags, "Corefile"], capture_output=True, text=True, timeout=LIMIT, cwd=folder)
    return done.returncode, done.stdout


def test_check_warns_with_file_and_line_and_strict_makes_errors_of_it(tmp_path: Path) -> None:
    (tmp_path / "db").write_text(lines(RECORDS))
    corefile = "example.org {\n file db\n}"
    status, out = check(tmp_path, corefile)
    assert status == 0
    told = [f"db:{line}: warning: plugin/file: {name}.example.org.: {text}" for name, line, text in TOLD]
    assert out.splitlines() == [*told, "Corefile: OK (0 errors, 8 warnings)"]
    status, out = check(tmp_path, corefile, "--strict")
    assert status == 1
    assert out.splitlines() == [*(line.replace("warning", "error", 1) for line in told), "Corefile: would be served, with warnings (8 errors, 0 warnings)"]
    status, out = check(tmp_path, corefile, "-strict", "-json")
    found = json.loads(out)
    assert (status, found["ok"]) == (1, False)
    assert {problem["severity"] for problem in found["problems"]} == {"error"}
    status, out = check(tmp_path, "example.org {\n file db {\n  refuse_conflicts\n }\n}")
    assert status == 1
    assert re.match(r'Corefile:2: error: plugin/file: file "db" has records that contradict each other: db:8: ', out)


def test_check_finds_nothing_in_a_good_zone(tmp_path: Path) -> None:
    (tmp_path / "db").write_text(lines(RECORDS[:7]))
    assert check(tmp_path, "example.org {\n file db\n}", "-strict") == (0, "Corefile: OK (0 errors, 0 warnings)\n")


def test_check_tells_ten_names_and_the_number_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "db").write_text(lines([SOA, *(f"n{number} 300 IN CNAME b\nn{number} 300 IN A 192.0.2.1" for number in range(12))]))
    status, out = check(tmp_path, "example.org {\n file db\n}")
    assert status == 0
    assert 'db: warning: plugin/file: "db" has 2 more names with records that contradict each other\n' in out
    assert out.endswith("(0 errors, 11 warnings)\n")


# ---- limits ----


def test_one_name_with_very_many_cname_records() -> None:
    zone = Zone("example.org.")
    made = zone.draft()
    made.add(zone.wire, 6, 300, b"\0\0" + bytes(20))
    for number in range(65535):
        made.add(b"\1a" + zone.wire, 5, 300, bytes([2, number >> 8 ^ 0x80, number & 0xFF, 0]))
    made.finish()
    zone.publish(made)
    assert conflicts_of(zone, 5)[0][0] == "a.example.org."
    assert zone.conflicts == 1
