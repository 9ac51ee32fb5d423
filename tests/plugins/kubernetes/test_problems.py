"""Lists and watches that fail for long: a state that log, metrics and events show, and what rights make of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fastdns.plugins.acl._cluster import Unsynced
from fastdns.plugins.kubernetes.decode.refusals import STANDING, Refusals
from fastdns.plugins.kubernetes.watch import client, metrics, problems, reflector
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.manifests import Manifests
from fastdns.plugins.kubernetes.watch.problems import AFTER, ALLOW, DENY, OURS, Failure, Gate, Problems, Report
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.telemetry import events
from tests.plugins.kubernetes.conftest import STREAM, chunk, reply, service, service_list, status
from tests.server import free_port
from tests.waiting import until

HOST = "api.example:6443"


class Feed:
    """Says what the test says."""

    def __init__(self) -> None:
        self.failures: dict[str, Failure | None] = {"pods": None, "services": None}
        self.refused = Refusals("services")

    def reports(self, now: float) -> Iterable[Report]:
        kinds = {"pods": Kind.POD, "services": Kind.SERVICE}
        return [Report(label, frozenset((kinds[label],)) if label in kinds else None, failure) for label, failure in self.failures.items()]

    def refusals(self) -> Iterable[Refusals]:
        return [self.refused]


@pytest.fixture
def looked() -> tuple[Problems, Feed]:
    watched = Problems(HOST)
    watched.feed = feed = Feed()
    return watched, feed


def gauge(label: str, host: str = HOST) -> Any:
    return dict(metrics.watch_failing.collect()).get((label, host))


def test_a_failure_that_lasts_is_told_when_it_begins_and_when_it_ends(looked: tuple[Problems, Feed], lines: list[str]) -> None:
    watched, feed = looked
    before = max((event.number for event in events.last()), default=0)
    feed.failures["pods"] = Failure(1000.0, "pods is forbidden\n")
    watched.look(1000.0 + AFTER - 0.1)
    assert (lines, gauge("pods")) == ([], 0)
    watched.look(1000.0 + AFTER)
    watched.look(1000.0 + AFTER + 1)
    assert (gauge("pods"), gauge("services")) == (1, 0)
    feed.failures["pods"] = None
    watched.look(1095.0)
    watched.look(1096.0)
    assert gauge("pods") == 0
    assert lines == [
        "[ERROR] plugin/kubernetes: The watch of pods at api.example:6443 has failed for 30 s: pods is forbidden\\n",
        "[INFO] plugin/kubernetes: The watch of pods at api.example:6443 works again after 95 s",
    ]
    assert [(event.kind, event.subject) for event in events.last(before)] == [
        ("watch_failing", "The watch of pods at api.example:6443"),
        ("watch_restored", "The watch of pods at api.example:6443"),
    ]


def test_refused_objects_are_told_and_deny_nothing_to_others(looked: tuple[Problems, Feed], lines: list[str]) -> None:
    watched, feed = looked
    flags = Unsynced()
    watched.add_gate(flags, Gate(DENY, 0.0, frozenset((Kind.POD,))))
    feed.refused.add("evil", "one", "no port")
    watched.look(2000.0)
    watched.look(2000.0 + AFTER)
    assert "An object of services at api.example:6443 has failed for 30 s: 1 refused, the last one evil/one: no port" in lines[-1]
    assert dict(STANDING.collect())["services",] >= 1
    assert (gauge("services"), flags.state) == (0, (False, False))
    feed.refused.accept("evil", "one")
    watched.look(2040.0)
    assert lines[-1].endswith("An object of services at api.example:6443 works again after 40 s")


AWAY, FORBIDDEN = Failure(100.0, "connection refused"), Failure(100.0, "forbidden", 110.0, True)
#: Forbidden once, and away now.
GONE = Failure(100.0, "EOF", 110.0, False)

#: Mode, failure, and when rights are denied.
COUNTS: list[tuple[str, Failure, float | None]] = [
    (OURS, AWAY, None),
    (OURS, GONE, None),
    (OURS, FORBIDDEN, 140.0),
    (DENY, AWAY, 130.0),
    (DENY, FORBIDDEN, 130.0),
    (ALLOW, AWAY, None),
    (ALLOW, FORBIDDEN, None),
]


@pytest.mark.parametrize(("mode", "failure", "at"), COUNTS)
def test_what_denies_rights(looked: tuple[Problems, Feed], mode: str, failure: Failure, at: float | None) -> None:
    watched, feed = looked
    flags = Unsynced()
    watched.add_gate(flags, Gate(mode, 30.0, frozenset((Kind.POD,))))
    for label, state in (("pods", (True, False)), ("services", (False, True)), ("zone", (True, True))):
        feed.failures = {label: failure}
        watched.look(1e6 if at is None else at - 0.1)
        assert flags.state == (False, False)
        if at is not None:
            watched.look(at)
            assert flags.state == state
        feed.failures = {label: None}
        watched.look(1e6 + 1)
        assert flags.state == (False, False)


def test_gates_end_with_their_flags(looked: tuple[Problems, Feed]) -> None:
    watched, _ = looked
    flags = Unsynced()
    watched.add_gate(flags, Gate(DENY, 0.0, frozenset((Kind.POD,))))
    assert len(watched.gates) == 1
    del flags
    assert len(watched.gates) == 0


# ---- what counts as a failure ----


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(reflector, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(reflector, "PROBE_PAUSE", 0.05)
    monkeypatch.setattr(reflector, "SHORT", 0.3)
    monkeypatch.setattr(problems, "AFTER", 1.0)
    monkeypatch.setattr(problems, "LOOK", 0.05)
    monkeypatch.setattr(client, "HEAD_TIMEOUT", 0.3)


LISTED = reply(service_list(service("a"), version=5))


def answers(pages: Any, watches: Any, fine: list[bool]) -> Any:
    """A server without streaming lists, which does what it is told until it is fine."""

    def answer(path: str, query: dict[str, str]) -> Any:
        if "sendInitialEvents" in query:
            yield reply(status(422), 422)
        elif "watch" in query:
            yield from [STREAM, 30.0] if fine[0] else watches
        else:
            yield from [LISTED] if fine[0] else pages

    return answer


#: What the server does, whether it has answered, and the cause.
FAULTS: dict[str, tuple[list[Any], list[Any], bool, str]] = {
    "silent": ([5.0], [], False, "i/o timeout"),
    "403": ([reply(status(403, "Forbidden", "services is forbidden"), 403)], [], True, "services is forbidden"),
    "401": ([reply(status(401, "Unauthorized", "Unauthorized"), 401)], [], True, "Unauthorized"),
    "500": ([reply(status(500, "InternalError", "etcd"), 500)], [], False, "etcd"),
    "a list that cannot be decoded": ([reply(b'{"metadata":[],"items":[]}')], [], True, "malformed list"),
    "a list that is never complete": ([LISTED[:-20], None], [], True, "the list is cut short"),
    "a watch that ends at once": ([LISTED], [STREAM + b"0\r\n\r\n"], True, "the watch ends at once"),
    "a watch that cannot be decoded": ([LISTED], [STREAM + chunk(b"garbage")], True, "malformed stream"),
    "a watch that is forbidden": ([LISTED], [reply(status(403, "Forbidden", "watch is forbidden"), 403)], True, "watch is forbidden"),
}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("pages", "watches", "answered", "cause"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_begin_and_end_the_state(scripted: Any, follow: Any, lines: list[str], pages: list[Any], watches: list[Any], answered: bool, cause: str) -> None:
    fine = [False]
    server = scripted(answers(pages, watches, fine))
    _, lease = follow(Endpoint(server.url), wait=0)
    watch = lease.cluster.feed.running  # filled on the loop's thread
    until(lambda: any("has failed for" in line for line in lines))
    (failed,) = [line for line in lines if "has failed for" in line]
    assert failed.startswith("[ERROR] plugin/kubernetes: The watch of services at 127.0.0.1:")
    assert gauge("services", lease.cluster.problems.host) == 1
    one = watch[Kind.SERVICE][0]
    until(lambda: one.failure is not None and cause in one.failure.cause and one.failure.answers is answered, cause)
    fine[0] = True
    until(lambda: any("works again after" in line for line in lines))
    assert gauge("services", lease.cluster.problems.host) == 0
    assert one.failing(time.monotonic()) is None


@pytest.mark.usefixtures("quick")
def test_a_server_that_is_away(follow: Any, lines: list[str]) -> None:
    _, lease = follow(Endpoint(f"http://127.0.0.1:{free_port()}"), wait=0)
    until(lambda: any("has failed for" in line for line in lines))
    failure = lease.cluster.feed.running[Kind.SERVICE][0].failure
    assert (failure.ours, failure.answers) == (None, False)


@pytest.mark.usefixtures("quick")
def test_manifests_that_cannot_be_read(follow: Any, lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{")
    follow(Manifests((str(path),)))
    until(lambda: any(f"The watch of manifests at {path} has failed for" in line for line in lines))
    path.write_text("{}")
    until(lambda: any(f"The watch of manifests at {path} works again after" in line for line in lines))
