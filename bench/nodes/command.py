"""``fastdns-bench nodes``: what a node's answers cost, how old they are, and what is left of them when others are away."""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from fastdns.bench import measure
from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.load import LoadError, drive
from fastdns.bench.nodes.api import APIServer, find_programs, send
from fastdns.bench.nodes.changes import KINDS, NAMESPACE, Prober, Writer, before, changes, service
from fastdns.bench.nodes.link import Link
from fastdns.bench.nodes.outages import OUTAGES, Names, Scene, outages, share
from fastdns.bench.nodes.ways import CENTRES, Way, centre_adapter, ways
from fastdns.bench.parts.cluster import A, Cluster, questions
from fastdns.bench.report.nodes import p99
from fastdns.bench.result import Plan, Target
from fastdns.bench.servers import Adapter, Running, StartError, Work
from fastdns.bench.servers.ports import free_port
from fastdns.bench.workload import WorkloadError
from fastdns.bench.workloads.synthetic import Shape

#: Seconds for a server to have everything, for a change after the last one beyond the TTL, and until memory is read.
LIST, BEYOND, REST = 300.0, 15.0, 3.0
#: Addresses of services that are made between outages.
WELL = IPv4Address("10.111.0.0")
#: Sets of names: one, and two for each outage.
SETS = 1 + 2 * len(OUTAGES)
PARTS = ("staleness", "cpu", "outages")


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("nodes", help="ways of answering on a node, on a real API server: age of answers, CPU, memory, outages")
    parser.add_argument("--services", type=int, default=2000, metavar="N", help="(%(default)s)")
    parser.add_argument("--endpoints", type=int, default=20_000, metavar="N", help="of all of them (%(default)s)")
    parser.add_argument("--coredns", default="", metavar="PATH", help="CoreDNS; without it there are only the ways of fastdns")
    parser.add_argument("--node-cache", default="", metavar="PATH", help="the program of NodeLocal DNSCache; needs --coredns")
    parser.add_argument("--api-programs", type=Path, metavar="FOLDER", help="with apiserver and etcd (what `python -m tests.apiserver` has built)")
    parser.add_argument("--changes", type=int, default=100, metavar="N", help="of each kind (%(default)s)")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="in which they happen (%(default)s)")
    parser.add_argument("--ttl", type=int, default=30, metavar="S", help="of answers (%(default)s)")
    parser.add_argument("--rate", type=float, default=5000, metavar="N", help="queries a second while CPU is measured (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of such loads, for each way in turn (%(default)s)")
    parser.add_argument("--round-seconds", type=float, default=5, metavar="S", help="(%(default)s)")
    parser.add_argument("--names", type=int, default=200, metavar="N", help="that are asked for in an outage (%(default)s)")
    parser.add_argument("--later", type=float, default=40, metavar="S", help="of an outage until they are asked for again (%(default)s)")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=f"{', '.join(PARTS)} (all); memory and load are always measured")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    if given.services < SETS * given.names or min(given.changes, given.rounds, given.names) < 1 or (given.node_cache and not given.coredns):
        print(f"fastdns-bench: {SETS} services for each of --names, at least one of each number, and --node-cache only with --coredns", file=sys.stderr)
        return 2
    try:
        found = figures(given)
    except (OSError, ValueError, StartError, LoadError) as error:
        print(f"fastdns-bench: {error}", file=sys.stderr)
        return 1
    show(found)
    if given.json is not None:
        measure.write_figures(given.json, found)
    return 0


