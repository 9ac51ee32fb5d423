"""R15: allocations of the native code fail, each one in its turn. Queries may fail too, or be dropped; nothing is answered wrongly, nothing crashes,
nothing leaks, and once there is memory again everything is as before."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.zone
import pytest
import yaml

import fastdns
from fastdns.testing import Upstream
from tests.robustness.allocations import ALL, Allocations, Place
from tests.server import STARTED, Server
from tests.waiting import LIMIT, REPLY

#: Seconds to wait for a reply that may never come, because an allocation has failed.
MOMENT = 0.2

ROOT = Path(__file__).resolve().parent.parent.parent
Serve = Callable[..., Server]

COREFILE = """
.:{port} {
    bind 127.0.0.1
    log
    errors
    prometheus 127.0.0.1:{port2}
    loadbalance
    transfer {
        to *
    }
    hosts {
        192.0.2.1 www.hosts.test
        fallthrough
    }
    kubernetes cluster.local 10.in-addr.arpa {
        manifests {dir}/cluster.yaml
        pods verified
        fallthrough 10.in-addr.arpa
    }
    autopath @kubernetes
    plugin {dir}/echo.py
    cache SECONDS {
        prefetch 2 1m 50%
    }
    forward . UPSTREAM {
        max_fails 0
    }
}
"""

PLUGIN = """
from fastdns.plugin import Plugin

class Echo(Plugin):
    zones = ["echo.test."]

    def serve(self, query):
        return query.reply("A 192.0.2.77")

def setup(controller):
    return Echo()
