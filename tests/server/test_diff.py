"""fastdns diff: two Corefiles, and what they answer otherwise."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.message
import dns.rrset
import pytest

from fastdns.comparison.derived import packet
from fastdns.server.diff.differences import KEPT_MOST
from fastdns.testing import Upstream
from tests.comparison.test_command import CLIENT, tap, tap_of
from tests.server import Server, command, free_port
from tests.server.test_commands import run

HOSTS = """example.org {
    hosts {
        192.0.2.1 www.example.org
        192.0.2.2 api.example.org
    }
    cache 30
}
"""


@pytest.fixture
def diff(tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    def ask(old: str, new: str, *words: str) -> tuple[int, dict[str, Any]]:
        (tmp_path / "old").write_text(old)
        (tmp_path / "new").write_text(new)
        status, out, err = run("diff", "-json", "-dns.port", str(free_port()), *words, str(tmp_path / "old"), str(tmp_path / "new"))
        assert err == ""
        return status, json.loads(out)

    return ask


Diff = Callable[..., tuple[int, dict[str, Any]]]


def found(report: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(difference["name"], difference["type"], difference["kind"]) for difference in report["differences"]}


def test_the_same_twice(diff: Diff) -> None:
    status, report = diff(HOSTS, "# a comment\n" + HOSTS.replace("cache 30", "cache 60\n    log\n    errors"))
    assert (status, report["differences"], report["zones"]) == (0, [], [])
    assert report["questions"] > 10


def test_an_answer_that_changes(diff: Diff) -> None:
    status, report = diff(HOSTS, HOSTS.replace("192.0.2.2", "192.0.2.3"))
    assert (status, found(report)) == (1, {("api.example.org.", "A", "answer")})
    [difference] = report["differences"]
    assert [difference[side]["reply"]["answer"] for side in ("old", "new")] == [["api.example.org. A 192.0.2.2"], ["api.example.org. A 192.0.2.3"]]
    assert (difference["new"]["plugin"], difference["new"]["zone"], difference["clients"]) == ("hosts", "example.org.", ["127.0.0.1"])


def test_nobody_is_asked_and_nothing_is_written(diff: Diff, tmp_path: Path) -> None:
    """Who would be asked is compared: the directive, and the name and type that it would be asked for."""
    with Upstream() as one, Upstream() as other:
        old = f"""
            . {{
                log
                errors
                dnstap {tmp_path}/tap.sock
                forward corp.test {other.address}
                forward . {one.address} {{
                    except quiet.test
                }}
            }}
            moved.test {{
                rewrite name a.moved.test b.moved.test
                forward . {one.address}
            }}
        """
        new = old.replace(f"forward . {one.address} {{\n                    except quiet.test\n", f"forward . {other.address} {{\n").replace(
            "b.moved", "c.moved"
        )
        status, report = diff(old, new)
        assert status == 1
        assert one.seen == other.seen == []
    assert not list(tmp_path.glob("*.sock"))
    by_name = {difference["name"]: difference for difference in report["differences"]}
    assert "corp.test." not in by_name
    assert "moved.test." not in by_name, "all others of the block are asked of the same server"
    moved = by_name["a.moved.test."]
    assert (moved["kind"], [moved[side]["elsewhere"][0]["name"] for side in ("old", "new")]) == ("elsewhere", ["b.moved.test.", "c.moved.test."])
    root = by_name["fastdns-diff."]
    assert [root[side]["elsewhere"][0]["directive"] for side in ("old", "new")] == [f"forward . {one.address}", f"forward . {other.address}"]
    quiet = by_name["quiet.test."]
    assert (quiet["kind"], quiet["old"]["outcome"], quiet["old"]["elsewhere"], quiet["new"]["plugin"]) == ("outcome", "reply", [], "forward")


def test_upstreams_are_asked_where_that_is_told(diff: Diff, tmp_path: Path) -> None:
    """Two upstreams with the same answers are no difference then, and one wrong answer is one. A secondary zone's lines are compared as before."""

    def answer(address: str) -> Callable[[dns.message.Message], dns.message.Message]:
        def make(query: dns.message.Message) -> dns.message.Message:
            reply = dns.message.make_response(query)
            wrong = str(query.question[0].name) == "b.moved.test."
            reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", address if wrong else "192.0.2.1"))
            return reply

        return make

    path = tap(tmp_path / "tap", ["a.moved.test.", "b.moved.test.", "x.zone.test."], replies=False)
    with Upstream(answer("192.0.2.7")) as one, Upstream(answer("192.0.2.8")) as other:
        old = f". {{\n forward . {one.address}\n}}\nzone.test {{\n secondary {{\n  transfer from {one.address}\n }}\n}}\n"
        status, report = diff(old, old.replace(one.address, other.address), "-upstreams", "-queries", str(path))
        assert (
            [str(query.question[0].name) for query in one.seen] == [str(query.question[0].name) for query in other.seen] == ["a.moved.test.", "b.moved.test."]
        )
    assert (status, found(report)) == (1, {("b.moved.test.", "A", "answer"), ("x.zone.test.", "A", "elsewhere")})


