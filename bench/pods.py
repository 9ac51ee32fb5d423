"""``fastdns-bench pods``: a server with *kubernetes* in a cluster of a million pods."""

from __future__ import annotations

import argparse
import array
import contextlib
import http.client
import json
import random
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dns.message
import dns.rcode

from fastdns.bench import measure
from fastdns.bench.fleet.watched import Watched
from fastdns.bench.generator.histogram import Histogram
from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.load import drive
from fastdns.bench.parts.cluster import A, questions
from fastdns.bench.parts.numbered import HEADLESS, Numbered, address
from fastdns.bench.parts.numbered_api import Change, NumberedServer
from fastdns.bench.parts.protobuf import CONTENT_TYPE
from fastdns.bench.result import Plan, Result, Target
from fastdns.bench.servers import Running, StartError, Work, subject
from fastdns.bench.servers.running import pinned
from fastdns.bench.workload import WorkloadError

#: Seconds for a server to list everything, and for a change to be answered.
LIST, ANSWER = 600.0, 30.0
#: Seconds for a server to rest after that, and the share of a CPU below which it does.
REST, RESTING = 120.0, 0.02
#: Changes a second whose answer is waited for, and seconds between two questions for one.
SAMPLED, PAUSE = 20, 0.002
#: Services that the load asks for.
ASKED = 10_000