def figures(given: argparse.Namespace) -> dict[str, Any]:
    """JSON. Raises OSError, ValueError, StartError, LoadError and WorkloadError."""
    parts = given.only or PARTS
    compared = ways(given.coredns, given.node_cache)
    for way in compared:
        for adapter in (way.node, *([centre_adapter(way.centre, given.coredns)] if way.centre else [])):
            if missing := adapter.missing():
                raise WorkloadError(missing)
    with contextlib.ExitStack() as stack:
        bench = Bench(given, compared, stack)
        found: dict[str, Any] = {
            "cluster": {"services": given.services, "endpoints": given.endpoints},
            "conditions": {"ttl": given.ttl, "changes": given.changes, "rate": given.rate, "names": given.names, "later": given.later},
            "ways": {way.name: {"title": way.title, "hops": way.hops} for way in compared},
        }
        if "staleness" in parts:
            found["probes"] = bench.staleness(found["ways"])
        if "cpu" in parts:
            bench.cpu(found["ways"])
        else:
            for port in bench.ports():
                share(port, bench.asked)
        time.sleep(REST)
        for name, running in bench.nodes.items():
            found["ways"][name]["rss_mb"] = measure.memory_mb(running.pid)
        found["api"] = bench.load
        if "outages" in parts:
            found["outages"] = bench.outages()
        found["load_average"] = os.getloadavg()
        return found


