"""R19: everything at once, for as long as one likes: ``python -m tests.soak MINUTES`` (``make soak MINUTES=60``).

A server with two workers has a paced load over UDP; a second client asks everything else, over UDP and TCP, in good and in broken messages; the cluster's
endpoints change, the configuration is replaced, two upstreams fail in turn and together. Each answer has its truth: addresses tell of which
configuration or cluster they are, and never go back. Samples of memory, descriptors, threads and the metrics page are taken all the while.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.zone

from fastdns.testing import Upstream
from tests.load import Load
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    log . {
        class error
    }
    prometheus 127.0.0.1:{port2}
    loadbalance
    transfer {
        to *
    }
    hosts {
        NUMBER www.example.org
        ttl 1
        fallthrough
    }
    kubernetes cluster.local 10.in-addr.arpa {
        manifests {dir}/cluster.jsonl
        fallthrough 10.in-addr.arpa
    }
    plugin {dir}/echo.py
    cache 5 {
        success 2000
        denial 500
        prefetch 3 1m 50%
    }
    forward . UPSTREAMS {
        health_check 200ms
    }
}
"""

OTHER = "other.test:{port3} {\n    bind 127.0.0.1\n    whoami\n}\n"

PLUGIN = """
from fastdns.plugin import Plugin

class Echo(Plugin):
    zones = ["echo.test."]

    async def serve(self, query, next):
        return query.reply("A 192.0.2.77")

def setup(controller):
    return Echo()
"""

#: Services of the cluster, each with endpoints of which some change every second.
SERVICES = 200
CHANGES = 100
#: Octets that the server may grow by from the middle of the run to its end, beside 2 % of what it has.
GROWTH = 3 << 20
#: Entries that the two halves of the cache may have: capacities are rounded down to a multiple of 256, and are at least 1024.
ENTRIES = 1792 + 1024
#: Seconds that upstreams are silent, and answer again.
OUTAGE = 4.0
#: Seconds after which one that answers again is known to.
AFTERMATH = 2.0
#: Seconds that this process may stand still before upstreams count as silent.
STALL = 0.5
#: Share of questions that may be excused. Both upstreams are silent for a sixth of the time, in which few questions end.
EXCUSED = 0.02


def address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def number_of(text: str) -> int:
    return int.from_bytes(socket.inet_aton(text)[1:], "big")


class Cluster:
    """A file of objects, and what has been in it: the address of a service tells when it was last changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.versions = [1] * SERVICES
        #: Of each service, the newest that was seen in an answer.
        self.seen = [0] * SERVICES
        self.turn = itertools.cycle(range(SERVICES))
        self.write()

    def write(self) -> None:
        objects: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}]
        for i, version in enumerate(self.versions):
            name = f"s{i}"
            metadata = {"name": name, "namespace": "shop"}
            ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
            objects.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIPs": ["None"], "ports": ports}})
            endpoints = [{"addresses": [address(version)], "hostname": "newest", "conditions": {"ready": True}}]
            endpoints += [{"addresses": [f"172.16.{i % 250}.{j}"], "conditions": {"ready": True}} for j in range(1, 4)]
            labels = {"kubernetes.io/service-name": name}
            objects.append(
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {**metadata, "name": f"{name}-1", "labels": labels},
                    "addressType": "IPv4",
                    "endpoints": endpoints,
                    "ports": ports,
                }
            )
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(map(json.dumps, objects)) + "\n")
        new.replace(self.path)

    def change(self) -> None:
        for i in itertools.islice(self.turn, CHANGES):
            self.versions[i] += 1
        self.write()


class Upstreams:
    """Two, of which one at a time is silent, then both, then none."""

    def __init__(self) -> None:
        self.silent = [False, False]
        self.both_since = self.both_until = 0.0
        self.stalls = Stalls()
        self.servers = [Upstream(lambda query, i=i: self.answer(query, i)) for i in range(2)]  # type: ignore[misc]

    def answer(self, query: dns.message.Message, which: int) -> dns.message.Message | None:
        # A run of days has no room for them, and Python looks through what is kept again and again while everybody waits.
        self.servers[which].seen.clear()
        if self.silent[which]:
            return None
        question = query.question[0]
        reply = dns.message.make_response(query, recursion_available=True)
        first = question.name.labels[0]  # any octets: broken questions come here too
        if first.startswith(b"no"):
            reply.set_rcode(dns.rcode.NXDOMAIN)
            reply.authority.append(dns.rrset.from_text("up.test.", 3, "IN", "SOA", "ns.up.test. admin.up.test. 1 2 3 4 3"))
        elif question.rdtype == dns.rdatatype.TXT:
            reply.answer.append(dns.rrset.from_text(question.name, 3, "IN", "TXT", *[f'"{i} {"x" * 200}"' for i in range(40)]))
        elif question.rdtype == dns.rdatatype.A and re.fullmatch(rb"a\d{1,8}", first):
            reply.answer.append(dns.rrset.from_text(question.name, 3, "IN", "A", address(int(first[1:]))))
        return reply

    def turn(self, phase: int) -> None:
        was = all(self.silent)
        self.silent = [[False, False], [True, False], [False, False], [False, True], [False, False], [True, True]][phase % 6]
        if all(self.silent):
            self.both_since, self.both_until = time.monotonic(), float("inf")
        elif was:
            self.both_until = time.monotonic()

    def excused(self, begun: float) -> bool:
        """Whether a question that began then may have met both upstreams silent, or probes that did not know better yet."""
        return (begun < self.both_until + AFTERMATH and time.monotonic() > self.both_since) or self.stalls.last > begun - AFTERMATH


class Stalls(threading.Thread):
    """When this process, and with it both upstreams, last stood still for longer than a probe waits: another one had the processor."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.last = float("-inf")
        self.going = True
        self.start()

    def run(self) -> None:
        before = time.monotonic()
        while self.going:
            time.sleep(0.02)
            now = time.monotonic()
            if now - before > STALL:
                self.last = now
            before = now