"""


def service(name: str, address: str, namespace: str = "shop", port: str = "sql", number: int = 5432) -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "Service", "metadata": metadata, "spec": {"clusterIPs": [address], "ports": [{"name": port, "port": number, "protocol": "TCP"}]}}


#: What a cluster's file holds beside the service that tells its version.
OBJECTS = [
    {"kind": "Namespace", "metadata": {"name": "shop"}},
    {"kind": "Namespace", "metadata": {"name": "blue"}},
    service("web", "10.0.0.1", port="http", number=80),
    service("db", "None"),
    {
        "kind": "EndpointSlice",
        "metadata": {"name": "db-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "db"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [f"10.1.0.{i}"], "hostname": f"db-{i}", "conditions": {"ready": True}} for i in range(1, 40)],
        "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
    },
    {"kind": "Pod", "metadata": {"name": "client", "namespace": "shop"}, "status": {"podIP": "127.0.0.1", "phase": "Running"}},
]


def cluster(version: int) -> str:
    """The objects of a version: its own service, with an address that tells it, and some that no other version has."""
    objects = [
        *OBJECTS,
        service("version", f"10.200.{version // 250}.{version % 250}", "blue"),
        *(service(f"extra-{version}-{i}", f"10.9.{version % 250}.{i}", "blue") for i in range(30)),
    ]
    return yaml.safe_dump_all([{"apiVersion": "v1", **one} for one in objects])


BIG = [f'"{i:03d} {"x" * 240}"' for i in range(120)]


def upstream_answer(query: dns.message.Message) -> dns.message.Message:
    reply = dns.message.make_response(query, recursion_available=True)
    question = query.question[0]
    records = {dns.rdatatype.TXT: BIG, dns.rdatatype.A: ["192.0.2.53"]}.get(question.rdtype)
    if records:
        reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", question.rdtype, *records))
    return reply


class Wrong(AssertionError):
    """An answer that is none of those that may be."""


class Scenario:
    """A server, its upstream, and steps that ask it. Each step returns whether all its answers were there and right; a wrong one raises Wrong."""

    def __init__(self, serve: Serve, allocations: Allocations, upstream: str, wait: bool = True) -> None:
        self.allocations = allocations
        self.upstream = upstream
        self.number = 0
        self.version = 1

        def write(folder: Path) -> None:
            (folder / "cluster.yaml").write_text(cluster(self.version))
            (folder / "echo.py").write_text(PLUGIN)

        self.server = serve(self.corefile(), "-workers", "2", env=allocations.env(), prepare=write, wait=wait)

    def corefile(self) -> str:
        """Its cache and an address of its own differ from time to time."""
        more = "other.test:{port3} {\n    bind 127.0.0.1\n    whoami\n}\n" if self.number % 2 else ""
        return COREFILE.replace("UPSTREAM", self.upstream).replace("SECONDS", str(300 + self.number % 2)) + more

    def fresh(self) -> str:
        """A label that nobody has asked for."""
        self.number += 1
        return f"n{self.number}"

    # ---- asking ----

    def judge(self, query: dns.message.Message, reply: dns.message.Message | None, wanted: list[str]) -> bool:
        """Whether the reply is the wanted one. SERVFAIL, or none, may be; anything else is Wrong."""
        if reply is None or (reply.rcode() == dns.rcode.SERVFAIL and not reply.answer):
            return False
        got = sorted(rdata.to_text() for rrset in reply.answer for rdata in rrset) if reply.rcode() == 0 else [dns.rcode.to_text(reply.rcode())]
        if got != sorted(wanted) and not reply.flags & dns.flags.TC:
            raise Wrong(f"{query.question[0]}: {got}, not {wanted}")
        return got == sorted(wanted)

    def failing(self) -> bool:
        """Whether an allocation of this step has failed already: what follows from it may be silence."""
        return bool(self.allocations.control.armed and self.allocations.control.failed)

    def readable(self, sock: socket.socket) -> bool:
        end = time.monotonic() + REPLY
        while time.monotonic() < end:
            if select.select([sock], [], [], MOMENT)[0]:
                return True
            if self.failing():
                break
        return False

    def exchange(self, queries: list[bytes], tcp: bool) -> Iterator[bytes]:
        """The replies to all, asked at once over one UDP socket or pipelined over one connection; fewer where some do not come."""
        left, came = b"", 0
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
            sock.settimeout(REPLY)
            sock.connect(("127.0.0.1", self.server.port))
            for query in queries:
                sock.sendall(struct.pack("!H", len(query)) + query if tcp else query)
            while came < len(queries) and self.readable(sock):
                octets = sock.recv(65535)
                if not octets:
                    break
                left += octets if tcp else struct.pack("!H", len(octets)) + octets
                while len(left) >= 2 and len(left) >= 2 + (size := struct.unpack("!H", left[:2])[0]):
                    came += 1
                    yield left[2 : 2 + size]
                    left = left[2 + size :]

    def ask(self, name: str, wanted: list[str], rdtype: str = "A", *, tcp: bool = False, padding: int = 0) -> bool:
        options = [dns.edns.GenericOption(65001, bytes(padding))] if padding else []
        query = dns.message.make_query(name, rdtype, use_edns=0 if padding else None, payload=1232, request_payload=65535, options=options)
        replies = [dns.message.from_wire(octets) for octets in self.exchange([query.to_wire()], tcp)]
        assert all(query.is_response(reply) for reply in replies)
        return self.judge(query, replies[0] if replies else None, wanted)

    def ask_all(self, asked: list[tuple[str, list[str]]], tcp: bool) -> bool:
        queries = {number: (dns.message.make_query(name, "A", id=number), wanted) for number, (name, wanted) in enumerate(asked, 1)}
        right = 0
        for octets in self.exchange([query.to_wire() for query, _ in queries.values()], tcp):
            reply = dns.message.from_wire(octets)
            query, wanted = queries.pop(reply.id)
            right += self.judge(query, reply, wanted)
        return right == len(asked)

    # ---- steps ----

    def udp(self) -> bool:
        name = self.fresh() + ".up.test."
        return all(
            [
                self.ask("www.hosts.test.", ["192.0.2.1"]),
                self.ask("none.hosts.test.", ["192.0.2.53"]),
                self.ask("web.shop.svc.cluster.local.", ["10.0.0.1"]),
                self.ask("_http._tcp.web.shop.svc.cluster.local.", ["0 100 80 web.shop.svc.cluster.local."], "SRV"),
                self.ask("1.0.0.10.in-addr.arpa.", ["web.shop.svc.cluster.local."], "PTR"),
                self.ask("none.shop.svc.cluster.local.", ["none.", "192.0.2.53"]),
                self.ask("none.svc.cluster.local.", ["NXDOMAIN"]),
                self.ask("db-7.db.shop.svc.cluster.local.", ["10.1.0.7"]),
                self.ask("x.echo.test.", ["192.0.2.77"]),
                self.ask(name, ["192.0.2.53"]),
                self.ask(name, ["192.0.2.53"]),
                self.ask(name + "shop.svc.cluster.local.", [name, "192.0.2.53"]),
            ]
        )

    def tcp(self) -> bool:
        names = [self.fresh() + ".up.test." for _ in range(5)]
        asked = [(name, ["192.0.2.53"]) for name in names] + [("www.hosts.test.", ["192.0.2.1"]), ("x.echo.test.", ["192.0.2.77"])]
        return self.ask_all(asked, tcp=True)

    def burst(self) -> bool:
        """More wait at once than ever before."""
        return self.ask_all([(self.fresh() + ".up.test.", ["192.0.2.53"]) for _ in range(150)], tcp=False)

    def large(self) -> bool:
        """Replies and requests that no fixed buffer holds."""
        texts = sorted(BIG)
        name = self.fresh() + ".up.test."
        return all(
            [
                self.ask(name, texts, "TXT", tcp=True),
                self.ask(name, texts, "TXT", tcp=True),
                self.ask("db.shop.svc.cluster.local.", [f"10.1.0.{i}" for i in range(1, 40)], tcp=True),
                self.ask(self.fresh() + ".up.test.", ["192.0.2.53"], padding=1500),
                self.ask(self.fresh() + ".up.test.", ["192.0.2.53"], padding=6000, tcp=True),
            ]
        )

    def transfer(self) -> bool:
        wanted = {f"extra-{self.version}-{i}.blue.svc" for i in range(30)} | {"web.shop.svc", "version.blue.svc"}
        try:
            messages = dns.query.xfr("127.0.0.1", "cluster.local.", port=self.server.port, timeout=REPLY, lifetime=REPLY)
            zone = dns.zone.from_xfr(messages, check_origin=False)
        except (dns.exception.DNSException, OSError, EOFError):
            return False
        names = {name.to_text() for name in zone.nodes}
        if not wanted <= names:
            raise Wrong(f"the zone lacks {wanted - names}")
        return True

    def metrics(self) -> bool:
        try:
            page = self.server.get(self.server.ports["port2"], "/metrics")
        except (OSError, ValueError):
            return False
        return "coredns_dns_requests_total" in page

    def reload(self) -> bool:
        """Another configuration, or the same one going on, and what the fresh one needs from its first queries on."""
        self.number += 1
        at = len(self.server.log())
        self.server.write(self.corefile())
        self.server.signal(signal.SIGUSR1)
        outcome = self.server.wait_log(r"Reloading complete|Restart failed|Error during parsing", start=at, limit=LIMIT)
        right = [self.udp(), self.tcp()]
        return outcome[0] == "Reloading complete" and all(right)

    def manifests(self) -> bool:
        """The cluster changes; until it is read the former one answers."""
        former, self.version = self.version, self.version + 1
        self.allocations.control.armed, armed = 0, self.allocations.control.armed
        file = self.server.folder / "cluster.new"
        file.write_text(cluster(self.version))
        self.allocations.control.armed = armed
        file.replace(self.server.folder / "cluster.yaml")
        changed = time.monotonic()
        end = time.monotonic() + REPLY
        while time.monotonic() < (min(end, changed + MOMENT) if self.failing() else end):
            for version, index in ((former, 3), (self.version, 29)):
                name = f"extra-{version}-{index}.blue.svc.cluster.local."
                with contextlib.suppress(dns.exception.Timeout, OSError):
                    codes = self.server.answers(name, timeout=1.0)
                    if codes not in ([f"10.9.{version % 250}.{index}"], ["NXDOMAIN"], ["SERVFAIL"]):
                        raise Wrong(f"{name}: {codes}")
            if not self.ask("web.shop.svc.cluster.local.", ["10.0.0.1"]):
                continue
            with contextlib.suppress(Wrong):
                if self.ask("version.blue.svc.cluster.local.", [f"10.200.{self.version // 250}.{self.version % 250}"]):
                    return True
            time.sleep(0.05)
        return False

    # ---- judging ----

    QUERIES = ("udp", "tcp", "burst", "large", "transfer", "metrics")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))

    def resident(self) -> int:
        """Octets."""
        return int(Path(f"/proc/{self.server.process.pid}/statm").read_text().split()[1]) * 4096

    def alive(self) -> None:
        status = self.server.process.poll()
        assert status is None, f"ended with {status}: {self.server.log()[-3000:]}"

    def settle(self, name: str) -> None:
        """There is memory again: the step is right, now or soon."""
        end = time.monotonic() + LIMIT
        while not getattr(self, name)():
            self.alive()
            assert time.monotonic() < end, f"{name} does not recover: {self.server.log()[-3000:]}"

    def without(self, name: str, *, settle: bool = True, **how: int) -> int:
        """A step while allocations fail, and again when they do not. How many failed."""
        self.allocations.arm(**how)
        try:
            getattr(self, name)()
        finally:
            failed = self.allocations.disarm()
        self.alive()
        if settle:
            self.settle(name)
        return failed

    def sites(self, name: str, times: int = 2) -> list[Place]:
        """Where a step allocates when the server has run for some time."""
        for _ in range(times):
            self.settle(name)
        for _ in range(times):
            self.allocations.arm()
            self.settle(name)
            self.allocations.disarm()
        return self.allocations.places()

    def assert_well(self) -> None:
        """Nothing happened that the server did not foresee."""
        self.alive()
        text = self.server.log()
        assert not re.search(r"Traceback|Exception ignored|Unexpected|HTTP:|Sanitizer|nonsense", text), text[-5000:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("allocations")


@pytest.fixture
def allocations(folder: Path) -> Iterator[Allocations]:
    made = Allocations(folder)
    yield made
    made.close()


@pytest.fixture
def upstream() -> Iterator[str]:
    with Upstream(upstream_answer) as running:
        yield running.address


@pytest.fixture
def scenario(serve: Serve, allocations: Allocations, upstream: str) -> Scenario:
    return Scenario(serve, allocations, upstream)


def test_R15_each_allocation_of_a_query_fails(scenario: Scenario) -> None:
    """Each place in turn where queries of all kinds, transfers and the metrics page allocate; then all of them at once."""
    failed: dict[str, int] = {}
    for name in Scenario.QUERIES:
        for place in scenario.sites(name):
            failed[place.name] = failed.get(place.name, 0) + scenario.without(name, only=place.number, fail=ALL)
    before = scenario.descriptors()
    for name in Scenario.QUERIES:
        assert scenario.without(name, fail=ALL) or name in ("udp", "burst")
    assert sum(map(bool, failed.values())) > 8, failed
    assert scenario.descriptors() <= before + 40, "sockets to the upstream come and go"
    scenario.assert_well()


def test_R15_each_allocation_of_a_reload_fails(scenario: Scenario) -> None:
    """The former configuration goes on, or the new one does; the one that leaves is let go in any case."""
    places = scenario.sites("reload", 4)
    assert len(places) > 30
    for how in (1, ALL):
        before = scenario.descriptors()
        for place in places:
            scenario.without("reload", only=place.number, fail=how)
        scenario.settle("reload")
        assert scenario.descriptors() <= before + 40
    scenario.without("reload", fail=ALL)
    scenario.assert_well()


def test_R15_memory_ends_at_each_allocation_since_the_first_query(scenario: Scenario) -> None:
    """What workers allocate once for all: one allocation goes well and all others fail, then two, until none fails."""
    for name in ("udp", "tcp", "transfer", "large"):
        rounds = 0
        while scenario.without(name, skip=rounds, fail=ALL, settle=False):
            rounds += 1
            assert rounds < 100
        scenario.settle(name)
        assert rounds >= 2, name
    scenario.assert_well()


def start_without(serve: Serve, allocations: Allocations, upstream: str, **how: int) -> int:
    """The server says what is wrong and ends, or it serves as it should. Returns how many allocations it was refused."""
    allocations.arm(**how)
    scenario = Scenario(serve, allocations, upstream, wait=False)
    server = scenario.server
    end = time.monotonic() + LIMIT
    while server.process.poll() is None and not STARTED.search(server.log()):
        assert time.monotonic() < end, server.log()
        time.sleep(0.01)
    failed = allocations.disarm()
    if server.process.poll() is None:
        scenario.settle("udp")
        scenario.settle("tcp")
        scenario.settle("reload")
        scenario.assert_well()
    else:
        places = [place.name for place in allocations.places() if place.failed]
        assert server.process.returncode == 1, f"{server.process.returncode} {places}: {server.log()}"
        assert re.search(r"memory|MemoryError|address space", server.log()), server.log()
        assert "Traceback" not in server.log(), server.log()
    server.stop()
    return failed


def start_allocations(serve: Serve, allocations: Allocations, upstream: str) -> int:
    allocations.arm()
    Scenario(serve, allocations, upstream)
    allocations.disarm()
    return allocations.seen


def test_R15_a_start_without_memory(serve: Serve, allocations: Allocations, upstream: str) -> None:
    """Memory ends at the first allocation, somewhere on the way, and just before the end."""
    count = start_allocations(serve, allocations, upstream)
    assert count > 60
    for skip in (0, count // 4):
        assert start_without(serve, allocations, upstream, skip=skip, fail=ALL), skip
    skip = count - 3
    while not start_without(serve, allocations, upstream, skip=skip, fail=ALL):  # how many there are differs from start to start
        skip -= 3
        assert skip > count // 2


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fail", [1, ALL])
def test_R15_each_allocation_of_a_start_fails(serve: Serve, allocations: Allocations, upstream: str, fail: int) -> None:
    for skip in range(start_allocations(serve, allocations, upstream)):
        start_without(serve, allocations, upstream, skip=skip, fail=fail)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fail", [1, 5, ALL])
def test_R15_each_single_allocation_fails(scenario: Scenario, fail: int) -> None:
    """Not by places but one by one, the cluster's changes too; and no failure leaves memory behind."""
    resident = 0
    for turn in range(3):
        for name in (*Scenario.QUERIES, "reload", "manifests"):
            skip = 0
            while scenario.without(name, skip=skip, fail=fail):
                skip += 1
                assert skip < 1000
        if turn == 1:
            resident = scenario.resident()
    assert scenario.resident() - resident < 4 << 20
    scenario.assert_well()


