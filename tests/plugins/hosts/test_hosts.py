"""hosts: lines in the format of /etc/hosts, from a file and from the Corefile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.hosts import parse
from fastdns.plugins.hosts.table import NAMES_MAX, Entries, records, reverse_name
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import LIMIT

Serve = Callable[..., Server]


# ---- set-up ----


def test_defaults() -> None:
    settings = parse(Controller.of("hosts", ["example.org", "10.0.0.0/24"]))
    assert settings.path == "/etc/hosts"
    assert settings.zones == ["example.org.", "0.0.10.in-addr.arpa."]
    assert (settings.ttl, settings.reverse, settings.reload, settings.fall, settings.unsupported) == (3600, True, 5 * 10**9, [], False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("hosts /dev/null a.test B.test", {"path": "/dev/null", "zones": ["a.test.", "b.test."]}),
        ("hosts {\n ttl 60\n}", {"ttl": 60}),
        ("hosts {\n ttl 65535\n}", {"ttl": 65535}),
        ("hosts {\n no_reverse\n}", {"reverse": False}),
        ("hosts {\n reload 1m30s\n}", {"reload": 90 * 10**9}),
        ("hosts {\n reload 0\n}", {"reload": 0}),
        ("hosts {\n fallthrough\n}", {"fall": ["."]}),
        ("hosts {\n fallthrough a.test b.test.\n}", {"fall": ["a.test.", "b.test."]}),
        ("hosts {\n fallthrough\n fallthrough_unsupported\n}", {"unsupported": True}),
        ("hosts {\n fallthrough_unsupported\n fallthrough\n}", {"unsupported": True}),
        ("hosts {\n 10.0.0.1 a b # c\n no_revers\n fallthrough\n}", {"inline": ["10.0.0.1 a b", "no_revers"]}),
        ("hosts /no/such/file", {"path": "/no/such/file"}),
    ],
)
def test_properties(text: str, wanted: dict[str, object]) -> None:
    settings = parse(Controller.of(text))
    assert {key: getattr(settings, key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hosts\nhosts", "this plugin can only be used once per Server Block"),
        ("hosts {\n ttl\n}", "Testfile:2 - Error during parsing: ttl needs a time in second"),
        ("hosts {\n ttl x\n}", "ttl needs a number of second"),
        ("hosts {\n ttl 0\n}", "ttl provided is invalid"),
        ("hosts {\n ttl 65536\n}", "ttl provided is invalid"),
        ("hosts {\n ttl -1\n}", "ttl provided is invalid"),
        ("hosts {\n reload\n}", r"reload needs a duration \(zero seconds to disable\)"),
        ("hosts {\n reload 1s 2s\n}", r"reload needs a duration \(zero seconds to disable\)"),
        ("hosts {\n reload 10\n}", "invalid duration for reload '10'"),
        ("hosts {\n reload -1s\n}", "invalid negative duration for reload '-1s'"),
        ("hosts {\n fallthrough\n 10.0.0.1 a\n}", "Testfile:3 - Error during parsing: unknown property '10.0.0.1'"),
        ("hosts {\n fallthrough_unsupported\n}", "fallthrough_unsupported requires fallthrough"),
        ("hosts {\n fallthrough\n fallthrough_unsupported a.test\n}", "Wrong argument count or unexpected line ending after 'a.test'"),
        ("hosts /dev/null/x", "unable to access hosts file '/dev/null/x': stat /dev/null/x: not a directory"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError, match=message):
        parse(Controller.of(text))


# ---- lines ----


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        ("192.0.2.1", bytes([192, 0, 2, 1])),
        ("::ffff:192.0.2.1", bytes([192, 0, 2, 1])),
        ("2001:db8::1", bytes.fromhex("20010db8000000000000000000000001")),
        ("fe80::1%lo0", bytes.fromhex("fe800000000000000000000000000001")),
        ("192.0.2.300", None),
        ("192.0.2", None),
        ("192.0.2.01", None),
        ("garbage", None),
        ("1::2::3", None),
        ("\0", None),
        ("", None),
    ],
)
def test_addresses(text: str, packed: bytes | None) -> None:
    entries = Entries([f"{text} a.test"], ZoneList(["."]), True)
    assert list(entries.names) == ([packed] if packed else [])


def test_reverse_names() -> None:
    assert reverse_name(bytes([192, 0, 2, 1])) == b"\x011\x012\x010\x03192\x07in-addr\x04arpa\x00"
    assert reverse_name(bytes(15) + b"\x2f") == b"\x01f\x012" + b"\x010" * 30 + b"\x03ip6\x04arpa\x00"


def test_lines_that_say_nothing_are_left_out() -> None:
    lines = ["", "# comment", "10.0.0.1", "x y", "10.0.0.1 a..b ok " + "c" * 64, "10.0.0.2 other.org", "10.0.0.3\tTAB.test # x"]
    entries = Entries(lines, ZoneList(["test.", "ok."]), True)
    assert entries.a == {b"\2ok\0": [bytes([10, 0, 0, 1])], b"\3tab\4test\0": [bytes([10, 0, 0, 3])]}
    assert len(entries) == 4


def test_names_of_one_address_are_bounded() -> None:
    """A block list gives many thousand names to 0.0.0.0; an answer holds some thousands at most."""
    entries = Entries((f"0.0.0.0 ads{i}.test" for i in range(70_000)), ZoneList(["."]), True)
    found = dict(records([entries], 60))
    assert len(found) == 70_001
    assert len(found[reverse_name(bytes(4))]) == NAMES_MAX


# ---- answers ----

COREFILE = """
.:{port} {
    bind 127.0.0.1
    hosts {dir}/hosts {
        192.0.2.20 both.test inline.test
        192.0.2.21 *.wild.test
        2001:db8::21 *.wild.test
        ttl 99
        reload 50ms
    }
}
sub.test:{port} {
    bind 127.0.0.1
    hosts {dir}/hosts x.sub.test {
        no_reverse
        fallthrough
        fallthrough_unsupported
        reload 0
    }
    whoami
}
"""
FILE = """
127.0.0.1 localhost
192.0.2.10 both.test File.test in.x.sub.test y.sub.test
2001:db8::10 both.test
192.0.2.11 one.wild.test *.file.test
"""


def lines(reply: dns.message.Message) -> list[str]:
    return [line for rrset in reply.answer for line in rrset.to_text().splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "hosts").write_text(FILE)
    with Server(folder, COREFILE) as started:
        yield started


@pytest.mark.parametrize(
    ("name", "rdtype", "wanted"),
    [
        ("both.test.", "A", ["both.test. 99 IN A 192.0.2.10", "both.test. 99 IN A 192.0.2.20"]),  # the file first
        ("Both.TEST.", "AAAA", ["both.test. 99 IN AAAA 2001:db8::10"]),  # owner in lower case
        ("file.test.", "AAAA", []),
        ("both.test.", "MX", []),
        ("both.test.", "ANY", []),
        ("one.wild.test.", "A", ["one.wild.test. 99 IN A 192.0.2.11", "one.wild.test. 99 IN A 192.0.2.21"]),  # each source by itself
        ("one.wild.test.", "AAAA", ["one.wild.test. 99 IN AAAA 2001:db8::21"]),  # each family by itself
        ("two.wild.test.", "A", ["two.wild.test. 99 IN A 192.0.2.21"]),
        ("TWO.wild.test.", "TXT", []),
        ("*.wild.test.", "A", ["*.wild.test. 99 IN A 192.0.2.21"]),
        ("x.file.test.", "A", ["x.file.test. 99 IN A 192.0.2.11"]),
        ("10.2.0.192.in-addr.arpa.", "PTR", [f"10.2.0.192.in-addr.arpa. 99 IN PTR {n}.test." for n in ("both", "file", "in.x.sub", "y.sub")]),
        ("20.2.0.192.IN-ADDR.arpa.", "PTR", [f"20.2.0.192.in-addr.arpa. 99 IN PTR {n}.test." for n in ("both", "inline")]),
        ("11.2.0.192.in-addr.arpa.", "PTR", ["11.2.0.192.in-addr.arpa. 99 IN PTR one.wild.test."]),  # wildcards have none
    ],
)
def test_answers(server: Server, name: str, rdtype: str, wanted: list[str]) -> None:
    reply = server.query(name, rdtype)
    assert reply.rcode() == dns.rcode.NOERROR
    assert reply.flags & dns.flags.AA
    assert sorted(lines(reply)) == sorted(wanted)
    assert reply.authority == reply.additional == []
    if rdtype != "PTR":
        assert lines(reply) == wanted  # the order of the data


@pytest.mark.parametrize(
    ("name", "rdtype"),
    [
        ("missing.test.", "A"),
        ("missing.test.", "TXT"),
        ("wild.test.", "A"),
        ("a.two.wild.test.", "A"),  # exactly one label
        ("one.test.", "PTR"),
        ("10.2.0.192.in-addr.arpa.", "A"),  # a reverse name is no entry
        ("2.0.192.in-addr.arpa.", "PTR"),
        ("99.2.0.192.in-addr.arpa.", "PTR"),
    ],
)
def test_what_is_not_there_is_servfail(server: Server, name: str, rdtype: str) -> None:
    reply = server.query(name, rdtype)
    assert reply.rcode() == dns.rcode.SERVFAIL
    assert not reply.flags & dns.flags.AA


@pytest.mark.parametrize(
    ("name", "rdtype", "answered"),
    [
        ("in.x.sub.test.", "A", True),
        ("in.x.sub.test.", "AAAA", True),  # NODATA
        ("in.x.sub.test.", "TXT", False),  # fallthrough_unsupported
        ("no.x.sub.test.", "A", False),
        ("y.sub.test.", "A", False),  # outside the plugin's zones
    ],
)
def test_fallthrough(server: Server, name: str, rdtype: str, answered: bool) -> None:
    assert (server.query(name, rdtype).additional == []) == answered  # whoami answers in the additional section


# ---- the file changes ----


def test_the_file_is_read_again(serve: Serve, tmp_path: Path) -> None:
    """Changed size or time; content stays while the file is gone; inline lines never change. No answer is ever missing."""
    path = tmp_path / "hosts"
    path.write_text("192.0.2.1 one.test\n")
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n hosts {path} {{\n 192.0.2.50 inline.test\n reload 20ms\n }}\n}}\n")
    assert server.answers("one.test.") == ["192.0.2.1"]
    path.write_text("192.0.2.2 one.test two.test\n")
    server.until("two.test.", "A", ["192.0.2.2"])
    assert server.answers("one.test.") == ["192.0.2.2"]
    path.unlink()
    time.sleep(0.1)
    assert server.answers("one.test.") == ["192.0.2.2"]
    path.write_text("192.0.2.3 one.test two.test\n")  # the same size
    os.utime(path, ns=(1, 1))
    server.until("one.test.", "A", ["192.0.2.3"])
    assert server.answers("inline.test.") == ["192.0.2.50"]
    path.write_text("")
    server.until("one.test.", "A", ["SERVFAIL"])


def test_answers_stay_right_while_the_file_is_rewritten(serve: Serve, tmp_path: Path) -> None:
    """GHSA-listed data races on reload: every answer is the old content or the new one, never a mix or nothing."""
    path = tmp_path / "hosts"

    def write(number: int) -> None:
        text = "".join(f"192.0.2.{number} a{i}.test\n198.51.100.{number} a{i}.test\n" for i in range(500))
        new = path.with_suffix(".new")
        new.write_text(text)
        new.rename(path)

    write(1)
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n hosts {path} {{\n reload 1ms\n }}\n}}\n")
    seen = set()
    number, end = 0, time.monotonic() + LIMIT
    while len(seen) < 10 and time.monotonic() < end:
        number = number % 250 + 1
        write(number)
        for i in range(20):
            found = server.answers(f"a{i}.test.")
            assert len({address.rpartition(".")[2] for address in found}) == 1, found
            assert len(found) == 2
            seen.add(found[0])
    assert len(seen) >= 10


def test_a_missing_file_and_a_folder_are_warned_about(serve: Serve, tmp_path: Path) -> None:
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n hosts {tmp_path}/none {{\n 192.0.2.1 one.test\n }}\n}}\n")
    server.wait_log(rf"^\[WARNING\] plugin/hosts: File does not exist: {tmp_path}/none$")
    assert server.answers("one.test.") == ["192.0.2.1"]
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n hosts {tmp_path}\n}}\n")
    server.wait_log(rf'^\[WARNING\] plugin/hosts: Hosts file "{tmp_path}" is a directory$')
    assert server.answers("localhost.") == ["SERVFAIL"]


def test_a_relative_path_starts_at_root(tmp_path: Path) -> None:
    controller = Controller.of("hosts some/hosts")
    controller.config.root = str(tmp_path)
    assert parse(controller).path == f"{tmp_path}/some/hosts"


def test_metrics(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("192.0.2.1 one.test two.test\n2001:db8::1 one.test\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{{port2}}\n hosts {path} {{\n 192.0.2.5 *.w.test\n reload 20ms\n }}\n}}\n")
    port = server.ports["port2"]
    assert server.metric(port, f'coredns_hosts_entries{{hostsfile="{path}"}}') == 3 + 3 + 1
    assert server.metric(port, "coredns_hosts_reload_timestamp_seconds") == 1_700_000_000
    assert server.metric(port, "fastdns_index_records") == 7
    assert server.metric(port, "fastdns_index_bytes") > 500


@pytest.mark.memory
def test_reading_the_file_again_and_again_leaves_memory_flat(serve: Serve, tmp_path: Path) -> None:
    """Under queries: what a reload replaces is returned."""
    path = tmp_path / "hosts"

    def write(number: int) -> None:
        new = path.with_suffix(".new")
        new.write_text("".join(f"10.{number}.{i // 250}.{i % 250} h{i}.test alias{i}.test\n" for i in range(2000)))
        new.rename(path)

    def reach(first: int, last: int) -> int:
        for number in range(first, last):
            write(number)
            server.until("h7.test.", "A", [f"10.{number}.0.7"])
        return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096

    write(0)
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n hosts {path} {{\n reload 5ms\n }}\n}}\n")
    before = reach(1, 12)
    assert reach(12, 40) - before < 3 << 20