@dataclass
class Findings:
    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Asker(threading.Thread):
    """Asks what the paced load does not, one question after the other."""

    def __init__(self, server: Server, cluster: Cluster, upstreams: Upstreams, seed: int) -> None:
        super().__init__(daemon=True)
        self.server, self.cluster, self.upstreams = server, cluster, upstreams
        self.luck = random.Random(seed)
        self.found = Findings()
        self.going = True
        self.start()

    def run(self) -> None:
        kinds: list[Callable[[], bool | None]] = [self.endpoint, self.forwarded, self.denied, self.echo, self.large, self.transfer, self.broken, self.pipelined]
        weights = [30, 30, 20, 10, 3, 1, 10, 5]
        while self.going:
            (ask,) = self.luck.choices(kinds, weights)
            begun = time.monotonic()
            self.found.asked[ask.__name__] += 1
            try:
                right = ask()
            except (OSError, EOFError, dns.exception.DNSException) as error:
                right = False
                self.note(ask.__name__, begun, f"{type(error).__name__}: {error}")
                continue
            if right is False:
                self.note(ask.__name__, begun, "SERVFAIL")
            time.sleep(0.001)

    def note(self, what: str, begun: float, why: str) -> None:
        if what in ("forwarded", "denied", "large", "pipelined") and self.upstreams.excused(begun):
            self.found.excused[what] += 1
        else:
            self.found.failed[f"{what}: {why}"] += 1

    def ask(self, name: str, rdtype: str = "A", tcp: bool = False) -> dns.message.Message | None:
        """None for SERVFAIL."""
        reply = self.server.query(name, rdtype, tcp=tcp, use_edns=0, payload=1232)
        return None if reply.rcode() == dns.rcode.SERVFAIL else reply

    def judge(self, right: bool, text: str) -> bool:
        if not right:
            self.found.wrong.append(text)
        return True

    # ---- what is asked ----

    def endpoint(self) -> bool:
        i = self.luck.randrange(SERVICES)
        oldest = self.cluster.seen[i]
        reply = self.ask(f"newest.s{i}.shop.svc.cluster.local.", tcp=self.luck.random() < 0.2)
        if reply is None:
            return False
        found = [rdata.to_text() for rrset in reply.answer for rdata in rrset]
        version = number_of(found[0]) if len(found) == 1 else -1
        self.cluster.seen[i] = max(self.cluster.seen[i], version)
        return self.judge(oldest <= version <= self.cluster.versions[i], f"s{i}: {found}, {oldest} to {self.cluster.versions[i]} wanted")

    def forwarded(self) -> bool:
        # Some are popular, so that the cache has them; the others push one another out of it.
        number = self.luck.randrange(100) if self.luck.random() < 0.5 else self.luck.randrange(1 << 24)
        reply = self.ask(f"a{number}.up.test.", tcp=self.luck.random() < 0.2)
        if reply is None:
            return False
        found = [rdata.to_text() for rrset in reply.answer for rdata in rrset]
        return self.judge(found == [address(number)], f"a{number}: {found}")

    def denied(self) -> bool:
        reply = self.ask(f"no{self.luck.randrange(1 << 30)}.up.test.")
        return reply is not None and self.judge(reply.rcode() == dns.rcode.NXDOMAIN, f"denied: {reply}")

    def echo(self) -> bool:
        reply = self.ask("x.echo.test.")
        return reply is not None and self.judge(reply.answer[0][0].to_text() == "192.0.2.77", f"echo: {reply}")

    def large(self) -> bool:
        reply = self.ask(f"t{self.luck.randrange(100)}.up.test.", "TXT", tcp=True)
        return reply is not None and self.judge(len(reply.answer[0]) == 40, "large")

    def transfer(self) -> bool:
        messages = dns.query.xfr("127.0.0.1", "cluster.local.", port=self.server.port, timeout=REPLY, lifetime=LIMIT)
        zone = dns.zone.from_xfr(messages, check_origin=False)
        return self.judge(len(zone.nodes) > 2 * SERVICES, f"a transfer of {len(zone.nodes)} names")

    def broken(self) -> None:
        """Over UDP and TCP; that nobody else suffers is what counts."""
        packet = bytearray(dns.message.make_query("www.example.org.", "A", use_edns=0).to_wire())
        for _ in range(self.luck.randrange(1, 5)):
            packet[self.luck.randrange(len(packet))] = self.luck.randrange(256)
        tcp = self.luck.random() < 0.5
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", self.server.port))
            sock.send(struct.pack("!H", len(packet)) + packet if tcp else packet)

    def pipelined(self) -> bool:
        numbers = [self.luck.randrange(1000) for _ in range(20)]
        with socket.create_connection(("127.0.0.1", self.server.port), REPLY) as sock:
            for key, number in enumerate(numbers):
                wire = dns.message.make_query(f"a{number}.up.test.", "A", id=key).to_wire()
                sock.sendall(struct.pack("!H", len(wire)) + wire)
            stream = sock.makefile("rb")
            for _ in numbers:
                head = stream.read(2)
                if len(head) < 2:
                    raise EOFError("the connection ended before the last reply")
                reply = dns.message.from_wire(stream.read(int.from_bytes(head, "big")))
                if reply.rcode() == dns.rcode.SERVFAIL:
                    return False
                self.judge(bool(reply.answer) and reply.answer[0][0].to_text() == address(numbers[reply.id]), f"pipelined: {reply}")
        return True


