"""``fastdns-bench secondaries``: one server of a cluster's zone, and thousands of secondaries that follow it."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastdns._wire import name_wire
from fastdns.bench import measure
from fastdns.bench.fleet.fleet import Fleet
from fastdns.bench.fleet.watched import Watched, waited_ns
from fastdns.bench.fleet.writes import Write, Writer, made_up, put, recorded, surroundings
from fastdns.bench.parts.api import APIServer
from fastdns.bench.parts.cluster import ZONE, A, Cluster
from fastdns.bench.servers import Running, StartError, Work, subject
from fastdns.bench.servers.ports import free_port
from fastdns.bench.workload import WorkloadError
from fastdns.bench.workloads import synthetic

#: Seconds that a fleet may take to have the zone, and to have the last change.
FILL, SETTLE = 900.0, 30.0
#: Shares of the time at which a thread is a limit: the load's at work, and the load's or one of the server's waiting for a CPU. Threads of a server on one CPU
#: wait for each other, too.
BUSY, WAITED, SERVER_WAITED = 0.85, 0.25, 0.5
#: Seconds that a write may be late.
LATE = 0.25
#: Octets of the socket that takes NOTIFY: one for each of 5,000 secondaries and more.
RECEIVE_BUFFER = 16 << 20
FIRST = IPv4Address("127.1.0.1")
#: Every so many secondaries one computes the digest of its records.
CHECKED = 500

COREFILE = """.:{port} {
    {bind}
    errors
    prometheus 127.0.0.1:{http}
    transfer cluster.local {
        to TO
    }
    kubernetes cluster.local {
        endpoint URL
        journal
    }
}
"""


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("secondaries", help="a server with kubernetes and transfer, and secondaries that follow it")
    parser.add_argument("mode", choices=MODES, help="changes go on: all follow them; the server starts again; all begin without the zone")
    parser.add_argument("--count", type=int, default=500, metavar="N", help="secondaries (%(default)s)")
    parser.add_argument("--told", choices=("notify", "poll"), default="notify", help="of a new version: by NOTIFY, or they ask for the SOA (%(default)s)")
    parser.add_argument("--poll", type=float, default=0.5, metavar="S", help="seconds between two such questions (%(default)s)")
    parser.add_argument("--over", choices=("tcp", "tls"), default="tcp", help="(%(default)s)")
    parser.add_argument("--connections", choices=("kept", "new"), default="kept", help="one of each secondary, or one for each question (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="of changes (%(default)s)")
    parser.add_argument("--changes", type=float, default=100, metavar="N", help="written a second (%(default)s)")
    parser.add_argument("--writes", type=Path, metavar="FILE", help="a record of `python -m tests.apiserver.churn`, written again at the same times")
    parser.add_argument("--subject", default="fastdns", metavar="NAME[=PATH]", help="the server (%(default)s)")
    parser.add_argument("--server-cpus", default="", metavar="LIST", help="(the first)")
    parser.add_argument("--load-cpus", default="", metavar="LIST", help="(the others)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    synthetic.add_shape_arguments(parser.add_argument_group("cluster"), 1000)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    try:
        with contextlib.ExitStack() as parts:
            scene = Scene(given, parts)
            found = MODES[given.mode](scene)
    except (OSError, ValueError, StartError) as error:
        print(f"fastdns-bench: {error}", file=sys.stderr)
        return 1
    show(found)
    if given.json is not None:
        measure.write_figures(given.json, found)
    for text in found["void"]:
        print(f"VOID: {text}", file=sys.stderr)
    for text in found["faults"]:
        print(f"FAILED: {text}", file=sys.stderr)
    return int(bool(found["void"] or found["faults"]))


class Scene:
    """API server, server and secondaries, all of them running."""

    def __init__(self, given: argparse.Namespace, parts: contextlib.ExitStack) -> None:
        """Raises OSError, ValueError, StartError and WorkloadError."""
        self.given = given
        server_cpus, self.load_cpus = measure.cpu_sets(given.server_cpus, given.load_cpus)
        self.writes: list[Write] = recorded(given.writes) if given.writes else list(made_up(given.changes, given.seconds))
        cluster = Cluster(synthetic.shape_from(given))
        self.services = cluster.shape.numbers()
        url = parts.enter_context(APIServer(cluster, self.load_cpus)).url
        self.api = urlsplit(url).netloc
        with contextlib.closing(http.client.HTTPConnection(self.api)) as connection:
            for plural, thing in surroundings(self.writes):
                put(connection, plural, thing)
        adapter = subject(given.subject)
        if missing := adapter.missing():
            raise WorkloadError(missing)
        self.notify_port = free_port()
        targets = " ".join(f"{FIRST + i}:{self.notify_port}" for i in range(given.count)) if given.told == "notify" else "*"
        corefile = COREFILE.replace("URL", url).replace("TO", targets)
        if given.over == "tls":
            corefile = corefile.replace(".:{port} {\n", ".:{port} tls://.:{secure} {\n    tls {certificate} {key}\n", 1)
        self.running = parts.enter_context(Running(adapter, Work("zone of a cluster", corefile, (cluster.addresses[0][0], A)), server_cpus))
        with pin(self.load_cpus):
            self.fleet = self.make_fleet()
            self.thread = threading.Thread(target=self._run_fleet, daemon=True)
            self.thread.start()
        parts.callback(self.end)

    def make_fleet(self) -> Fleet:
        given = self.given
        port = self.running.port_of("dot" if given.over == "tls" else "tcp")
        return Fleet(
            count=given.count,
            address=struct.pack("=H", socket.AF_INET) + struct.pack(">H4s8x", port, socket.inet_aton("127.0.0.1")),
            zone=name_wire(ZONE),
            port=self.notify_port,
            notified=given.told == "notify",
            poll=given.poll if given.told == "poll" else 0.0,
            tls=given.over == "tls",
            changes=max((write.number for write in self.writes), default=0) + 1,
            checked=CHECKED,
            receive_buffer=RECEIVE_BUFFER,
            fresh=given.connections == "new",
        )

    def _run_fleet(self) -> None:
        self.thread_id = threading.get_native_id()
        self.fleet.run()

    def waited(self) -> int:
        """ns that the secondaries' thread had no CPU."""
        return waited_ns(os.getpid())[self.thread_id]

    def end(self) -> None:
        self.fleet.stop()
        self.thread.join()

    def wait(self, what: str, seconds: float, until: Callable[[], bool]) -> float:
        """Seconds that it took. Raises WorkloadError when it took longer."""
        began = time.monotonic()
        while not until():
            if time.monotonic() - began > seconds:
                raise WorkloadError(f"{what}: not after {seconds:g} s; {self.state()}")
            self.running.check()
            time.sleep(0.05)
        return time.monotonic() - began

    def fill(self) -> float:
        return self.wait("all have the zone", FILL, lambda: self.fleet.holding == self.given.count)

    def state(self) -> str:
        return f"{self.fleet.holding} hold the zone, {self.fleet.connected} are connected, {self.fleet.counters}"

    @contextlib.contextmanager
    def changing(self) -> Iterator[Writer]:
        """Writes go on from here; in the end all of them are sent. Raises what a write has."""
        writer = Writer(self.api, self.writes, self.fleet.change)
        with pin(self.load_cpus):
            writer.start()
        try:
            yield writer
            writer.join()
            if writer.error is not None:
                raise writer.error
        finally:
            writer.over.set()
            writer.join()

    def settled(self, writer: Writer) -> float:
        """Seconds until all have the last change."""
        return self.wait("all have the last change", SETTLE, lambda: self.fleet.missing(writer.last) == 0)