def test_clients_for_whom_it_is_otherwise(diff: Diff) -> None:
    old = HOSTS.replace("hosts {", "acl {\n        block net 10.1.0.0/16\n    }\n    hosts {")
    status, report = diff(old, old.replace("10.1.0.0/16", "10.2.0.0/16"))
    assert status == 1
    assert {(d["old"]["reply"]["rcode"], d["new"]["reply"]["rcode"], *d["clients"]) for d in report["differences"] if d["name"] == "www.example.org."} == {
        ("REFUSED", "NOERROR", "10.1.0.1"),
        ("NOERROR", "REFUSED", "10.2.0.1"),
    }


def test_zones_that_come_and_go(diff: Diff) -> None:
    other = "other.test {\n    whoami\n}\n"
    status, report = diff(HOSTS, HOSTS + other)
    assert status == 1
    assert [(zone["zone"], zone["only_in"]) for zone in report["zones"]] == [("other.test.", "new")]
    assert ("other.test.", "A", "outcome") in found(report)
    assert all(difference["old"]["outcome"] == "refused" for difference in report["differences"])


def test_questions_of_test_lines(diff: Diff) -> None:
    old = HOSTS.replace("cache 30", 'test "www.example.org PTR from 192.0.2.77" expects SERVFAIL')
    assert diff(old, old)[1]["clients"] == 2


ZONE = "$ORIGIN example.net.\n@ 60 SOA ns admin SERIAL 1 1 1 60\n@ 60 NS ns\nns 60 A 192.0.2.53\n"


@pytest.mark.parametrize("plugin", ["file", "auto"])
def test_names_that_only_zone_files_hold(diff: Diff, tmp_path: Path, plugin: str) -> None:
    """Of both sides, with the types that they have there; what is in neither Corefile is told apart by them alone."""
    text = {"file": "file DIR/db.example.net", "auto": "auto {\n        directory DIR\n    }"}[plugin]
    sides = {"one": 'a 60 A 192.0.2.1\nb 60 MX 5 ns\ngone 60 TXT "x"\n', "two": "a 300 A 192.0.2.1\nb 60 MX 6 ns\n*.new 60 AAAA 2001:db8::1\n"}
    for side, records in sides.items():
        (tmp_path / side).mkdir()
        (tmp_path / side / "db.example.net").write_text(ZONE.replace("SERIAL", "1") + records)
    old, new = (f"example.net {{\n    {text.replace('DIR', str(tmp_path / side))}\n}}\n" for side in ("one", "two"))
    status, report = diff(old, new)
    assert (status, report["names_left_out"]) == (1, 0)
    kinds = {f"{name} {qtype}" for name, qtype, _ in found(report)}
    assert kinds == {"b.example.net. MX", "gone.example.net. TXT", "gone.example.net. A", "*.new.example.net. AAAA", "*.new.example.net. A"}
    assert diff(old, old)[0] == 0


def test_more_names_than_are_asked_about(diff: Diff, tmp_path: Path) -> None:
    """Those first that are not the same in both."""
    for side, last in (("one", "192.0.2.1"), ("two", "192.0.2.2")):
        lines = [f"n{number} 60 A 192.0.2.7" for number in range(5200)] + [f"zz 60 A {last}"]
        (tmp_path / side).write_text(ZONE.replace("SERIAL", "1") + "\n".join(lines) + "\n")
    old, new = (f"example.net {{\n    file {tmp_path}/{side}\n}}\n" for side in ("one", "two"))
    status, report = diff(old, new)
    assert (status, found(report), report["names_left_out"]) == (1, {("zz.example.net.", "A", "answer")}, 203)


def test_recorded_questions(diff: Diff, tmp_path: Path) -> None:
    path = tap(tmp_path / "tap", ["www.example.org.", "api.example.org.", "api.example.org.", "none.example.org."])
    status, report = diff(HOSTS, HOSTS.replace("192.0.2.2", "192.0.2.3"), "-queries", str(path))
    assert (status, report["questions"], report["clients"], report["asked"]) == (1, 3, 1, 4)
    [difference] = report["differences"]
    assert (difference["name"], difference["times"], difference["clients"]) == ("api.example.org.", 2, ["10.0.0.1"])


def test_questions_of_the_recorder(diff: Diff, serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n    bind 127.0.0.1\n    recorder 1MiB\n    whoami\n}\n")
    for name in ("api.example.org", "api.example.org", "www.example.org"):
        server.query(name, want_dnssec=True)
    status, report = diff(HOSTS, HOSTS.replace("192.0.2.2", "192.0.2.3"), "-queries", "recorder", "-pid", str(server.pid))
    assert (status, report["questions"], report["asked"]) == (1, 2, 3)
    assert found(report) == {("api.example.org.", "A", "answer")}