Page = dict[str, float]


def page(server: Server) -> Page:
    """The metrics, summed over their labels."""
    sums: Page = Counter()
    for line in server.get(server.ports["port2"], "/metrics").splitlines():
        if not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            sums[sample.partition("{")[0]] += float(value)
    return sums


@dataclass
class Sample:
    memory: int
    descriptors: int
    threads: int
    page: Page


def sample(server: Server) -> Sample:
    return Sample(server.memory(), server.descriptors(), server.threads(), page(server))


#: Counters that say nothing about the server, or of whose parts a reload makes some anew.
MAY_FALL = re.compile(
    r"process_|python_|go_|fastdns_index_|.*(_bytes|_entries|_objects|_info|_enabled|_queries|_slots|_connections|_records|_timestamp_seconds)$"
)


def check(server: Server, samples: list[Sample], askers: list[Asker], loads: list[dict[str, Any]], reloads: int) -> dict[str, Any]:
    """The whole story as figures. Raises AssertionError where something is not as it has to be."""
    until(lambda: page(server)["fastdns_parked_queries"] == 0 and page(server)["fastdns_tcp_connections"] == 0, "rest")
    last = sample(server)
    found = Findings()
    for asker in askers:
        found.asked += asker.found.asked
        found.failed += asker.found.failed
        found.excused += asker.found.excused
        found.wrong += asker.found.wrong
    half = samples[len(samples) // 2 :]
    quarter = max(1, len(half) // 2)
    memory = [median(one.memory for one in part) for part in (half[:quarter], half[-quarter:])]
    report = {
        "asked": dict(found.asked),
        "failed": dict(found.failed),
        "while both upstreams were silent or stood still": dict(found.excused),
        "wrong": found.wrong[:5],
        "reloads": reloads,
        "load": {key: sum(load[key] for load in loads) for key in ("sent", "lost", "drops", "wrong")},
        "p99 of the first and last load, us": [loads[0].get("p99"), loads[-1].get("p99")],
        "memory in the middle and at the end, KiB": [round(octets / 1024) for octets in memory],
        "descriptors": [samples[0].descriptors, last.descriptors],
        "threads at the start, in the middle and at the end": [samples[0].threads, half[0].threads, last.threads],
        "requests": last.page["coredns_dns_requests_total"],
    }
    text = json.dumps(report, indent=1)
    assert not found.wrong, text
    assert not found.failed, text
    assert found.excused.total() <= EXCUSED * found.asked.total(), text
    assert all(load["wrong"] == 0 and load["lost"] <= load["drops"] for load in loads), text
    assert memory[1] <= memory[0] * 1.02 + GROWTH, text
    # Some begin with the first transfer, or the first query that wants them.
    assert last.threads <= half[0].threads + 1, text
    # Sockets to upstreams come and go: sixteen for each worker and upstream, and as many that wait for late replies.
    assert last.descriptors <= samples[0].descriptors + 4 * 16, text
    for earlier, later in itertools.pairwise([one.page for one in samples] + [last.page]):
        fallen = {name: (value, later[name]) for name, value in earlier.items() if later[name] < value and not MAY_FALL.match(name)}
        assert not fallen, fallen
    for names in (
        ("coredns_dns_requests_total", "coredns_dns_responses_total", "coredns_dns_request_duration_seconds_count", "coredns_dns_request_size_bytes_count"),
        ("coredns_cache_requests_total", "coredns_cache_hits_total+coredns_cache_misses_total"),
    ):
        values = {name: sum(last.page[part] for part in name.split("+")) for name in names}
        assert len(set(values.values())) == 1, values
    assert last.page["coredns_dns_requests_total"] >= sum(load["sent"] - load["lost"] for load in loads) + sum(found.asked.values()) * 0.8
    assert last.page["coredns_cache_entries"] <= ENTRIES, text
    for name in ("coredns_panics_total", "fastdns_plugin_errors_total", "fastdns_plugin_deadlines_total", "fastdns_log_lines_dropped_total"):
        assert last.page[name] == 0, name
    assert not re.search(r"Traceback|Exception|Unexpected|defect|Sanitizer", server.log()), server.log()[-3000:]
    return report


def soak(folder: Path, seconds: float, *, rate: int = 2000, window: int = 0, reload_every: float = 5.0) -> dict[str, Any]:
    """Runs everything for so long; the figures. Raises AssertionError."""
    (folder / "echo.py").write_text(PLUGIN)
    cluster, upstreams, generations = Cluster(folder / "cluster.jsonl"), Upstreams(), itertools.count(1)
    samples: list[Sample] = []
    loads: list[dict[str, Any]] = []

    def corefile() -> str:
        number = next(generations)
        filled = COREFILE.replace("NUMBER", address(number)).replace("UPSTREAMS", " ".join(one.address for one in upstreams.servers))
        return filled + (OTHER if number % 2 else "")

    with upstreams.servers[0], upstreams.servers[1], Server(folder, corefile(), "-workers", "2") as server:
        server.reload(corefile())
        askers = [Asker(server, cluster, upstreams, seed) for seed in range(2)]
        end = time.monotonic() + seconds
        due = dict.fromkeys(("change", "reload", "outage", "sample"), time.monotonic() + 1.0)
        phase = reloads = 0
        # One after the other, so that the first and the last can be compared.
        spell = max(5.0, seconds / 8)
        load, over = Load(server.port, rate, spell + LIMIT, window=window), time.monotonic() + spell
        while (now := time.monotonic()) < end:
            if now >= due["change"]:
                cluster.change()
                due["change"] = now + 1.0
            if now >= due["reload"]:
                server.reload(corefile())
                reloads += 1
                due["reload"] = now + reload_every
            if now >= due["outage"]:
                phase += 1
                upstreams.turn(phase)
                due["outage"] = now + OUTAGE
            if now >= due["sample"]:
                samples.append(sample(server))
                due["sample"] = now + max(1.0, seconds / 600)
            if now >= over and end - now > spell:
                loads.append(load.result())
                load, over = Load(server.port, rate, spell + LIMIT, window=window), now + spell
            time.sleep(0.02)
        loads.append(load.result())
        upstreams.turn(0)
        for asker in askers:
            asker.going = False
        for asker in askers:
            asker.join(LIMIT)
        upstreams.stalls.going = False
        cluster.change()
        until(lambda: server.answers("newest.s0.shop.svc.cluster.local.") == [address(cluster.versions[0])], "the last change of the cluster")
        report = check(server, samples, askers, loads, reloads)
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
        return report


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps(soak(Path(temporary), float(sys.argv[1]) * 60, reload_every=60.0 if float(sys.argv[1]) > 10 else 5.0), indent=1))
