"""The command `secondaries`: what its fleet takes from a server, and what it calls wrong."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import dns.message
import dns.rdata
import pytest

from fastdns._wire import name_wire
from fastdns.bench.cli import main
from fastdns.bench.fleet.fleet import Fleet
from fastdns.bench.fleet.writes import BASE, endpoint_slice, made_up, put, recorded, surroundings
from fastdns.bench.parts.api import APIServer
from fastdns.bench.parts.cluster import Cluster
from fastdns.bench.secondaries import limits
from fastdns.bench.workload import WorkloadError
from fastdns.bench.workloads.synthetic import Shape
from tests.plugins.transfer.test_transfer import receive
from tests.waiting import until

ZONE = "cluster.local."


@pytest.mark.parametrize("told", ["notify", "poll"])
@pytest.mark.parametrize("over", ["tcp", "tls"])
def test_all_have_each_change(told: str, over: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--count", "20", "--seconds", "2", "--changes", "50", "--services", "20", "--told", told, "--poll", "0.2", "--over", over]
    main(["secondaries", "steady", *arguments, "--json", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["faults"] == []
    assert found["latencies"] == 100 * 20
    assert 0 < found["latency_s"]["p50"] <= found["latency_s"]["p99"] <= found["latency_s"]["max"]
    assert found["connections"] == 20
    assert found["counters"]["differences"] >= 20
    assert "20 secondaries" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["fill", "restart"])
def test_modes(mode: str, tmp_path: Path) -> None:
    main(["secondaries", mode, "--count", "20", "--seconds", "4", "--changes", "20", "--services", "20", "--json", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["faults"] == []
    assert found["connections"] == 20
    assert found["counters"]["breaks"] >= (20 if mode == "restart" else 0)


def test_a_load_that_is_the_limit_makes_figures_void() -> None:
    calm = {"cpu": 0.2, "waited": 0.1, "server_waited": 0.1, "write_late_s": 0.01, "notify_dropped": 0}
    assert list(limits(calm)) == []
    for name, value in (("cpu", 0.9), ("waited", 0.3), ("server_waited", 0.6), ("write_late_s", 0.5), ("notify_dropped", 1)):
        assert len(list(limits({**calm, name: value}))) == 1


# ---- writes ----


def test_writes_that_are_made_up() -> None:
    writes = list(made_up(100, 30))
    assert [write.number for write in writes] == list(range(1, 3001))
    assert writes[1].due == pytest.approx(0.01)
    assert {write.replaced for write in writes[:1000]} == {-1}
    assert [write.replaced for write in writes[1000:]] == list(range(1, 2001))
    assert str(BASE + 3000) in [address for one in writes[-1].object["endpoints"] for address in one["addresses"]]


def test_writes_that_were_recorded(tmp_path: Path) -> None:
    lines = [
        {"sent": 1000.0 + number, "old": old, "new": str(BASE + number), "object": endpoint_slice(number % 2, ["10.0.0.1"])}
        for number, old in ((1, "10.0.0.9"), (2, "10.0.0.8"), (3, str(BASE + 1)))
    ]
    path = tmp_path / "record"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    writes = recorded(path)
    assert [(write.due, write.number, write.replaced) for write in writes] == [(0, 1, -1), (1, 2, -1), (2, 3, 1)]
    with APIServer(Cluster(Shape(services=1))) as server, contextlib.closing(http.client.HTTPConnection(server.url.removeprefix("http://"))) as api:
        made = list(surroundings(writes))
        assert [plural for plural, _ in made] == ["namespaces", "services", "services"]
        for plural, thing in made:
            put(api, plural, thing)
        api.request("GET", "/api/v1/services")
        assert len(json.load(api.getresponse())["items"]) > 2
    path.write_text("{}\n")
    with pytest.raises(WorkloadError, match="not a record of changes"):
        recorded(path)


# ---- what is wrong with a transfer ----


def soa(serial: int) -> str:
    return f"{ZONE} 5 IN SOA ns.{ZONE} host.{ZONE} {serial} 1 1 1 1"


def zonemd(serial: int, digest: str) -> str:
    return f"{ZONE} 5 IN ZONEMD {serial} 240 240 {digest * 64}"


class Primary:
    """Answers each transfer with the next of some lists of records, the last one from then on."""

    def __init__(self, answers: list[list[str]]) -> None:
        self.answers = answers
        self.asked: list[dns.message.Message] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                connection, _ = self.socket.accept()
                with connection, contextlib.suppress(EOFError):
                    self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        while True:
            query = dns.message.from_wire(receive(connection))
            records = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            self.asked.append(query)
            head = struct.pack(">HHHHHH", query.id, 0x8400, 1, len(records), 0, 0)
            octets = head + name_wire(ZONE) + struct.pack(">HH", query.question[0].rdtype, 1) + b"".join(map(wire, records))
            connection.sendall(struct.pack(">H", len(octets)) + octets)


def wire(text: str) -> bytes:
    owner, ttl, _, kind, data = text.split(None, 4)
    rdata = dns.rdata.from_text("IN", kind, data)
    octets = rdata.to_digestable()
    return name_wire(owner) + struct.pack(">HHIH", rdata.rdtype, 1, int(ttl), len(octets)) + octets


@contextlib.contextmanager
def following(answers: list[list[str]], checked: int = 0) -> Iterator[tuple[Primary, Fleet]]:
    """A secondary that asks for the SOA again and again."""
    primary = Primary(answers)
    port = primary.socket.getsockname()[1]
    fleet = Fleet(
        count=1,
        address=struct.pack("=H", socket.AF_INET) + struct.pack(">H4s8x", port, socket.inet_aton("127.0.0.1")),
        zone=name_wire(ZONE),
        port=0,
        notified=False,
        poll=0.05,
        tls=False,
        changes=10,
        checked=checked,
        receive_buffer=0,
    )
    fleet.change(3, -1)
    thread = threading.Thread(target=fleet.run, daemon=True)
    thread.start()
    try:
        yield primary, fleet
    finally:
        fleet.stop()
        thread.join()
        del fleet  # its connection ends
        primary.socket.shutdown(socket.SHUT_RDWR)
        primary.socket.close()


WHOLE = [soa(1), zonemd(1, "a"), f"www.{ZONE} 5 IN A 10.0.0.1", soa(1)]
GOOD = [soa(2), soa(1), zonemd(1, "a"), soa(2), zonemd(2, "b"), f"www.{ZONE} 5 IN A 198.18.0.3", soa(2)]


def test_differences_are_applied() -> None:
    with following([WHOLE, [soa(2)], GOOD, [soa(2)]]) as (primary, fleet):
        until(lambda: fleet.missing(3) == 0 and fleet.holding == 1)
        assert [(query.question[0].rdtype, len(query.authority)) for query in primary.asked[:3]] == [(252, 0), (6, 0), (251, 1)]
        assert primary.asked[2].options[0].to_wire() == bytes([0xAA]) * 32
        assert (fleet.counters["whole"], fleet.counters["differences"], fleet.counters["gaps"]) == (1, 1, 0)
        assert fleet.filled.count == 1
        assert fleet.latency.count == 0  # written before it had the zone


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ([soa(2), soa(0), zonemd(0, "a"), soa(2), zonemd(2, "b"), soa(2)], "gaps"),  # from another version
        ([soa(2), soa(1), zonemd(1, "c"), soa(2), zonemd(2, "b"), soa(2)], "gaps"),  # of other records
        ([soa(3), soa(1), zonemd(1, "a"), soa(2), zonemd(2, "b"), soa(1), zonemd(1, "a"), soa(3), zonemd(3, "c"), soa(3)], "gaps"),
        ([zonemd(1, "a"), soa(1)], "malformed"),
        ([*GOOD, soa(2)], "malformed"),
    ],
)
def test_what_does_not_follow_is_counted(wrong: list[str], fault: str) -> None:
    with following([WHOLE, [soa(2)], wrong, WHOLE]) as (_, fleet):
        until(lambda: fleet.counters[fault])
        until(lambda: fleet.counters["whole"] >= 2)  # it begins anew
        assert fleet.missing(3) == 1


def test_records_without_their_digest_are_counted() -> None:
    with following([WHOLE], checked=1) as (_, fleet):
        until(lambda: fleet.counters["digests"])
        assert fleet.holding == 0
