"""A cache in front of secondary and its like: what it has of a name goes with the version of the zone that has other records for it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from fastdns.index.zone import Zone
from fastdns.plugins.transfer.name_observer import NAMES_MOST, SWEPT_MOST, Row, changed_names
from fastdns.protocol.parameters import TYPE_A, TYPE_NS
from tests.plugins.kubernetes.test_cached import HOLD
from tests.plugins.secondary.primary import Messages, Primary
from tests.plugins.secondary.test_differences import questions
from tests.plugins.secondary.zones import Record, master_file, random_record
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]
Make = Callable[[str], Primary]
#: Name below example.org, type, answer before and after.
Case = tuple[str, str, list[str], list[str]]

HEAD = """@ 3600 IN SOA ns host {serial} 3600 600 86400 3600
@ 3600 IN NS ns
ns 3600 IN A 192.0.2.53
kept 3600 IN A 192.0.2.54
sub.kept 3600 IN A 192.0.2.55
"""
COREFILE = """
example.org:{{port}} {{
    prometheus 127.0.0.1:{{port2}}
    cache 3600
    {between}
    secondary {{
        transfer from {primary}
    }}
}}
"""
KEPT: list[tuple[str, str, list[str]]] = [
    ("kept", "A", ["192.0.2.54"]),
    ("kept", "AAAA", ["NOERROR"]),
    ("sub.kept", "A", ["192.0.2.55"]),
    ("none", "A", ["NXDOMAIN"]),
    ("none.kept", "A", ["NXDOMAIN"]),
]

#: What is there before, and what instead of it after the change.
CHANGES: dict[str, tuple[str, str, list[Case]]] = {
    "another address": ("www A 192.0.2.1", "www A 192.0.2.2", [("www", "A", ["192.0.2.1"], ["192.0.2.2"])]),
    "another type": ("www A 192.0.2.1", "www A 192.0.2.1\nwww AAAA 2001:db8::1", [("www", "AAAA", ["NOERROR"], ["2001:db8::1"])]),
    "a name comes": ("", "www A 192.0.2.1", [("www", "A", ["NXDOMAIN"], ["192.0.2.1"]), ("www", "AAAA", ["NXDOMAIN"], ["NOERROR"])]),
    "a name goes": ("www A 192.0.2.1", "", [("www", "A", ["192.0.2.1"], ["NXDOMAIN"]), ("www", "AAAA", ["NOERROR"], ["NXDOMAIN"])]),
    "with empty non-terminals": ("", "a.b.c A 192.0.2.1", [("b.c", "A", ["NXDOMAIN"], ["NOERROR"]), ("c", "TXT", ["NXDOMAIN"], ["NOERROR"])]),
    "they go": ("a.b.c A 192.0.2.1", "", [("b.c", "A", ["NOERROR"], ["NXDOMAIN"]), ("c", "TXT", ["NOERROR"], ["NXDOMAIN"])]),
    "a wildcard comes": (
        "w A 192.0.2.1",
        "w A 192.0.2.1\n*.w A 192.0.2.2",
        [("x.w", "A", ["NXDOMAIN"], ["192.0.2.2"]), ("y.x.w", "A", ["NXDOMAIN"], ["192.0.2.2"])],
    ),
    "a wildcard changes": ("*.w A 192.0.2.1", "*.w A 192.0.2.2", [("x.w", "A", ["192.0.2.1"], ["192.0.2.2"])]),
    "a name in front of a wildcard": (
        "*.w A 192.0.2.1",
        "*.w A 192.0.2.1\nx.w A 192.0.2.2",
        [("x.w", "A", ["192.0.2.1"], ["192.0.2.2"]), ("y.x.w", "A", ["192.0.2.1"], ["NXDOMAIN"])],
    ),
    "it goes": (
        "*.w A 192.0.2.1\nz.x.w A 192.0.2.2",
        "*.w A 192.0.2.1",
        [("x.w", "A", ["NOERROR"], ["192.0.2.1"]), ("y.x.w", "A", ["NXDOMAIN"], ["192.0.2.1"])],
    ),
    "a zone cut comes": (
        "a.cut A 192.0.2.1",
        "a.cut A 192.0.2.1\ncut NS ns",
        [("a.cut", "A", ["192.0.2.1"], ["NOERROR"]), ("b.cut", "A", ["NXDOMAIN"], ["NOERROR"])],
    ),
    "a zone cut goes": (
        "a.cut A 192.0.2.1\ncut NS ns",
        "a.cut A 192.0.2.1",
        [("a.cut", "A", ["NOERROR"], ["192.0.2.1"]), ("b.cut", "A", ["NOERROR"], ["NXDOMAIN"])],
    ),
    "a DNAME changes": (
        "d DNAME one.test.",
        "d DNAME two.test.",
        [("x.d", "CNAME", ["x.one.test."], ["x.two.test."]), ("d", "DNAME", ["one.test."], ["two.test."])],
    ),
    "a CNAME changes": ("c CNAME one.test.", "c CNAME two.test.", [("c", "A", ["one.test."], ["two.test."])]),
}


def zone(serial: int, text: str) -> str:
    return HEAD.format(serial=serial) + "".join(f"{line.replace(' ', ' 3600 IN ', 1)}\n" for line in text.splitlines())


def ask(server: Server, name: str, rdtype: str = "A", **options: object) -> list[str]:
    """The records of the name itself in the answer, or the rcode."""
    name = f"{name}.example.org."
    reply = server.query(name, rdtype, **options)  # type: ignore[arg-type]
    found = sorted(record.to_text() for rrset in reply.answer if rrset.name.to_text() == name for record in rrset)
    return found or [dns.rcode.to_text(reply.rcode())]


def serial(server: Server) -> int:
    return int(server.query("example.org.", "SOA").answer[0][0].serial)


def misses(server: Server) -> float:
    return server.metric(server.ports["port2"], f'coredns_cache_misses_total{{server="dns://:{server.port}",view="",zones="example.org."}}')


def start(serve: Serve, one: Primary, between: str = "") -> Server:
    server = serve(COREFILE.format(primary=one.address, between=between))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    return server


def follow(server: Server, one: Primary, version: int) -> None:
    """Have the server take a version up. That it is seen is the cache's doing, too: the SOA was asked for before."""
    assert serial(server) == version - 1
    one.notify(server.port)
    until(lambda: serial(server) == version, f"version {version}")