@contextlib.contextmanager
def pin(cpus: list[int]) -> Iterator[None]:
    """Threads started inside inherit these CPUs."""
    from fastdns.bench.servers.running import pinned

    with pinned(cpus):
        yield


# ---- modes ----


def steady(scene: Scene) -> dict[str, Any]:
    filled = scene.fill()
    time.sleep(1)
    waited = scene.waited()
    scene.fleet.begin()
    with Watched(scene.running.pid) as watched:
        with scene.changing() as writer:
            pass
        settled = scene.settled(writer)
    return figures(scene, watched, writer, waited, {"filled_s": filled, "settled_s": settled})


def fill(scene: Scene) -> dict[str, Any]:
    waited = scene.waited()
    with Watched(scene.running.pid) as watched, scene.changing() as writer:
        filled = scene.fill()
        settled = scene.settled(writer) if not writer.is_alive() else 0.0
        writer.over.set()
    return figures(scene, watched, writer, waited, {"filled_s": filled, "settled_s": settled})


def restart(scene: Scene) -> dict[str, Any]:
    """In the middle of the changes."""
    scene.fill()
    time.sleep(1)
    waited = scene.waited()
    scene.fleet.begin()
    with scene.changing() as writer:
        time.sleep(min(5.0, scene.given.seconds / 4))
        down = scene.running.restart()
        began = time.monotonic()
        with Watched(scene.running.pid) as watched:
            connected = scene.wait("all are connected again", SETTLE, lambda: scene.fleet.connected == scene.given.count)
            known = writer.last
            followed = time.monotonic() - began + scene.wait("all follow again", FILL, lambda: scene.fleet.missing(known) == 0)
            writer.join()
            settled = scene.settled(writer)
    return figures(scene, watched, writer, waited, {"down_s": down, "connected_s": connected, "followed_s": followed, "settled_s": settled})