@pytest.fixture
def alone(folder: Path, allocations: Allocations) -> Callable[..., dict[str, Any]]:
    """Runs a module of tests, under allocations.c, in a process of its own; what it prints."""

    def run(module: str, *words: str) -> dict[str, Any]:
        path = os.pathsep.join([str(Path(fastdns.__path__[0]).parent), str(ROOT)])  # of a build of its own, maybe
        command = [sys.executable, "-P", "-m", module, str(folder), *words]
        done = subprocess.run(command, env={**os.environ, **allocations.env(), "PYTHONPATH": path}, capture_output=True, text=True, timeout=110, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        # The log stands there too, and its lines may come between the object and the end of its line.
        found: dict[str, Any] = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index('{"'))[0]
        return found

    return run


@pytest.mark.parametrize("failures", [[ALL], pytest.param([1, 3], marks=pytest.mark.slow)])
def test_R15_each_allocation_of_a_cluster_fails(alone: Callable[..., dict[str, Any]], failures: list[int]) -> None:
    """Lists and watches in both encodings, into a store in a process of its own."""
    found = alone("tests.plugins.kubernetes.without_memory", *map(str, failures))
    assert found["rounds"] > 60, found
    assert found["places"] > 5, found


def test_R15_each_allocation_of_a_version_fails(alone: Callable[..., dict[str, Any]]) -> None:
    """Versions of a cluster's zone: who follows them has its records, by differences or whole."""
    found = alone("tests.plugins.kubernetes.versions_without_memory")
    assert found["met"] > 10, found
    assert found["differences"] > found["met"], found
    assert found["whole"] > 1, found