@pytest.mark.parametrize("by_differences", [True, False], ids=["IXFR", "AXFR"])
@pytest.mark.parametrize("case", CHANGES)
def test_a_version_removes_the_names_that_it_changes(serve: Serve, primary: Make, case: str, by_differences: bool) -> None:
    before, after, names = CHANGES[case]
    one = primary(zone(1, before))
    one.differences = by_differences
    server = start(serve, one)
    asked = [*[(name, rdtype, wanted) for name, rdtype, wanted, _ in names], *KEPT]
    for name, rdtype, wanted in asked * 2:
        assert ask(server, name, rdtype) == wanted, name
    one.add(zone(2, after))
    follow(server, one, 2)
    for name, rdtype, _, wanted in names:
        until(lambda name=name, rdtype=rdtype, wanted=wanted: ask(server, name, rdtype) == wanted, f"{name} {rdtype}")  # type: ignore[misc]
    count = misses(server)
    for name, rdtype, wanted in KEPT:
        assert ask(server, name, rdtype) == wanted
    assert misses(server) == count, "what has not changed is still there"


def test_a_whole_other_zone(serve: Serve, primary: Make) -> None:
    """More names than are removed one by one."""
    many = [f"h{number} A 192.0.2.{number % 200}" for number in range(NAMES_MOST + 1)]
    one = primary(zone(1, "\n".join(many)))
    server = start(serve, one)
    asked = ["h7", "h9999", "no"]
    assert [ask(server, name) for name in asked] == [["192.0.2.7"], ["192.0.2.199"], ["NXDOMAIN"]]
    one.add(zone(2, "\n".join(line.replace("192.0.2", "198.51.100") for line in many)))
    follow(server, one, 2)
    until(lambda: [ask(server, name) for name in asked] == [["198.51.100.7"], ["198.51.100.199"], ["NXDOMAIN"]])