class Bench:
    """The API server, and all servers of nodes and of the cluster beside each other, so that each change and each outage is one for all."""

    def __init__(self, given: argparse.Namespace, compared: list[Way], stack: contextlib.ExitStack) -> None:
        self.given, self.compared = given, compared
        cluster = Cluster(Shape(services=given.services, endpoints=given.endpoints, pods=0, seed=given.seed))
        addresses = cluster.addresses[-given.services :]
        #: Names that are asked for all the time, and for each outage two times as many that nobody has asked for.
        self.asked, *rest = [addresses[i * given.names : (i + 1) * given.names] for i in range(SETS)]
        self.others: list[tuple[Names, Names]] = list(zip(rest[::2], rest[1::2], strict=True))
        self.changes = changes(given.changes, given.seconds, given.seed)
        self.api = stack.enter_context(
            APIServer(find_programs(given.api_programs), Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fastdns-bench-nodes-"))))
        )
        # The API server makes its own Service `kubernetes`.
        objects = [(plural, thing) for plural, thing in cluster.objects() if thing["metadata"]["name"] != "kubernetes"]
        self.api.fill([(plural, thing) for plural, thing in objects if plural == "namespaces"])
        self.api.fill([(plural, thing) for plural, thing in objects if plural != "namespaces"])
        for one in before(self.changes):
            self.api.fill([one])
        self.links: dict[str, Link] = {}
        self.load: dict[str, dict[str, float]] = {}
        self.centres = {
            name: self._start(stack, f"{name}, the cluster's DNS", centre_adapter(name, given.coredns), CENTRES[name])
            for name in sorted({way.centre for way in compared if way.centre})
        }
        self.nodes: dict[str, Running] = {}
        for way in compared:
            if way.centre:
                corefile = way.corefile.replace("CENTRE", str(self.centres[way.centre].port))
                self.nodes[way.name] = self._run(stack, way.node, corefile)
            else:
                self.nodes[way.name] = self._start(stack, way.title, way.node, way.corefile)

    def ports(self) -> list[int]:
        return [running.port for running in self.nodes.values()]

    def _run(self, stack: contextlib.ExitStack, adapter: Adapter, corefile: str) -> Running:
        text = corefile.replace("TTL", str(self.given.ttl)).replace("OBJECTS", str(free_port()))
        return stack.enter_context(Running(adapter, Work("a node", text, (self.asked[-1][0], A)), [], limit=LIST))

    def _start(self, stack: contextlib.ExitStack, name: str, adapter: Adapter, corefile: str) -> Running:
        """A server that watches the API server: how many watches, and how much it reads until it has everything."""
        link = self.links[name] = stack.enter_context(Link(self.api.port))
        watches = self.api.watches()
        running = self._run(stack, adapter, corefile.replace("URL", f"http://127.0.0.1:{link.port}"))
        time.sleep(REST)
        self.load[name] = {"watches": self.api.watches() - watches, "octets": link.octets}
        return running

    def staleness(self, found: dict[str, Any]) -> dict[str, int]:
        """Questions and replies of the prober."""
        given = self.given
        warm = given.ttl + 2.0
        writer = Writer(self.api.connect(), self.changes, time.monotonic() + warm)
        prober = Prober(self.changes, self.ports(), given.seed)
        octets = {name: link.octets for name, link in self.links.items()}
        writer.start()
        prober.run(writer, given.ttl, given.ttl + BEYOND)
        writer.join()
        for node, name in enumerate(self.nodes):
            found[name]["staleness"] = prober.found(node)
        for name, link in self.links.items():
            self.load[name]["octets_per_change"] = (link.octets - octets[name]) / len(self.changes)
        return {"asked": prober.asked, "replies": prober.replies, "failures": prober.failures}

    def cpu(self, found: dict[str, Any]) -> None:
        """CPU per answer, of names that are asked for all the time."""
        given = self.given
        queries = QuerySet(questions(list(self.asked), given.seed))
        taken: dict[str, list[float]] = {name: [] for name in self.nodes}
        for number in range(given.rounds + 1):
            for name, running in self.nodes.items():
                plan = Plan(seconds=given.round_seconds if number else 1, rate=given.rate, clients=16, arrivals="poisson", seed=given.seed + number)
                cpu = measure.cpu_ns(running.pid)
                result = drive(queries, Target("127.0.0.1", running.port), plan)
                if number and result.answered:
                    taken[name].append((measure.cpu_ns(running.pid) - cpu) / result.answered * 1e-3)
                found[name]["lost"] = found[name].get("lost", 0) + (result.lost if number else 0)
        for name, values in taken.items():
            found[name]["cpu_us"] = values

    def outages(self) -> dict[str, Any]:
        scene = Scene(self.nodes, self.centres.values(), self.links.values())
        return outages(scene, self.others, self.given.later, self._well)

    def _well(self, outage: str) -> None:
        """Waits until all answer the name of a new Service. Raises WorkloadError."""
        made = service(f"well-{outage}", str(WELL + len(outage)))
        with contextlib.closing(self.api.connect()) as connection:
            send(connection, "POST", "services", made)
        name = f"well-{outage}.{NAMESPACE}.svc.cluster.local."
        over = time.monotonic() + LIST
        for way, running in self.nodes.items():
            while not running.answers(name, A):
                if time.monotonic() > over:
                    raise WorkloadError(f"{way} does not answer again after the outage {outage!r}:\n{running.output()}")
                time.sleep(0.2)


def show(found: dict[str, Any]) -> None:
    cluster = found["cluster"]
    print(f"{cluster['services']:,} services, {cluster['endpoints']:,} endpoints; load average {', '.join(f'{one:.1f}' for one in found['load_average'])}")
    for name, way in found["ways"].items():
        print(f"{way['title']}: {way['rss_mb']:.0f} MB", end="")
        if cpu := way.get("cpu_us"):
            print(f", {statistics.median(cpu):.1f} us ({min(cpu):.1f} to {max(cpu):.1f}) an answer, {way['lost']} lost", end="")
        print()
        for kind in KINDS if "staleness" in way else ():
            one = way["staleness"][kind]
            print(f"  {kind:<8} {seconds(one['s'])}" + f", {one['missing']} not answered" * bool(one["missing"]))
        for outage, of_all in found.get("outages", {}).items():
            one = of_all[name]
            shares = [f"{when} {one[when]['asked']:.0%} of names asked before, {one[when]['others']:.0%} of others" for when in ("soon", "later")]
            if "first" in one:
                shares.append(f"first answer after {one['first']['s']:.2f} s and {one['first']['cpu_s']:.2f} s of CPU" if one["first"] else "no answer")
            print(f"  {outage:<8} {'; '.join(shares)}")
    for name, load in found["api"].items():
        more = f", {load['octets_per_change']:,.0f} octets a change" if "octets_per_change" in load else ""
        print(f"API server, {name}: {load['watches']:.0f} watches, {load['octets'] / 1e6:.2f} MB until ready{more}")
    sys.stdout.flush()


def seconds(values: list[float]) -> str:
    if not values:
        return "none"
    return ", ".join(f"{name} {value:.3f} s" for name, value in (("median", statistics.median(values)), ("p99", p99(values)), ("max", values[-1])))
