"""The log of events and the sections of the status document."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable

import dns.exception
import dns.message
import pytest

from fastdns.server import control
from fastdns.telemetry import events, status
from fastdns.testing import Upstream
from tests.server import Server
from tests.waiting import until


def test_events_have_numbers_and_causes() -> None:
    before = max((event.number for event in events.last()), default=0)
    events.note("reload", "Corefile", "SIGUSR1", took=0.1)
    events.note("upstream_down", "192.0.2.1:53", "probes fail")
    found = events.last(before)
    assert [(event.kind, event.subject, event.cause) for event in found] == [
        ("reload", "Corefile", "SIGUSR1"),
        ("upstream_down", "192.0.2.1:53", "probes fail"),
    ]
    assert found[0].details == {"took": 0.1}
    assert found[0].number + 1 == found[1].number
    assert events.last(before, 1) == found[1:]


def test_the_oldest_events_go_first() -> None:
    for number in range(events.EVENTS_MAX + 1):
        events.note("relist", str(number), "test")
    found = events.last()
    assert len(found) == events.EVENTS_MAX
    mine = [event.subject for event in found if event.kind == "relist" and event.cause == "test"]
    assert mine[-1] == str(events.EVENTS_MAX)
    assert "0" not in mine


def test_a_kind_that_repeats_pushes_no_other_out() -> None:
    for number in range(events.KEPT):
        events.note("certificate", str(number), "test")
    for number in range(2 * events.EVENTS_MAX):
        events.note("relist", str(number), "test")
    found = events.last()
    assert len(found) == events.EVENTS_MAX
    assert [event.subject for event in found if event.kind == "certificate"][-events.KEPT :] == [str(number) for number in range(events.KEPT)]
    assert [event.number for event in found] == sorted(event.number for event in found)


def test_kinds_are_known() -> None:
    with pytest.raises(KeyError):
        events.note("unheard_of", "x", "y")


def test_watchers_hear_of_events_until_they_end() -> None:
    heard = []
    end = events.watch(heard.append)
    events.note("reload", "Corefile", "test")
    end()
    events.note("reload", "Corefile", "test")
    assert [event.kind for event in heard] == ["reload"]


def test_sections_belong_to_who_provides_them_last() -> None:
    def first(request: object) -> str:
        return "first"

    def second(request: object) -> str:
        return "second"

    status.provide("example", first)
    status.provide("example", second)
    status.withdraw("example", first)
    assert status.report(["example", "unheard-of"]) == {"example": "second"}
    assert "example" in status.sections()
    status.withdraw("example", second)
    assert status.report(["example"]) == {}


def test_over_the_control_socket(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n    whoami\n}")
    assert control.ask({"sections": ["unheard-of"]}, server.pid) == {}


def told(server: Server, kind: str) -> list[tuple[str, str]]:
    """Subjects and causes of the server's events of a kind."""
    found = control.ask({"sections": ["events"]}, server.pid)["events"]["events"]
    return [(event["subject"], event["cause"]) for event in found if event["kind"] == kind]


def test_reloads(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n    whoami\n}")
    server.reload(".:{port} {\n    whoami\n    nsid x\n}")
    until(lambda: told(server, "reload"))
    start = len(server.log())
    server.write(".:{port} {\n    hosts {\n        ttl x\n    }\n}")
    server.signal(signal.SIGUSR1)
    server.wait_log("Restart failed|refused|ERROR", start=start)
    until(lambda: told(server, "reload_failed"))
    assert "ttl" in told(server, "reload_failed")[0][1]
    assert len(told(server, "reload")) == 1


def test_upstreams_that_go_and_come_back(serve: Callable[..., Server]) -> None:
    answers = threading.Event()
    with Upstream(lambda query: dns.message.make_response(query) if answers.is_set() else None) as upstream:
        server = serve(f".:{{port}} {{\n    forward . {upstream.address} {{\n        health_check 100ms\n    }}\n}}")
        with contextlib.suppress(dns.exception.Timeout):
            server.query("example.org", timeout=3)
        until(lambda: told(server, "upstream_down"))
        assert told(server, "upstream_down") == [(upstream.address, "more than 2 health checks in a row have failed")]
        answers.set()
        until(lambda: told(server, "upstream_up"))
        assert told(server, "upstream_up") == [(upstream.address, "it answers again")]


HANGS = """
import time
from fastdns.plugin import Plugin

class Hangs(Plugin):
    deadline = 0.2

    def serve(self, query):
        time.sleep(60)

def setup(controller):
    return Hangs()
"""


def test_plugins_that_hang(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n    plugin {dir}/hangs.py\n}", prepare=lambda folder: (folder / "hangs.py").write_text(HANGS))
    for number in range(4):
        with contextlib.suppress(dns.exception.Timeout):
            server.query(f"{number}.example.org", timeout=2)
    until(lambda: told(server, "plugin_quarantined"))
    subject, cause = told(server, "plugin_quarantined")[0]
    assert subject == "hangs"
    assert "queries get SERVFAIL" in cause