def test_a_wildcard_of_all_names_in_a_full_cache(serve: Serve, primary: Make) -> None:
    """The removal takes many turns of the worker."""
    one = primary(zone(1, "* A 192.0.2.1"))
    server = start(serve, one)
    names = [f"n{number}" for number in range(6000)]
    for name in names:
        assert ask(server, name) == ["192.0.2.1"]
    one.add(zone(2, "* A 192.0.2.2"))
    follow(server, one, 2)
    until(lambda: ask(server, names[0]) == ["192.0.2.2"])
    removed = 'fastdns_cache_removals_total{type="success",view="",zones="example.org."}'
    until(lambda: server.metric(server.ports["port2"], removed) >= len(names))
    for name in names:
        assert ask(server, name) == ["192.0.2.2"]


def test_random_versions(serve: Serve, primary: Make) -> None:
    """Cached answers to what was asked before are those of a server without a cache, version by version."""
    choice = random.Random("cached")
    records: set[Record] = {random_record(choice) for _ in range(60)}
    one = primary(master_file(records, 1, ""))
    with_cache = COREFILE.format(primary=one.address, between="")
    server = serve(with_cache + with_cache.replace("cache 3600", "").replace("{port}", "{port3}").replace("prometheus 127.0.0.1:{port2}", ""))
    asked: set[tuple[str, str]] = set()
    for version in range(1, 20):
        one.differences = version % 3 != 0
        if version > 1:
            gone = set(choice.sample(sorted(records), min(len(records), choice.choice([0, 1, 2, 10]))))
            records = (records - gone) | {random_record(choice) for _ in range(choice.choice([0, 1, 2, 10]))}
            one.add(master_file(records, version, ""))
        for port in ("port", "port3"):
            one.notify(server.ports[port])
            server.until("ns.example.org.", "A", ["192.0.2.53"], port=server.ports[port])
            until(lambda port=port, version=version: server.query("example.org.", "SOA", port=server.ports[port]).answer[0][0].serial == version)  # type: ignore[misc]
        asked |= set(questions(choice, records, 60))
        for name, kind in sorted(asked):
            until(
                lambda name=name, kind=kind: summary(server, "port", name, kind) == summary(server, "port3", name, kind),  # type: ignore[misc]
                f"{version} {name} {kind}",
            )


def summary(server: Server, port: str, name: str, kind: str) -> object:
    """What the records of the name itself and of zone cuts decide. Where an alias leads to is another name's."""
    reply = server.query(name, kind, port=server.ports[port], tcp=True)
    own = sorted(record.to_text() for rrset in reply.answer if rrset.name.to_text() == name for record in rrset)
    aliases = any(rrset.rdtype in (dns.rdatatype.CNAME, dns.rdatatype.DNAME) for rrset in reply.answer)
    cuts = sorted(record.to_text() for rrset in reply.authority if rrset.rdtype == dns.rdatatype.NS for record in rrset if not reply.answer)
    return own, None if aliases else reply.rcode(), cuts


@pytest.mark.parametrize("name", ["old", "x.w"])
def test_a_query_under_way_does_not_bring_the_old_answer_back(serve: Serve, primary: Make, tmp_path: Path, name: str) -> None:
    hold = tmp_path / "plugin"
    hold.mkdir()
    (hold / "hold_plugin.py").write_text(HOLD.replace('"kubernetes"', '"secondary"'))
    one = primary(zone(1, "old A 192.0.2.1\n*.w A 192.0.2.1"))
    block = COREFILE.format(primary=one.address, between=f"plugin {hold}/hold_plugin.py")
    # Another block has the same zone: it takes the NOTIFY.
    server = serve(block + COREFILE.format(primary=one.address, between="").replace("{port}", "{port3}").replace("prometheus 127.0.0.1:{port2}", ""))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    (hold / "hold").touch()
    answers: list[list[str]] = []
    thread = threading.Thread(target=lambda: answers.append(ask(server, name)))
    thread.start()
    until((hold / "held").exists)
    (hold / "hold").unlink()
    one.add(zone(2, "old A 192.0.2.2\n*.w A 192.0.2.2"))
    one.notify(server.ports["port3"])
    until(lambda: serial(server) == 2)
    (hold / "go").touch()
    thread.join(LIMIT)
    assert answers == [["192.0.2.1"]]  # as it was when it was asked
    assert ask(server, name) == ["192.0.2.2"]


