"""secondary: zones whose records contradict each other are served as *file* serves them, and it is told; also after differences and from the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import dns.query
import dns.rcode
import pytest

from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

HEAD = "@ 300 IN SOA ns admin {serial} 3600 600 86400 60\n@ 300 IN NS ns.example.net.\nb 300 IN A 192.0.2.2\nz 300 IN A 192.0.2.3\n"
BROKEN = "a 300 IN CNAME b\na 300 IN A 192.0.2.66\ntwo 300 IN CNAME z\ntwo 300 IN CNAME b\nd 300 IN DNAME z\nd 300 IN DNAME b\nx.d 300 IN A 192.0.2.66\n"
FOLLOWS = """example.org:{{port}} {{
    bind 127.0.0.1
    prometheus 127.0.0.1:{{port2}}
    secondary {{
        transfer from 127.0.0.1:{primary}
        {more}
    }}
}}"""
SENDS = "example.org:{port} {\n bind 127.0.0.1\n file {dir}/db {\n reload 100ms\n }\n transfer {\n to * 127.0.0.1:SECONDARY\n }\n}"
GAUGE = 'fastdns_zone_conflicts{zone="example.org."}'
TEXT = "[WARNING] plugin/secondary: Zone example.org. with {serial} SOA serial has names with records that contradict each other: {names}"


def zone(serial: int, text: str = "") -> str:
    return HEAD.format(serial=serial) + text


def write(server: Server, text: str) -> None:
    new = server.folder / "db.new"
    new.write_text(text)
    new.replace(server.folder / "db")


@pytest.fixture
def both(serve: Serve) -> Callable[..., tuple[Server, Server]]:
    """``both(text, more)``: a primary with a zone, and a secondary with more lines that gets its NOTIFYs."""

    def start(text: str, more: str = "") -> tuple[Server, Server]:
        primary = serve(SENDS.replace("SECONDARY", "9"), prepare=lambda folder: (folder / "db").write_text(text))
        secondary = serve(FOLLOWS.format(primary=primary.port, more=more))
        primary.reload(SENDS.replace("SECONDARY", str(secondary.port)))
        until(lambda: secondary.query("b.example.org.").rcode() == dns.rcode.NOERROR)
        return primary, secondary

    return start


def lines(server: Server) -> list[str]:
    return [line for line in server.log().splitlines() if "contradict" in line]


def test_a_zone_that_is_transferred(both: Callable[..., tuple[Server, Server]]) -> None:
    _, server = both(zone(1, BROKEN))
    wanted = TEXT.format(serial=1, names="a.example.org. (CNAME and other data), d.example.org. (several DNAME records), ")
    until(lambda: lines(server) == [wanted + "x.d.example.org. (data below a DNAME) and 1 more"])
    until(lambda: server.metric(server.ports["port2"], GAUGE) == 4)
    assert server.answers("a.example.org.", "CNAME") == server.answers("two.example.org.", "CNAME") == ["b.example.org."]
    for name in ("a", "two"):
        assert [str(rrset[0]) for rrset in server.query(f"{name}.example.org.").answer] == ["b.example.org.", "192.0.2.2"]
    assert [str(rrset) for rrset in server.query("x.d.example.org.", "CNAME").answer] == [
        "d.example.org. 300 IN DNAME b.example.org.",
        "x.d.example.org. 300 IN CNAME x.b.example.org.",
    ]


def test_differences_that_bring_a_contradiction_and_take_it_away(both: Callable[..., tuple[Server, Server]]) -> None:
    primary, server = both(zone(1, "two 300 IN CNAME z\n"))
    assert lines(server) == []
    assert "fastdns_zone_conflicts{" not in server.get(server.ports["port2"], "/metrics")
    write(primary, zone(2, "two 300 IN CNAME z\ntwo 300 IN CNAME b\n"))
    server.until("two.example.org.", "CNAME", ["b.example.org."])
    until(lambda: lines(server) == [TEXT.format(serial=2, names="two.example.org. (several CNAME records)")])
    until(lambda: server.metric(server.ports["port2"], GAUGE) == 1)
    write(primary, zone(3, "two 300 IN CNAME z\ntwo 300 IN CNAME b\nx 300 IN DNAME z\ny.x 300 IN TXT hidden\n"))
    names = "two.example.org. (several CNAME records), y.x.example.org. (data below a DNAME)"
    until(lambda: lines(server)[1:] == [TEXT.format(serial=3, names=names)])
    write(primary, zone(4, "two 300 IN CNAME z\nx 300 IN DNAME z\n"))
    server.until("two.example.org.", "CNAME", ["z.example.org."])
    until(lambda: f"{GAUGE} 0\n" in server.get(server.ports["port2"], "/metrics"))
    assert len(lines(server)) == 2


def test_what_was_stored_is_told_when_it_is_served_again(both: Callable[..., tuple[Server, Server]], serve: Serve, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    primary, first = both(zone(1, BROKEN), f"store {store}")
    until(lambda: (store / "db.example.org").exists())
    primary.stop()
    first.stop()
    kept = tmp_path / "kept"
    shutil.copytree(store, kept)
    second = serve(FOLLOWS.format(primary=primary.port, more=f"store {kept}"))
    second.wait_log("Serving example.org. with 1 SOA serial from")
    assert lines(second) == lines(first)  # the line comes before that
    assert len(lines(second)) == 1
    assert second.metric(second.ports["port2"], GAUGE) == 4
    assert second.answers("two.example.org.", "CNAME") == ["b.example.org."]


def test_a_transfer_from_here_has_all_records(both: Callable[..., tuple[Server, Server]]) -> None:
    primary, _ = both(zone(1, BROKEN))
    messages = dns.query.xfr("127.0.0.1", "example.org.", port=primary.port, relativize=False)
    found = sorted(line for message in messages for rrset in message.answer for line in rrset.to_text().splitlines())
    for text in ("a.example.org. 300 IN A 192.0.2.66", "two.example.org. 300 IN CNAME z.example.org.", "d.example.org. 300 IN DNAME z.example.org."):
        assert text in found
    assert len(found) == len(zone(1, BROKEN).splitlines()) + 1
