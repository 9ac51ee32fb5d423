"""fastdns shadow -against: files of messages, and servers that answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rdatatype
import dns.rrset
import pytest

from fastdns._wire import name_text
from fastdns.comparison import command
from fastdns.comparison.asking import Server, parse_server
from fastdns.plugins.dnstap import frames
from fastdns.plugins.dnstap._sender import message
from fastdns.plugins.recorder.messages import REBUILT
from fastdns.testing import Upstream
from tests.bench.test_capture import ip, pcap, udp
from tests.server.test_commands import run

Answer = Callable[[dns.message.Message], Any]
CLIENT = bytes((10, 0, 0, 1))


def answer(query: dns.message.Message, *addresses: str) -> dns.message.Message:
    reply = dns.message.make_response(query)
    reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", *addresses))
    return reply


def right(query: dns.message.Message) -> dns.message.Message:
    return answer(query, "192.0.2.1", "192.0.2.2")


def wrong_for(name: str) -> Answer:
    return lambda query: answer(query, "192.0.2.66") if str(query.question[0].name) == name else answer(query, "192.0.2.2", "192.0.2.1")


def tap(path: Path, names: list[str], replies: bool = True, extra: bytes = b"") -> Path:
    octets = frames.control(frames.START, frames.CONTENT_TYPE)
    for name in names:
        query = dns.message.make_query(name, "A")
        octets += message(b"us", b"1", extra, True, CLIENT, 1, CLIENT, 53, 10**18, 0, query.to_wire())
        if replies:
            octets += message(b"us", b"1", extra, True, CLIENT, 1, CLIENT, 53, 10**18, 10**18 + 1, right(query).to_wire())
    path.write_bytes(octets + frames.control(frames.STOP))
    return path


def tap_of(path: Path, questions: Iterable[tuple[bytes, bytes]]) -> Path:
    """Queries and their clients."""
    octets = bytearray(frames.control(frames.START, frames.CONTENT_TYPE))
    for query, client in questions:
        octets += message(b"us", b"1", b"", True, client, 1, CLIENT, 53, 10**18, 0, query)
    path.write_bytes(octets + frames.control(frames.STOP))
    return path


def capture(path: Path, names: list[str]) -> Path:
    queries = [dns.message.make_query(name, "A") for name in names]
    path.write_bytes(pcap([ip(packet) for query in queries for packet in (udp(query.to_wire()), udp(right(query).to_wire(), 4000, 53))]))
    return path


def shadow(*words: object) -> tuple[int, dict[str, Any]]:
    status, out, err = run("shadow", "-json", *map(str, words))
    assert err == ""
    return status, json.loads(out)


@pytest.mark.parametrize("write", [tap, capture])
def test_recorded_answers_beside_those_of_a_server(tmp_path: Path, write: Callable[[Path, list[str]], Path]) -> None:
    """The one name that the server answers wrongly is found, and no other."""
    names = [f"n{number}.test." for number in range(50)]
    path = write(tmp_path / "file", [*names, "n7.test."])
    with Upstream(wrong_for("n7.test.")) as server:
        status, report = shadow("-against", server.address, "-rate", 1000, path)
        assert len(server.seen) == 51
        assert {query.flags & 0xFFFF for query in server.seen} == {dns.flags.RD}
    assert status == 1
    assert (report["servers"], report["questions"], report["same"], report["differences"]) == (["the file", server.address], 51, 49, {"answer": 2})
    [kept] = report["kept"]
    assert (kept["name"], kept["type"], kept["times"], kept["client"]) == ("n7.test.", "A", 2, "10.0.0.1" if write is tap else kept["client"])
    assert [side["answer"] for side in kept["replies"]] == [["n7.test. A 192.0.2.1", "n7.test. A 192.0.2.2"], ["n7.test. A 192.0.2.66"]]


def test_questions_of_a_file_asked_of_two(tmp_path: Path) -> None:
    path = tap(tmp_path / "file", ["a.test.", "b.test.", "a.test."], replies=False)
    with Upstream(right) as one, Upstream(wrong_for("b.test.")) as other:
        status, out, err = run("shadow", "--against", other.address, "--of", one.address, str(path))
        assert (status, err) == (1, "")
        lines = out.splitlines()
        assert lines[0] == "3 questions, 1 differences, here they are:"
        assert lines[1].startswith("b.test. A: answer, last ")
        assert lines[-1] == "2 the same"
        assert shadow("-against", one.address, "-of", one.address, path)[0] == 0
        one.seen.clear()
        status, report = shadow("-against", other.address, "-of", one.address, "-distinct", path)
        assert (report["questions"], len(one.seen)) == (2, 2)


def test_distinct_questions_are_remembered_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "DISTINCT_MOST", 2)
    path = tap(tmp_path / "file", ["a.test.", "b.test.", "a.test.", "c.test.", "b.test.", "a.test."], replies=False)
    asked = [name_text(one.question[12:-4]) for one in command.questions([str(path)], 53, of_two=True, distinct=True)]
    assert asked == ["a.test.", "b.test.", "c.test.", "a.test."]


def test_an_answer_that_does_not_fit_is_asked_for_by_tcp(tmp_path: Path) -> None:
    path = tap(tmp_path / "file", ["a.test."], replies=False)
    asked = []

    def cut(query: dns.message.Message) -> dns.message.Message:
        asked.append(query)
        reply = right(query)
        if len(asked) % 2:
            reply.answer.clear()
            reply.flags |= dns.flags.TC
        return reply

    with Upstream(right) as one, Upstream(cut) as other:
        status, report = shadow("-against", other.address, "-of", one.address, path)
    assert (status, report["same"], len(asked)) == (0, 1, 2)


def test_who_does_not_answer(tmp_path: Path) -> None:
    path = tap(tmp_path / "file", ["a.test.", "b.test."])
    with Upstream(lambda query: None) as silent, Upstream(lambda query: b"\0" * 40) as other:
        status, report = shadow("-against", silent.address, "-timeout", "200ms", path)
        assert (status, report["differences"]) == (1, {"unanswered": 2})
        status, report = shadow("-against", silent.address, "-of", other.address, "-timeout", "200ms", path)
        assert (status, report["questions"], report["silent"], report["differences"]) == (0, 2, 2, {})


def test_the_rate_and_the_questions_that_wait(tmp_path: Path) -> None:
    path = tap(tmp_path / "file", [f"n{number}.test." for number in range(20)])
    with Upstream(right) as server:
        before = time.monotonic()
        assert shadow("-against", server.address, "-rate", 20, path)[0] == 0
        assert time.monotonic() - before > 0.9
    with Upstream(lambda query: None) as silent:
        before = time.monotonic()
        assert shadow("-against", silent.address, "-rate", 10000, "-outstanding", 5, "-timeout", "200ms", path)[0] == 1
        assert time.monotonic() - before > 0.7, "four rounds of five"
        assert len(silent.seen) == 20


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["x"], "shadow needs 'report', or -against ADDRESS and a file"),
        (["-against", "127.0.0.1"], "shadow -against needs a file"),
        (["-against", "dns.example", "x"], "not an address of a server: 'dns.example'"),
        (["-against", "127.0.0.1:0", "x"], "not an address of a server: '127.0.0.1:0'"),
        (["-against", "127.0.0.1", "/nowhere"], "/nowhere: No such file or directory"),
        (["-against", "127.0.0.1", "-rate", "0", "x"], "-rate is a number from 1 to 1000000, not '0'"),
        (["-against", "127.0.0.1", "-ignore", "all", "x"], "known differences are alias-end, denial, serial, sha1, not all"),
        (["-against", "127.0.0.1", "-timeout", "0s", "x"], "the timeout is longer than no time"),
    ],
)
def test_complaints(words: list[str], problem: str) -> None:
    status, out, err = run("shadow", *words)
    assert (status, out) == (1, "")
    assert err.startswith(problem)


def test_rebuilt_replies_are_no_answers(tmp_path: Path) -> None:
    """*recorder* has not kept their records; its rebuilt queries are questions as any."""
    path = tap(tmp_path / "file", ["a.test."], extra=f"{REBUILT}; a reply of 44 octets, whose records were not kept".encode())
    assert run("shadow", "-against", "127.0.0.1:1", str(path)) == (1, "", f"{path}: no answers of clients\n")
    with Upstream(right) as one, Upstream(right) as two:
        status, report = shadow("-against", one.address, "-of", two.address, path)
    assert (status, report["questions"], report["same"]) == (0, 1, 1)


def test_a_file_without_what_is_looked_for(tmp_path: Path) -> None:
    path = tap(tmp_path / "file", ["a.test."], replies=False)
    assert run("shadow", "-against", "127.0.0.1:1", str(path)) == (1, "", f"{path}: no answers of clients\n")


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("192.0.2.1", Server("192.0.2.1", 53)),
        ("192.0.2.1:5353", Server("192.0.2.1", 5353)),
        ("2001:db8::1", Server("2001:db8::1", 53)),
        ("[2001:db8::1]:5353", Server("2001:db8::1", 5353)),
    ],
)
def test_addresses(text: str, server: Server) -> None:
    assert parse_server(text) == server
    assert parse_server(str(server)) == server
