"""Clouds that send an octet now and then, or without end: what a reading of a zone may take, and that nothing waits for it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from fastdns.control.budget import Budget, BudgetError, BudgetResponse, limited
from fastdns.corefile import CorefileError
from fastdns.plugins.file import hosted
from fastdns.plugins.file.hosted import FAILURES, HostedZone, HostedZones, Row, row
from fastdns.telemetry.log import divert
from tests.dripping import Dripping
from tests.waiting import LIMIT, until

requests = pytest.importorskip("requests")

from fastdns.plugins.file.hosted_rest import Rest, RestError  # noqa: E402 - it imports requests

APEX = [row("example.org.", "SOA", 60, "ns. h. 1 2 3 4 5"), row("example.org.", "NS", 60, "ns.example.org.")]


def records(address: str) -> list[Row]:
    return [*APEX, row("www.example.org.", "A", 60, address)]


@pytest.fixture(scope="module")
def server() -> Iterator[Dripping]:
    one = Dripping()
    yield one
    one.close()


class Nobody:
    def headers(self) -> dict[str, str]:
        return {}

    def renew(self) -> None:
        pass


DECODER = msgspec.json.Decoder(list[int])


def get(server: Dripping, path: str) -> list[int]:
    return Rest(Nobody()).get(server.url + path, DECODER)


@pytest.mark.parametrize("path", ["/head", "/body", "/chunks"])
def test_a_reply_that_drips_has_an_end(server: Dripping, path: str) -> None:
    with limited(Budget(0.5, 1 << 20)), pytest.raises(BudgetError, match=r"it took longer than 0\.5 s"):
        get(server, path)


def test_a_reply_without_end_is_too_large(server: Dripping) -> None:
    with limited(Budget(LIMIT, 1 << 20)), pytest.raises(BudgetError, match="it has more than 1048576 octets"):
        get(server, "/endless")


def test_the_time_that_a_cloud_wants_until_the_next_attempt_is_not_waited_for(server: Dripping) -> None:
    began = time.monotonic()
    with limited(Budget(10.0, 1 << 20)), pytest.raises(BudgetError, match="it would take longer than 10 s"):
        get(server, "/throttled")
    assert time.monotonic() - began < 10.0


def test_replies_within_the_bounds_and_threads_without_any(server: Dripping) -> None:
    rest = Rest(Nobody())
    with limited(Budget(LIMIT, 1 << 20)):
        assert [rest.get(f"{server.url}/good", DECODER) for _ in range(3)] == [[], [], []]  # on one connection
    assert rest.get(f"{server.url}/good", DECODER) == []


def test_a_reading_that_nobody_wants_any_more_ends(server: Dripping) -> None:
    """Amid a read, which would go on for a minute."""
    budget = Budget(LIMIT, 1 << 20)
    connection = http.client.HTTPConnection("127.0.0.1", server.socket.getsockname()[1], timeout=LIMIT)
    connection.response_class = BudgetResponse
    connection.request("GET", "/body")
    with limited(budget):
        reply = connection.getresponse()
        threading.Timer(0.1, budget.end).start()
        with pytest.raises(BudgetError, match="it was given up"):
            reply.read()
    connection.close()


# ---- zones ----


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    former = divert(lambda level, text: found.append(f"[{level}] {text}"))
    yield found
    divert(former)


@pytest.fixture
def make() -> Iterator[Callable[..., HostedZones]]:
    """``make(read, …)``: zones of a directive, each with its function that reads."""
    made: list[HostedZones] = []

    def zones(*reads: Callable[[], list[Row]]) -> HostedZones:
        made.append(HostedZones([HostedZone("clouddns", "example.org.", f"p:{number}", read) for number, read in enumerate(reads)], 60.0, "gcp"))
        return made[-1]

    yield zones
    for one in made:
        one._stop()


def failures(number: int) -> float:
    return next(value for labels, value in FAILURES.collect() if labels == ("clouddns", "example.org.", f"p:{number}"))  # type: ignore[misc]


def test_a_zone_that_drips_is_said_and_counted_when_it_begins_and_when_it_ends(
    server: Dripping, make: Callable[..., HostedZones], lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted, "REFRESH_SECONDS", 0.3)
    path = "/body"

    def read() -> list[Row]:
        get(server, path)
        return records("192.0.2.1")

    zone = make(read).zones[0]
    zone.start()
    before = failures(0)
    assert zone.read("gcp") == "failed to list resource records for example.org.:p:0 from gcp: it took longer than 0.3 s"
    assert failures(0) == before + 1
    path = "/good"
    assert zone.read("gcp") == ""
    assert lines == ["[INFO] plugin/clouddns: Zone example.org.:p:0 is read from gcp again"]


def test_a_start_waits_for_a_limit_and_serves_the_others(make: Callable[..., HostedZones], lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "START_SECONDS", 0.2)
    go = threading.Event()

    def late() -> list[Row]:
        assert go.wait(LIMIT)
        return records("192.0.2.1")

    zones = make(late, lambda: records("192.0.2.2"))
    zones._start(None)
    assert [zone.zone.serial for zone in zones.zones] == [None, 1]
    assert lines == ["[WARNING] plugin/clouddns: Zone example.org.:p:0 was not read from gcp within 0.2 s: its queries get SERVFAIL until it is"]
    go.set()
    until(lambda: zones.zones[0].zone.serial == 1, "the zone")


def test_a_reload_waits_for_no_zone_that_serves(make: Callable[..., HostedZones], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next configuration has its records at once, and what the former one reads is given up."""
    monkeypatch.setattr(hosted, "START_SECONDS", 0.0)
    former = make(lambda: records("192.0.2.1"))
    former._start(None)
    until(lambda: former.zones[0].zone.serial == 1, "the zone")

    def never() -> list[Row]:
        raise AssertionError("a reload reads nothing before it serves")

    later = make(never)
    later._start(None)
    assert later.zones[0].zone.serial == 1
    assert sorted(later.zones[0].zone.index.snapshot()) == sorted(former.zones[0].zone.index.snapshot())


def test_an_end_waits_for_no_reading(server: Dripping, make: Callable[..., HostedZones], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "START_SECONDS", 0.1)
    closed = server.closed

    def read() -> list[Row]:
        get(server, "/body")
        return records("192.0.2.1")

    zones = make(read)
    zones._start(None)
    zones._stop()
    until(lambda: server.closed > closed, "the end of the connection")
    assert zones.zones[0].zone.serial is None


def test_what_a_cloud_refuses_in_time_refuses_the_configuration(make: Callable[..., HostedZones]) -> None:
    def denied() -> list[Row]:
        raise RestError("HTTP status 403")

    zones = make(denied)
    with pytest.raises(CorefileError, match=r"failed to list resource records for example\.org\.:p:0 from gcp: HTTP status 403"):
        zones._start(None)


def test_readings_of_many_reloads_are_bounded(make: Callable[..., HostedZones], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "READINGS_MOST", 1)
    go = threading.Event()
    begun = threading.Event()

    def hang() -> list[Row]:
        begun.set()
        assert go.wait(LIMIT)
        return records("192.0.2.1")

    one = make(hang).zones[0]
    thread = threading.Thread(target=one.read, args=("gcp",))
    thread.start()
    assert begun.wait(LIMIT)
    other = make(lambda: records("192.0.2.2")).zones[0]
    other.refresh()
    assert other.read("gcp").endswith("readings of former configurations have not ended")
    go.set()
    thread.join(LIMIT)
    assert other.read("gcp") == ""