MODES = {"steady": steady, "restart": restart, "fill": fill}


# ---- what came of it ----


def figures(scene: Scene, watched: Watched, writer: Writer, waited: int, times: dict[str, float]) -> dict[str, Any]:
    """JSON: the figures, what makes them void, and what is wrong with the server."""
    counters = scene.fleet.counters
    latency, first = scene.fleet.latency, scene.fleet.filled
    load = {
        "cpu": counters.pop("cpu") * 1e-9 / watched.seconds,
        "waited": (scene.waited() - waited) * 1e-9 / watched.seconds,
        "server_waited": watched.waited / watched.seconds,
        "longest_round_s": counters.pop("longest") * 1e-9,
        "notify_dropped": measure.queue_drops(scene.notify_port),
        "write_late_s": writer.late,
    }
    return {
        "mode": scene.given.mode,
        "secondaries": scene.given.count,
        "told": scene.given.told,
        "over": scene.given.over,
        "connected": scene.given.connections,
        "cluster": scene.services,
        "writes": len(writer.writes),
        "seconds": watched.seconds,
        "latency_s": {name: latency.percentile(p) for name, p in (("p50", 50), ("p90", 90), ("p99", 99), ("max", 100))},
        "latencies": latency.count,
        "first_s": {name: first.percentile(p) for name, p in (("p50", 50), ("p99", 99), ("max", 100))},
        "cpu": watched.cpu / watched.seconds,
        "rss_mb": watched.rss_mb,
        "peak_mb": measure.memory_peak_mb(scene.running.pid),
        "kernel_mb": watched.kernel_mb,
        "kernel_before_mb": watched.kernel_before,
        "connections": scene.fleet.connected,
        "counters": counters,
        "times": times,
        "load": load,
        "void": list(limits(load)),
        "faults": [f"{counters[name]:,} transfers: {what}" for name, what in FAULTS.items() if counters[name]],
    }


FAULTS = {
    "malformed": "malformed",
    "gaps": "differences that do not follow from the version held",
    "digests": "records without the digest that comes with them",
    "timeouts": "no answer",
}


def limits(load: dict[str, float]) -> Iterator[str]:
    """Why the load, or others on the machine, and not the server, may have set the figures."""
    if load["cpu"] > BUSY:
        yield f"the thread of the secondaries took {load['cpu']:.0%} of a CPU"
    if load["waited"] > WAITED:
        yield f"the thread of the secondaries waited for a CPU for {load['waited']:.0%} of the time"
    if load["server_waited"] > SERVER_WAITED:
        yield f"a thread of the server waited for a CPU for {load['server_waited']:.0%} of the time"
    if load["write_late_s"] > LATE:
        yield f"a write was sent {load['write_late_s']:.2f} s late"
    if load["notify_dropped"]:
        yield f"{load['notify_dropped']:,} NOTIFY found the socket of the secondaries full"


def show(found: dict[str, Any]) -> None:
    load, counters = found["load"], found["counters"]
    print(f"{found['mode']}: {found['secondaries']:,} secondaries over {found['over']}, told by {found['told']}; {found['writes']:,} writes")
    print(f"  latency   {', '.join(f'{name} {value * 1e3:,.0f} ms' for name, value in found['latency_s'].items())} ({found['latencies']:,})")
    print(f"  first     {', '.join(f'{name} {value:,.2f} s' for name, value in found['first_s'].items())}")
    print(f"  times     {', '.join(f'{name} {value:,.2f}' for name, value in found['times'].items())}")
    print(f"  server    {found['cpu']:.2f} CPU for {found['seconds']:.1f} s, {found['rss_mb']:.0f} MB (peak {found['peak_mb']:.0f}), ", end="")
    print(f"kernel {found['kernel_mb']:.1f} MB (before {found['kernel_before_mb']:.1f}), {found['connections']:,} connections")
    print(f"  counted   {', '.join(f'{name} {value:,}' for name, value in counters.items() if value)}")
    print(f"  load      {load['cpu']:.2f} CPU, waited {load['waited']:.2f} (the server {load['server_waited']:.2f}), ", end="")
    print(f"longest round {load['longest_round_s'] * 1e3:.0f} ms, writes up to {load['write_late_s'] * 1e3:.0f} ms late", flush=True)