def test_members_of_a_catalog(serve: Serve, primary: Make) -> None:
    """Below a wildcard of the block's own zone: a zone that comes or goes takes its names."""
    catalog = "@ 3600 IN SOA ns host {serial} 3600 600 86400 3600\n@ 3600 IN NS invalid.\nversion 3600 IN TXT 2\n"
    member = "one.zones 3600 IN PTR sub.example.org.\n"
    one = Primary(zone(1, "*.sub A 192.0.2.1"))
    other = Primary("@ 3600 IN SOA ns host 1 3600 600 86400 3600\n@ 3600 IN NS ns\nns 3600 IN A 192.0.2.53\nx 3600 IN A 192.0.2.2\n", origin="sub.example.org.")
    shared = Primary(catalog.format(serial=1), origin="catalog.test.")

    def both(primary: Primary, request: dns.message.Message) -> Messages | None:
        return other.answer(request) if request.question[0].name == other.origin else None

    shared.script = both
    try:
        server = serve(
            f".:{{port}} {{\n cache 3600\n secondary example.org {{\n transfer from {one.address}\n }}\n"
            f" secondary catalog.test {{\n catalog\n transfer from {shared.address}\n }}\n }}"
        )
        server.until("x.sub.example.org.", "A", ["192.0.2.1"])
        server.until("catalog.test.", "NS", ["invalid."])
        for version, text, wanted in ((2, member, "192.0.2.2"), (3, "", "192.0.2.1")):
            shared.add(catalog.format(serial=version) + text)
            shared.notify(server.port)
            server.until("x.sub.example.org.", "A", [wanted])
    finally:
        for each in (one, other, shared):
            each.close()


def test_a_directory_of_zone_files(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "zones"
    folder.mkdir()
    file = folder / "db.example.org"
    file.write_text(zone(1, "www A 192.0.2.1"))
    server = serve(f".:{{port}} {{\n cache 3600\n auto {{\n directory {folder}\n reload 1s\n }}\n }}")
    asked = [("www", ["192.0.2.1"]), ("new", ["NXDOMAIN"])]
    assert [(name, ask(server, name)) for name, _ in asked] == asked
    file.write_text(zone(2, "www A 192.0.2.2\nnew A 192.0.2.3"))
    until(lambda: [ask(server, "www"), ask(server, "new")] == [["192.0.2.2"], ["192.0.2.3"]])
    file.unlink()
    until(lambda: ask(server, "www") == ["REFUSED"])


def test_nothing_is_told_of_zones_that_are_not_kept(serve: Serve, primary: Make) -> None:
    one = primary(zone(1, "www A 192.0.2.1"))
    text = COREFILE.replace("cache 3600", "cache 3600 {{\n disable success example.org\n disable denial example.org\n }}")
    server = serve(text.format(primary=one.address, between=""))
    server.until("www.example.org.", "A", ["192.0.2.1"])
    one.add(zone(2, "www A 192.0.2.2"))
    one.notify(server.port)
    until(lambda: ask(server, "www") == ["192.0.2.2"])
    assert all(line.endswith(" 0") for line in server.get(server.ports["port2"], "/metrics").splitlines() if line.startswith("fastdns_cache_removals_total{"))


def test_the_most_names() -> None:
    made = Zone("example.org.")
    draft = made.draft()
    draft.add(b"\x07example\x03org\x00", 6, 60, b"\x00\x00" + bytes(20))
    draft.finish()
    made.publish(draft)

    def rows(count: int, kind: int) -> list[Row]:
        return [(b"\x06h%05d\x07example\x03org\x00" % number, kind, 60, b"\x00\x00\x00\x00") for number in range(count)]

    whole = (set(), {made.wire})
    alone, below = changed_names(made, [], rows(NAMES_MOST, TYPE_A))
    assert (len(alone), below) == (NAMES_MOST + 1, set())
    assert changed_names(made, [], rows(NAMES_MOST + 1, TYPE_A)) == whole
    assert len(changed_names(made, rows(SWEPT_MOST, TYPE_NS), [])[1]) == SWEPT_MOST
    assert changed_names(made, rows(SWEPT_MOST + 1, TYPE_NS), []) == whole