COREFILE = """.:{port} {
    {bind}
    errors
    kubernetes cluster.local {
        endpoint URL
        pods verified
    }
}
"""


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("pods", help="a server with kubernetes in a very large cluster: its list, a second one, changes beside queries")
    parser.add_argument("--pods", type=int, default=1_000_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--services", type=int, default=50_000, metavar="N", help="with ten endpoints each (%(default)s)")
    parser.add_argument("--changes", type=float, default=2000, metavar="N", help="of endpoints and pods, a second (%(default)s)")
    parser.add_argument("--rate", type=float, default=20_000, metavar="N", help="queries a second beside them (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="of queries without, and of queries with changes (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--subject", default="fastdns", metavar="NAME[=PATH]", help="the server (%(default)s)")
    parser.add_argument("--server-cpus", default="", metavar="LIST", help="(the first)")
    parser.add_argument("--load-cpus", default="", metavar="LIST", help="(the others)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    if given.services < HEADLESS or given.pods <= given.services * 10:
        print(f"fastdns-bench: at least {HEADLESS} services, and more than ten pods for each", file=sys.stderr)
        return 2
    try:
        found = figures(given)
    except (OSError, ValueError, StartError) as error:
        print(f"fastdns-bench: {error}", file=sys.stderr)
        return 1
    show(found)
    if given.json is not None:
        measure.write_figures(given.json, found)
    for text in found["faults"]:
        print(f"FAILED: {text}", file=sys.stderr)
    return int(bool(found["faults"]))


def figures(given: argparse.Namespace) -> dict[str, Any]:
    """JSON. Raises OSError, ValueError, StartError and WorkloadError."""
    numbered = Numbered(given.services, given.pods, given.seed)
    adapter = subject(given.subject)
    if missing := adapter.missing():
        raise WorkloadError(missing)
    server_cpus, load_cpus = measure.cpu_sets(given.server_cpus, given.load_cpus)
    with contextlib.ExitStack() as parts:
        api = parts.enter_context(NumberedServer(given.services, given.pods, given.seed, load_cpus))
        fetched = download(api.url)
        last = Change(0, numbered)
        where = address(given.pods - 1, 100).decode()
        probe = f"{where.replace('.', '-')}.{numbered.namespace_of((given.pods - 1) // 10)}.pod.cluster.local."
        work = Work("a large cluster", COREFILE.replace("URL", api.url), (probe, A))
        running = parts.enter_context(Running(adapter, work, server_cpus, limit=LIST))
        wait(running, "the last service is known", lambda: running.answers(service_name(numbered, given.services - 1), A) is not None)
        ready = {
            "seconds": running.ready,
            "cpu_s": measure.cpu_ns(running.pid) * 1e-9,
            "rss_mb": measure.memory_mb(running.pid),
            "peak_mb": measure.memory_peak_mb(running.pid),
        }
        again = relist(api.url, running)
        queries = QuerySet(questions(asked(numbered), given.seed))
        target = Target("127.0.0.1", running.port)
        plan = Plan(seconds=given.seconds, rate=given.rate, warm=2, clients=64, arrivals="poisson", cpus=load_cpus, seed=given.seed)
        with Watched(running.pid) as quiet:
            calm = drive(queries, target, plan)
        with Watched(running.pid) as busy:
            changing, changes = under_changes(given, numbered, api.url, running, lambda: drive(queries, target, plan), load_cpus)
        wrong = [*faults("without changes", calm), *faults("with changes", changing)]
        if changes["missing"]:
            wrong.append(f"{changes['missing']} changes were not answered within {ANSWER:g} s")
        return {
            "server": running.label,
            "cluster": {"services": given.services, "endpoints": given.services * 10, "pods": given.pods, "octets_of_pods": fetched["octets"]},
            "curl": fetched,
            "ready": ready,
            "relist": again,
            "quiet": queried(calm, quiet),
            "changing": {**queried(changing, busy), "changes": changes},
            "last": last.name,
            "faults": wrong,
        }


def service_name(numbered: Numbered, number: int) -> str:
    return f"{numbered.service_name(number)}.{numbered.namespace_of(number)}.svc.cluster.local."


def asked(numbered: Numbered) -> list[tuple[str, IPv4Address]]:
    """Names and addresses of services that have one."""
    usable = [number for number in range(numbered.services) if number % HEADLESS]
    chosen = random.Random(numbered.seed).sample(usable, min(ASKED, len(usable)))
    return [(service_name(numbered, number), IPv4Address(address(number, 200).decode())) for number in chosen]


def download(url: str) -> dict[str, float]:
    """How fast curl takes the list of pods from the API server, which is as fast as anybody could. Raises OSError."""
    program = shutil.which("curl")
    if program is None:
        raise WorkloadError("curl is not installed")
    command = [program, "-sf", "-o", "/dev/null", "-w", "%{size_download} %{time_total}", "-H", f"Accept: {CONTENT_TYPE}", f"{url}/api/v1/pods"]
    octets, seconds = map(float, subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split())
    return {"octets": octets, "seconds": seconds, "mb_s": octets / seconds / 1e6}


def wait(running: Running, what: str, until: Any, limit: float = LIST) -> None:
    """Raises WorkloadError when it takes longer."""
    over = time.monotonic() + limit
    while not until():
        if time.monotonic() > over:
            raise WorkloadError(f"{what}: not after {limit:g} s")
        running.check()
        time.sleep(0.02)


def request(url: str, method: str, path: str) -> bytes:
    with contextlib.closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        connection.request(method, path)
        return connection.getresponse().read()


def relist(url: str, running: Running) -> dict[str, float]:
    """All watches end, and the server lists everything again."""
    before = json.loads(request(url, "GET", "/-/lists"))
    peak, cpu, began = measure.memory_peak_mb(running.pid), measure.cpu_ns(running.pid), time.monotonic()
    request(url, "POST", "/-/expire")
    wait(running, "a second list", lambda: all(now > before[plural] for plural, now in json.loads(request(url, "GET", "/-/lists")).items()))
    seconds = time.monotonic() - began
    rest(running)
    return {
        "seconds": seconds,
        "cpu_s": (measure.cpu_ns(running.pid) - cpu) * 1e-9,
        "rss_mb": measure.memory_mb(running.pid),
        "peak_mb": measure.memory_peak_mb(running.pid),
        "peak_before_mb": peak,
    }


def rest(running: Running) -> None:
    """Waits until it has done what a list leaves to do, such as to collect garbage; not for ever."""
    over = time.monotonic() + REST
    while time.monotonic() < over:
        cpu = measure.cpu_ns(running.pid)
        time.sleep(1)
        if measure.cpu_ns(running.pid) - cpu < RESTING * 1e9:
            return


# ---- changes beside queries ----


def under_changes(given: argparse.Namespace, numbered: Numbered, url: str, running: Running, load: Any, cpus: list[int]) -> tuple[Result, dict[str, Any]]:
    """The load while things change, and how long changes took from right before the API server sent them to their answer."""
    prober = Prober(given, numbered, running.port)
    start = int(request(url, "POST", f"/-/changes?rate={given.changes}&seconds={given.seconds + 2}")) * 1e-9
    with pinned(cpus):
        prober.begin(start)
        result = load()
        prober.thread.join()
    times = array.array("q", request(url, "GET", "/-/changes"))
    latency = {plural: Histogram() for plural in ("endpointslices", "pods")}
    for change, seen in prober.seen.items():
        latency["pods" if change % 2 else "endpointslices"].record(max(0.0, seen - times[change] * 1e-9))
    behind = [ns * 1e-9 - start - number / given.changes for number, ns in enumerate(times)]
    return result, {
        "written": len(times),
        "rate": len(times) / (times[-1] * 1e-9 - start),
        "written_late_s": max(behind),
        "missing": prober.missing,
        **{f"{plural}_s": {name: found.percentile(p) for name, p in (("p50", 50), ("p99", 99), ("max", 100))} for plural, found in latency.items()},
        "sampled": sum(found.count for found in latency.values()),
    }


class Prober:
    """Asks for some of the changes from when they are due until they are answered."""

    def __init__(self, given: argparse.Namespace, numbered: Numbered, port: int) -> None:
        self.rate = given.changes
        step = max(1, round(given.changes / SAMPLED))
        step += step % 2 == 0  # both kinds in turn
        self.wanted = [Change(number, numbered) for number in range(step, round(given.changes * given.seconds), step)]
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        #: When the answer came, by change (`time.monotonic`).
        self.seen: dict[int, float] = {}
        self.missing = 0

    def begin(self, start: float) -> None:
        self.thread = threading.Thread(target=self._run, args=(start,), daemon=True)
        self.thread.start()

    def _run(self, start: float) -> None:
        waiting = iter(self.wanted)
        following = next(waiting, None)
        under_way: dict[int, tuple[Change, bytes]] = {}
        with contextlib.closing(self.socket):
            while under_way or following is not None:
                now = time.monotonic()
                while following is not None and start + following.number / self.rate <= now:
                    ident = following.number & 0xFFFF
                    under_way[ident] = following, dns.message.make_query(following.name, "A", id=ident).to_wire()
                    following = next(waiting, None)
                for ident, (change, query) in list(under_way.items()):
                    if now > start + change.number / self.rate + ANSWER:
                        self.missing += 1
                        del under_way[ident]
                    else:
                        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
                            self.socket.send(query)
                for ident in self._answered(under_way, now + PAUSE):
                    del under_way[ident]

    def _answered(self, under_way: dict[int, tuple[Change, bytes]], until: float) -> Iterator[int]:
        while (left := until - time.monotonic()) > 0:
            if not select.select([self.socket], [], [], left)[0]:
                return
            try:
                reply = self.socket.recv(65535)
            except (BlockingIOError, ConnectionRefusedError):
                continue
            now, ident = time.monotonic(), int.from_bytes(reply[:2], "big")
            if ident in under_way and under_way[ident][0].number not in self.seen and IPv4Address(under_way[ident][0].address).packed in reply:
                self.seen[under_way[ident][0].number] = now
                yield ident


def faults(when: str, result: Result) -> Iterator[str]:
    if result.lost or result.wrongs:
        yield f"{when}: {result.lost} of {result.sent} queries were lost, {result.wrongs} replies were wrong"


def queried(result: Result, watched: Watched) -> dict[str, Any]:
    return {
        "rate": result.rate,
        "lost": result.lost,
        "latency_s": {name: result.latency.percentile(p) for name, p in (("p50", 50), ("p99", 99), ("p99.9", 99.9))},
        "cpu": watched.cpu / watched.seconds,
        "rss_mb": watched.rss_mb,
        "waited": watched.waited / watched.seconds,
    }


def show(found: dict[str, Any]) -> None:
    cluster, ready, again = found["cluster"], found["ready"], found["relist"]
    count = cluster["pods"]
    print(
        f"{found['server']}: {cluster['services']:,} services, {cluster['endpoints']:,} endpoints, {count:,} pods ({cluster['octets_of_pods'] / 1e6:,.0f} MB)"
    )
    print(f"  curl      {found['curl']['seconds']:.2f} s, {found['curl']['mb_s']:,.0f} MB/s")
    print(f"  ready     {ready['seconds']:.2f} s, {ready['cpu_s']:.2f} CPU s ({ready['cpu_s'] / count * 1e6:.2f} us a pod), ", end="")
    print(f"{ready['rss_mb']:,.0f} MB (peak {ready['peak_mb']:,.0f})")
    print(f"  relist    {again['seconds']:.2f} s, {again['cpu_s']:.2f} CPU s, {again['rss_mb']:,.0f} MB (peak {again['peak_mb']:,.0f})")
    for name in ("quiet", "changing"):
        one = found[name]
        latency = ", ".join(f"{percentile} {seconds * 1e3:.2f} ms" for percentile, seconds in one["latency_s"].items())
        print(f"  {name:<9} {one['rate']:,.0f} queries/s, {latency}, {one['cpu']:.2f} CPU, {one['rss_mb']:,.0f} MB, waited {one['waited']:.0%}")
    changes = found["changing"]["changes"]
    print(f"  changes   {changes['rate']:,.0f} a second, up to {changes['written_late_s'] * 1e3:.0f} ms late; of {changes['sampled']:,}:", end="")
    for plural in ("endpointslices", "pods"):
        print(f" {plural} {', '.join(f'{name} {value * 1e3:.1f} ms' for name, value in changes[f'{plural}_s'].items())};", end="")
    print(flush=True)