def test_many_questions(diff: Diff, tmp_path: Path) -> None:
    path = tap(tmp_path / "tap", [f"n{number}.example.org." for number in range(1000)], replies=False)
    status, report = diff(HOSTS, HOSTS, "-queries", str(path))
    assert (status, report["questions"]) == (0, 1000)


def test_who_asks_most_is_named(diff: Diff, tmp_path: Path) -> None:
    """Of a difference that many clients see: all are counted."""
    names = ("api.example.org", "API.example.org")
    asked = [(packet(name, 1, edns), bytes((10, 0, 0, number))) for number in range(1, 9) for name in names for edns in (False, True) * number]
    status, report = diff(HOSTS, HOSTS.replace("192.0.2.2", "192.0.2.3"), "-queries", str(tap_of(tmp_path / "tap", asked)))
    assert (status, report["questions"], report["clients"], report["asked"]) == (1, 4, 8, 144)
    assert sorted((d["name"], d["times"], d["clients_count"]) for d in report["differences"]) == sorted((f"{name}.", 36, 8) for name in names * 2)
    assert all(d["clients"] == [f"10.0.0.{number}" for number in (8, 7, 6, 5, 4)] for d in report["differences"])
    assert (report["otherwise"], report["otherwise_names"], report["otherwise_zones"]) == (4, 2, {"example.org.": 4})


def test_examples_are_bounded(tmp_path: Path) -> None:
    """Of what becomes the same, a hundred are kept; all are counted."""
    old = ". {\n    template IN A {\n        rcode NXDOMAIN\n    }\n}\n"
    (tmp_path / "old").write_text(old)
    (tmp_path / "new").write_text(old.replace("NXDOMAIN", "REFUSED"))
    path = tap_of(tmp_path / "tap", [(packet(f"n{number:03}.example.org", 1), CLIENT) for number in range(150)])
    words = ("diff", "-queries", str(path), str(tmp_path / "old"), str(tmp_path / "new"))
    status, out, _ = run(*words)
    assert status == 1
    assert "150 questions of 1 client: 150 would be answered otherwise, for 150 names" in out
    assert "n007.example.org. A and 142 more: rcode, asked 150 times by 10.0.0.1\n" in out
    report = json.loads(run(*words, "-json")[1])
    assert (len(report["differences"]), report["differences_left_out"], report["otherwise"]) == (100, 50, 150)


@pytest.mark.memory
def test_memory_does_not_grow_with_the_questions(tmp_path: Path) -> None:
    """Though each is answered otherwise, and in its own way."""
    old = '. {\n    template IN A {\n        answer "{{ .Name }} 60 IN A 192.0.2.1"\n    }\n}\n'
    (tmp_path / "old").write_text(old)
    (tmp_path / "new").write_text(old.replace("192.0.2.1", "192.0.2.2"))
    peaks = []
    for count in (11_000, 31_000):
        questions = [(packet(f"n{number}.example.org", 1), bytes((10, 0, number >> 8 & 255, number & 255))) for number in range(count)]
        path = tap_of(tmp_path / "tap", questions)
        process = subprocess.Popen([*command(), "diff", "-queries", path, tmp_path / "old", tmp_path / "new"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        out = process.stdout.read()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert f"{count:,} questions of {count:,} clients: {count:,} would be answered otherwise, for {count:,} names\n" in out
        assert out.endswith(f"\n{count - KEPT_MOST:,} more are not shown\n")
        peaks.append(usage.ru_maxrss)
    assert peaks[1] - peaks[0] < 25_000, f"peaks in kB: {peaks}"


def test_text(tmp_path: Path) -> None:
    (tmp_path / "old").write_text(HOSTS)
    (tmp_path / "new").write_text(HOSTS.replace("192.0.2.2", "192.0.2.3").replace("192.0.2.1 ", "192.0.2.4 "))
    status, out, err = run("diff", str(tmp_path / "old"), str(tmp_path / "new"))
    assert (status, err) == (1, "")
    assert "client: 2 would be answered otherwise, for 2 names" in out
    assert (
        "www.example.org. A: answer, asked 1 time by 127.0.0.1\n"
        "    old  NOERROR aa by hosts\n             answer www.example.org. A 192.0.2.1\n"
        "    new  NOERROR aa by hosts\n             answer www.example.org. A 192.0.2.4\n"
    ) in out


@pytest.mark.parametrize(
    ("new", "words", "status", "problem"),
    [
        (". {\n    nosuch\n}\n", (), 1, "Unknown directive 'nosuch'"),
        (HOSTS, ("-queries", "/nowhere/file"), 1, "/nowhere/file: No such file or directory"),
        (HOSTS, ("third",), 2, "diff takes two Corefiles"),
    ],
)
def test_complaints(tmp_path: Path, new: str, words: tuple[str, ...], status: int, problem: str) -> None:
    (tmp_path / "old").write_text(HOSTS)
    (tmp_path / "new").write_text(new)
    result = run("diff", str(tmp_path / "old"), str(tmp_path / "new"), *words)
    assert result[:2] == (status, "")
    assert problem in result[2]
