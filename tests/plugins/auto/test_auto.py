"""auto: zones of a directory's files, as they come and go."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.zone
import pytest

from fastdns.corefile import CorefileError
from fastdns.expression import regex
from fastdns.plugins.auto import parse
from fastdns.plugins.auto.directory import expand, walk
from fastdns.setup import Controller
from tests.server import Server, command
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]


def zone(address: str, serial: int = 1) -> str:
    return f"@ 300 IN SOA ns admin {serial} 3600 600 86400 60\nwww 300 IN A {address}\nalias 300 IN CNAME x.cut\ncut 300 IN NS ns.cut\n"


def address(server: Server, name: str, **options: object) -> str:
    reply = server.query(name, **options)  # type: ignore[arg-type]
    return str(reply.answer[0][0]) if reply.answer else dns.rcode.to_text(reply.rcode())


# ---- set-up ----


def test_defaults() -> None:
    settings = parse(Controller.of("auto", ["example.org"]))
    assert (settings.origins, settings.path, settings.template, settings.reload) == (["example.org."], "", "${1}", 60 * 10**9)
    assert settings.pattern.source == r"db\.(.*)"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("auto a.test B.test", {"origins": ["a.test.", "b.test."]}),
        ("auto {\n directory /tmp\n}", {"path": "/tmp"}),
        ("auto {\n directory /no/such/folder\n}", {"path": "/no/such/folder"}),
        ("auto {\n directory /tmp (.*)[.]zone {1}\n}", {"template": "${1}"}),
        ("auto {\n directory /tmp (?P<x>.*)-(.*) {x}.{2}\n}", {"template": "${x}.${2}"}),
        ("auto {\n reload 5s\n}", {"reload": 5 * 10**9}),
        ("auto {\n reload 0\n}", {"reload": 0}),
        ("auto {\n upstream 10.0.0.1\n}", {"path": ""}),
        ("auto a.test {\n reload 5s\n}\nauto b.test", {"origins": ["b.test."], "reload": 5 * 10**9}),
    ],
)
def test_properties(text: str, wanted: dict[str, object]) -> None:
    settings = parse(Controller.of(text))
    assert {key: getattr(settings, key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("auto {\n directory\n}", "[Ww]rong argument count"),
        ("auto {\n directory /tmp (.*)\n}", "[Ww]rong argument count"),
        ("auto {\n directory /tmp (.*) {1} x\n}", "[Ww]rong argument count"),
        ("auto {\n directory /tmp abc\n}", "Need at least one sub expression"),
        ("auto {\n directory /tmp abc {1}\n}", "Need at least one sub expression"),
        ("auto {\n directory /tmp (abc {1}\n}", r"error parsing regexp: missing closing \): `\(abc`"),
        (f"auto {{\n directory /tmp ({'a' * 10000}) {{1}}\n}}", "regexp too large"),
        ("auto {\n directory /dev/null/x\n}", "Unable to access root path '/dev/null/x': stat /dev/null/x: not a directory"),
        ("auto {\n reload\n}", "reload duration value is expected"),
        ("auto {\n reload -1s\n}", "plugin/file: invalid duration"),
        ("auto {\n reload x\n}", "plugin/file: time: invalid duration"),
        ("auto {\n fallthrough\n}", "unknown property 'fallthrough'"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=message):
        parse(Controller.of(text))


@pytest.mark.parametrize(
    ("pattern", "name", "template", "wanted"),
    [
        (r"db\.(.*)", "db.example.org", "${1}", "example.org"),
        (r"(.*)-(.*)", "a-b", "$2.$1", "b.a"),
        (r"(?P<left>.*)-(.*)", "a-b", "${left}.x", "a.x"),
        (r"(.*)", "a", "$1x.$$", ".$"),
        (r"(a)|(b)", "b", "${1}${2}${3}", "b"),
    ],
)
def test_templates(pattern: str, name: str, template: str, wanted: str) -> None:
    expression = regex.compile(pattern)
    groups = expression.search(name)
    assert groups is not None
    assert expand(template, groups, expression.names) == wanted


def test_the_order_of_files(tmp_path: Path) -> None:
    for name in ("b/x", "b/a/y", "c", "a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "top").symlink_to(".")
    assert [os.path.relpath(path, tmp_path) for path in walk(str(tmp_path / "top"))] == ["a", "b/a/y", "b/x", "c", "link", "top"]
    assert list(walk(str(tmp_path / "c"))) == [str(tmp_path / "c")]


def test_no_path_is_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/x", "a"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert list(walk("")) == ["a", "b/x"]


# ---- serving ----


def test_zones_come_change_and_go(serve: Serve) -> None:
    def prepare(folder: Path) -> None:
        zones = folder / "zones"
        zones.mkdir()
        (zones / "db.one.test").write_text(zone("192.0.2.1"))
        (zones / "db.Two.test").write_text(zone("192.0.2.2"))
        (zones / "db.bad.test").write_text("no zone")
        (zones / "other").write_text(zone("192.0.2.9"))
        (folder / "link").symlink_to("zones")

    corefile = """test:{port} {
        bind 127.0.0.1
        auto {
            directory {dir}/link
            reload 100ms
        }
        transfer {
            to *
        }
    }
    test:{port2} {
        bind 127.0.0.1
        auto two.test {
            directory {dir}/zones
            reload 0
        }
        whoami
    }"""
    server = serve(corefile, prepare=prepare)
    zones = server.folder / "zones"
    assert address(server, "www.one.test") == "192.0.2.1"
    assert address(server, "www.two.test") == "192.0.2.2"
    assert address(server, "no.two.test") == "NXDOMAIN"
    assert address(server, "www.three.test") == "REFUSED"
    assert not server.query("alias.one.test").flags & dns.flags.AA
    assert f"[INFO] plugin/auto: Inserting zone `one.test.' from: {zones}/db.one.test" in server.log()
    assert "[WARNING] plugin/auto: Parse zone `bad.test.': failed to parse file" in server.log()
    transferred = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", "two.test", port=server.port), check_origin=False)
    assert str(transferred.get_rdataset("www", "A")[0]) == "192.0.2.2"

    other = server.ports["port2"]
    assert address(server, "www.two.test", port=other) == "192.0.2.2"
    assert server.query("www.one.test", port=other).additional, "not among its zones: whoami"
    assert server.query("test", port=other).additional

    (zones / "db.three.test").write_text(zone("192.0.2.3"))
    until(lambda: address(server, "www.three.test") == "192.0.2.3")
    (zones / "db.one.test").write_text(zone("192.0.2.4", 2))
    until(lambda: address(server, "www.one.test") == "192.0.2.4")
    (zones / "db.three.test").write_text("broken")
    until(lambda: '[ERROR] plugin/file: Parsing zone "three.test."' in server.log())
    assert address(server, "www.three.test") == "192.0.2.3"
    (zones / "db.three.test").unlink()
    until(lambda: address(server, "www.three.test") == "REFUSED")
    until(lambda: "[INFO] plugin/auto: Deleting zone `three.test.'" in server.log())


def test_of_two_files_for_a_zone_the_first_counts(serve: Serve) -> None:
    def prepare(folder: Path) -> None:
        for name in ("a", "b"):
            (folder / "zones" / name).mkdir(parents=True)
        (folder / "zones" / "a" / "db.test").write_text(zone("192.0.2.1"))
        (folder / "zones" / "b" / "db.test").write_text(zone("192.0.2.2", 2))

    server = serve(".:{port} {\n bind 127.0.0.1\n root {dir}\n auto {\n directory zones\n reload 100ms\n }\n}", prepare=prepare)
    zones = server.folder / "zones"
    assert address(server, "www.test") == "192.0.2.1"
    assert f'Multiple zone files match origin "test.": using "{zones}/a/db.test" instead of "{zones}/b/db.test"' in server.log()
    (zones / "a" / "db.test").unlink()
    until(lambda: address(server, "www.test") == "192.0.2.2")


def test_names_of_files_that_are_no_zones(serve: Serve) -> None:
    def prepare(folder: Path) -> None:
        (folder / "zones").mkdir()
        for name in ("db.a..b", f"db.{'x' * 64}.test", "db.UP.Test"):
            (folder / "zones" / name).write_text(zone("192.0.2.1"))

    server = serve(".:{port} {\n bind 127.0.0.1\n root {dir}\n auto {\n directory zones\n }\n}", prepare=prepare)
    assert address(server, "www.up.test") == "192.0.2.1"
    for origin in ("a..b.", f"{'x' * 64}.test."):
        path = f"{server.folder}/zones/db.{origin[:-1]}"
        text = f'failed to parse file "{path}" for origin {origin} with error {path}: dns: bad initial origin name'
        assert f"[WARNING] plugin/auto: Parse zone `{origin}': {text}" in server.log()


def test_a_directory_that_comes_later(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n auto {\n directory {dir}/zones\n reload 100ms\n }\n}")
    assert f"[WARNING] plugin/auto: Directory does not exist: {server.folder}/zones" in server.log()
    assert address(server, "www.test") == "REFUSED"
    (server.folder / "zones").mkdir()
    (server.folder / "zones" / "db.test").write_text(zone("192.0.2.1"))
    until(lambda: address(server, "www.test") == "192.0.2.1")


def test_a_zone_that_goes_while_an_alias_is_looked_up(serve: Serve) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as upstream:
        upstream.bind(("127.0.0.1", 0))
        upstream.settimeout(LIMIT)
        corefile = ".:{port} {\n bind 127.0.0.1\n auto {\n directory {dir}/zones\n reload 100ms\n }\n forward . 127.0.0.1:UPSTREAM\n}"

        def prepare(folder: Path) -> None:
            (folder / "zones").mkdir()
            (folder / "zones" / "db.test").write_text(zone("192.0.2.1") + "away 300 IN CNAME www.example.\n")

        server = serve(corefile.replace("UPSTREAM", str(upstream.getsockname()[1])), prepare=prepare)
        replies: list[dns.message.Message] = []
        client = threading.Thread(target=lambda: replies.append(server.query("away.test")))
        client.start()
        request, sender = upstream.recvfrom(4096)
        (server.folder / "zones" / "db.test").unlink()
        until(lambda: "Deleting zone `test.'" in server.log())
        upstream.sendto(dns.message.make_response(dns.message.from_wire(request)).to_wire(), sender)
        client.join()
    assert [reply.rcode() for reply in replies] == [dns.rcode.SERVFAIL]
    assert server.process.poll() is None


def counted(server: Server) -> dict[str, int]:
    """Queries by the label `zone`."""
    found: dict[str, int] = {}
    for line in metrics(server).splitlines():
        if (match := re.match(r'coredns_dns_requests_total\{.*zone="([^"]*)"\} (\d+)', line)) is not None:
            found[match[1]] = found.get(match[1], 0) + int(match[2])
    return found


def metrics(server: Server) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['port2']}/metrics", timeout=REPLY) as reply:
        text: str = reply.read().decode()
    return text


def test_queries_are_counted_by_the_zones_that_are_loaded(serve: Serve) -> None:
    def prepare(folder: Path) -> None:
        (folder / "zones").mkdir()
        (folder / "zones" / "db.one.test").write_text(zone("192.0.2.1"))
        (folder / "zones" / "db.sub.one.test").write_text(zone("192.0.2.1"))

    text = """.:{port} test:{port} {
        bind 127.0.0.1
        prometheus 127.0.0.1:{port2}
        rewrite name exact old.example www.one.test
        auto {
            directory {dir}/zones
            reload 100ms
        }
        whoami
    }"""
    server = serve(text, prepare=prepare)
    for name in ("www.one.test", "none.one.test", "WWW.Sub.one.test", "old.example", "two.test", "test"):
        server.query(name)
    assert counted(server) == {"one.test.": 2, "sub.one.test.": 1, ".": 1, "test.": 2}
    (server.folder / "zones" / "db.two.test").write_text(zone("192.0.2.2"))
    server.wait_log("Inserting zone `two.test.'")
    until(lambda: address(server, "www.two.test") == "192.0.2.2")
    before = counted(server)
    server.query("www.two.test")
    assert counted(server)["two.test."] == before["two.test."] + 1
    (server.folder / "zones" / "db.two.test").unlink()
    server.wait_log("Deleting zone `two.test.'")
    until(lambda: server.query("www.two.test").additional)
    before = counted(server)
    server.query("www.two.test")
    assert counted(server) == before | {"test.": before["test."] + 1}
    server.reload(server.corefile.read_text())
    server.query("www.one.test")
    assert counted(server)["one.test."] == 3


# ---- records that contradict each other ----

BROKEN = zone("192.0.2.1") + "both 300 IN CNAME www\nboth 300 IN A 192.0.2.66\n"
CONFLICT = "both.test.: CNAME and other data: only the CNAME is served (RFC 2181 10.1)"
AUTO = ".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2}\n auto {\n directory {dir}/zones\n reload 100ms\n MORE\n }\n}"


def with_zones(**files: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        (folder / "zones").mkdir()
        for name, text in files.items():
            (folder / "zones" / f"db.{name}").write_text(text)

    return prepare


def replace(path: Path, text: str) -> None:
    new = path.parent.parent / "new"
    new.write_text(text)
    new.replace(path)


def test_conflicts_are_told_with_file_and_line_and_counted(serve: Serve) -> None:
    server = serve(AUTO.replace("MORE", ""), prepare=with_zones(test=BROKEN, good=zone("192.0.2.1")))
    folder = server.folder / "zones"
    line = f"[WARNING] plugin/file: {folder}/db.test:6: {CONFLICT}"
    assert server.log().count("[WARNING]") == server.log().count(line) == 1
    assert [str(rrset[0]) for rrset in server.query("both.test", "A").answer] == ["www.test.", "192.0.2.1"]
    assert "\n".join(found for found in metrics(server).splitlines() if "zone_conflicts{" in found) == 'fastdns_zone_conflicts{zone="test."} 1'
    replace(folder / "db.test", BROKEN.replace(" 1 3600", " 2 3600"))
    replace(folder / "db.later", BROKEN)
    until(lambda: server.log().count(line) == 2)
    until(lambda: server.log().count(f"{folder}/db.later:6: both.later.: CNAME and other data") == 1)
    (folder / "db.test").unlink()
    until(lambda: 'zone_conflicts{zone="test."}' not in metrics(server))
    assert 'fastdns_zone_conflicts{zone="later."} 1\n' in metrics(server)


def test_files_with_conflicts_can_be_refused(serve: Serve) -> None:
    """As files that are no zones: they are left out, and a former version goes on."""
    server = serve(AUTO.replace("MORE", "refuse_conflicts"), prepare=with_zones(test=BROKEN, good=zone("192.0.2.1")))
    folder = server.folder / "zones"
    refused = 'file "{0}/db.{1}" has records that contradict each other: {0}/db.{1}:6: both.{1}.: CNAME and other data (RFC 2181 10.1)'
    assert f"[WARNING] plugin/auto: Parse zone `test.': {refused.format(folder, 'test')}" in server.log()
    assert (address(server, "www.test"), address(server, "www.good")) == ("REFUSED", "192.0.2.1")
    replace(folder / "db.good", BROKEN.replace(" 1 3600", " 2 3600"))
    server.wait_log(re.escape(f'[ERROR] plugin/file: Parsing zone "good.": {refused.format(folder, "good")}'))
    assert address(server, "both.good") == "NXDOMAIN"
    replace(folder / "db.test", zone("192.0.2.7"))
    until(lambda: address(server, "www.test") == "192.0.2.7")


def test_check_reads_the_directory(tmp_path: Path) -> None:
    with_zones(test=BROKEN, broken="nonsense")(tmp_path)

    def check(more: str, *flags: str) -> tuple[int, list[str]]:
        (tmp_path / "Corefile").write_text(f". {{\n auto {{\n  directory zones\n {more}\n }}\n}}")
        done = subprocess.run([*command(), "check", *flags, "Corefile"], capture_output=True, text=True, timeout=LIMIT, cwd=tmp_path)
        return done.returncode, done.stdout.splitlines()

    status, lines = check("")
    assert status == 0
    assert lines[0].endswith(f"/zones/db.test:6: warning: plugin/auto: {CONFLICT}")
    assert lines[1].startswith("Corefile:2: warning: plugin/auto: Parse zone `broken.': failed to parse file")
    assert lines[2:] == ["Corefile: OK (0 errors, 2 warnings)"]
    assert check("", "--strict")[0] == 1
    status, lines = check("refuse_conflicts")
    assert status == 0
    assert "has records that contradict each other" in lines[1]
