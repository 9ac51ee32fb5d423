"""Walks along a search path from a file: through the sockets of a server with a scripted upstream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dns.message
import dns.rcode

from tests.plugins.cache.scripted import SOA, asked, running, texts
from tests.server import Server

Serve = Callable[..., Server]

SEARCH = "search first.test second.test third.test\n"


def lines(tmp_path: Path, zones: str = "", search: str = SEARCH, more: str = "") -> str:
    path = tmp_path / "resolv.conf"
    path.write_text(search)
    return f"autopath {zones} {path}\n {more}"


def sections(reply: dns.message.Message) -> tuple[str, list[str], list[str]]:
    return dns.rcode.to_text(reply.rcode()), texts(reply.answer), texts(reply.authority)


def test_walks(serve: Serve, tmp_path: Path) -> None:
    with running(serve, lines(tmp_path)) as (server, upstream, script):
        for name in ("one.first.test.", "two.second.test.", "three.example.org.", "www.other.test."):
            script.say(name, [f"{name} 60 IN A 192.0.2.1"])
        script.say("alias.second.test.", ["alias.second.test. 60 IN CNAME real.test.", "real.test. 50 IN A 192.0.2.2"])
        script.say("empty.second.test.", authority=[SOA])
        script.say("nowhere.test.", rcode="NXDOMAIN", authority=[SOA])
        script.otherwise = ("NXDOMAIN", "RA", [], [SOA], [])
        nothing = ("NXDOMAIN", [], [SOA])
        for name, wanted in {
            # The first element: the answer as it is.
            "one.first.test.": ("NOERROR", ["one.first.test. 60 IN A 192.0.2.1"], []),
            "two.first.test.": ("NOERROR", ["two.first.test. 60 IN CNAME two.second.test.", "two.second.test. 60 IN A 192.0.2.1"], []),
            "three.example.org.first.test.": (
                "NOERROR",
                ["three.example.org. 60 IN A 192.0.2.1", "three.example.org.first.test. 60 IN CNAME three.example.org."],
                [],
            ),
            "alias.first.test.": (
                "NOERROR",
                ["alias.first.test. 60 IN CNAME alias.second.test.", "alias.second.test. 60 IN CNAME real.test.", "real.test. 50 IN A 192.0.2.2"],
                [],
            ),
            # NODATA ends the walk, without a CNAME.
            "empty.first.test.": ("NOERROR", [], [SOA]),
            "none.first.test.": nothing,
            # Not below the first element: as if autopath were not there.
            "two.second.test.": ("NOERROR", ["two.second.test. 60 IN A 192.0.2.1"], []),
            "one.second.test.": nothing,
            "onefirst.test.": nothing,
        }.items():
            reply = server.query(name)
            assert reply.question[0].name.to_text() == name
            assert sections(reply) == wanted, name
        assert [asked(upstream, f"none.{zone}") for zone in ("first.test.", "second.test.", "third.test.", "")] == [1, 1, 1, 1]
        # Where the first element leads to something, nothing else is asked.
        assert asked(upstream, "one.third.test.") == 0
        assert asked(upstream, "onefirst.test.") == 1
        assert asked(upstream, "one.second.test.") == 1


def test_letter_case_of_the_client_stays(serve: Serve, tmp_path: Path) -> None:
    with running(serve, lines(tmp_path)) as (server, _, script):
        script.say("two.second.test.", ["two.second.test. 60 IN A 192.0.2.1"])
        script.otherwise = ("NXDOMAIN", "RA", [], [SOA], [])
        reply = server.query("TwO.First.TEST.")
        assert reply.question[0].name.to_text() == "TwO.First.TEST."
        assert reply.answer[0].name.to_text() == "TwO.First.TEST."
        assert "two.second.test. 60 in a 192.0.2.1" in [text.lower() for text in texts(reply.answer)]


def test_an_element_itself_is_a_failure(serve: Serve, tmp_path: Path) -> None:
    with running(serve, lines(tmp_path)) as (server, upstream, _):
        assert dns.rcode.to_text(server.query("First.test.").rcode()) == "SERVFAIL"
        assert asked(upstream, "first.test.") == 0
        assert sections(server.query("second.test."))[0] == "NOERROR"


def test_a_failing_message_ends_the_walk(serve: Serve, tmp_path: Path) -> None:
    with running(serve, lines(tmp_path)) as (server, upstream, script):
        script.otherwise = ("NXDOMAIN", "RA", [], [SOA], [])
        script.say("a.second.test.", rcode="SERVFAIL")
        assert sections(server.query("a.first.test."))[0] == "SERVFAIL"
        assert asked(upstream, "a.third.test.") == 0


def test_an_error_ends_the_walk(serve: Serve, tmp_path: Path) -> None:
    with running(serve, lines(tmp_path, more="cancel 300ms")) as (server, upstream, script):
        script.otherwise = ("NXDOMAIN", "RA", [], [SOA], [])
        script.said["a.second.test."] = None
        assert sections(server.query("a.first.test."))[0] == "SERVFAIL"
        assert asked(upstream, "a.third.test.") == 0


def test_only_in_its_zones(serve: Serve, tmp_path: Path) -> None:
    search = "search first.test second.test\n"
    with running(serve, lines(tmp_path, "in.first.test", search)) as (server, upstream, script):
        script.otherwise = ("NXDOMAIN", "RA", [], [SOA], [])
        server.query("a.in.first.test.")
        server.query("a.out.first.test.")
        assert (asked(upstream, "a.in.second.test."), asked(upstream, "a.out.second.test.")) == (1, 0)


def test_names_that_would_be_too_long_are_left_out(serve: Serve, tmp_path: Path) -> None:
    front = ".".join(["x" * 50] * 4)
    search = f"search s.test {'y' * 60}.test\n"
    with running(serve, lines(tmp_path, search=search)) as (server, _, script):
        script.otherwise = ("NXDOMAIN", "RA", [], [SOA], [])
        script.say(f"{front}.", [f"{front}. 60 IN A 192.0.2.1"])
        reply = server.query(f"{front}.s.test.")
        assert texts(reply.answer) == sorted([f"{front}. 60 IN A 192.0.2.1", f"{front}.s.test. 60 IN CNAME {front}."])


def test_steps_are_cached(serve: Serve, tmp_path: Path) -> None:
    with running(serve, lines(tmp_path, more="cache")) as (server, upstream, script):
        script.otherwise = ("NXDOMAIN", "RA", [], [SOA], [])
        script.say("a.third.test.", ["a.third.test. 60 IN A 192.0.2.1"])
        for _ in range(3):
            assert len(texts(server.query("a.first.test.").answer)) == 2
        assert [asked(upstream, f"a.{zone}.test.") for zone in ("first", "second", "third")] == [1, 1, 1]


def test_a_plugin_that_is_not_there_changes_nothing(serve: Serve) -> None:
    with running(serve, "autopath @kubernetes") as (server, _, _):
        assert sections(server.query("a.first.test."))[1] == ["a.first.test. 300 IN A 192.0.2.1"]
