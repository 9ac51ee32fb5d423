"""``fastdns-bench replica``: a node's copy of a large cluster, and how long a restart from disk takes."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fastdns._wire import name_wire
from fastdns.bench import measure
from fastdns.bench.parts.cluster import A
from fastdns.bench.parts.numbered import HEADLESS, Numbered
from fastdns.bench.parts.numbered_api import NumberedServer
from fastdns.bench.pods import service_name
from fastdns.bench.servers import Running, StartError, Work, subject
from fastdns.bench.servers.adapter import Adapter, Listen
from fastdns.bench.servers.ports import free_port
from fastdns.bench.workload import WorkloadError

#: Seconds for a server to have everything, for a file to be written, and from an answer to the reading of memory.
LIST, WRITTEN, REST = 600.0, 120.0, 3.0
#: Seconds between two questions to a server that is starting.
PAUSE = 0.001

CENTRE = """.:{port} {
    {bind}
    errors
    transfer ZONE {
        to *
    }
    kubernetes cluster.local {
        endpoint URL
        PODS
        OFFER
    }
}
"""
REPLICA = """.:{port} {
    {bind}
    debug
    errors
    secondary ZONE {
        transfer from 127.0.0.1:CENTRE
        store STORE
        stale serve 2s
    }
    FOLLOW
}
"""
FOLLOW = """kubernetes cluster.local {
        replica objects.cluster.local
        PODS
    }"""
RECEIVED = re.compile(r"Received (\d+) octets of \S+, and published them, in (\d+) ms")
READ = re.compile(r"Read (\d+) records of \S+ in (\d+) ms")
TOOK = re.compile(r"Took (\d+) objects of \S+ in (\d+) ms")

#: Parts of the first start's time.
PARTS = {"transfer_s": "for the transfer until it is published", "took_s": "to take its objects"}


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("replica", help="a secondary, or a replica, of a large cluster: first transfer, restarts from disk, memory")
    parser.add_argument("mode", choices=("records", "objects"), help="the zone of records, or that of objects and kubernetes with `replica`")
    parser.add_argument("--services", type=int, default=10_000, metavar="N", help="with ten endpoints each (%(default)s)")
    parser.add_argument("--pods", type=int, default=0, metavar="N", help="in the zone of objects; more than there are endpoints, 0: none (%(default)s)")
    parser.add_argument("--restarts", type=int, default=10, metavar="N", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--subject", default="fastdns", metavar="NAME[=PATH]", help="the server (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    if given.services < HEADLESS or (given.pods and (given.mode == "records" or given.pods <= given.services * 10)):
        print(f"fastdns-bench: at least {HEADLESS} services, and pods only of objects and more than ten for each service", file=sys.stderr)
        return 2
    try:
        found = figures(given)
    except (OSError, ValueError, StartError) as error:
        print(f"fastdns-bench: {error}", file=sys.stderr)
        return 1
    show(found)
    if given.json is not None:
        measure.write_figures(given.json, found)
    return 0


def figures(given: argparse.Namespace) -> dict[str, Any]:
    """JSON. Raises OSError, ValueError, StartError and WorkloadError."""
    numbered = Numbered(given.services, max(given.pods, given.services * 10 + 1), given.seed)
    adapter = subject(given.subject)
    if missing := adapter.missing():
        raise WorkloadError(missing)
    objects = given.mode == "objects"
    pods = "pods verified" if given.pods else "pods insecure"
    zone = "objects.cluster.local" if objects else "cluster.local"
    last = service_name(numbered, given.services - 1)
    with contextlib.ExitStack() as parts:
        api = parts.enter_context(NumberedServer(given.services, numbered.pods, given.seed))
        text = CENTRE.replace("URL", api.url).replace("ZONE", zone).replace("PODS", pods).replace("OFFER", f"objects {zone}" if objects else "journal")
        centre = Running(adapter, Work("a large cluster", text, (last, A)), [], limit=LIST)
        try:
            folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="fastdns-bench-replica-")))
            node = Node(adapter, folder, text_of(zone, objects, pods, centre.port, folder), last, zone)
            try:
                first = node.start()
                wait_until_written(node)
            finally:
                node.kill()
        finally:
            centre.stop()
        octets = node.file.stat().st_size
        restarts = [node.restart() for _ in range(given.restarts)]
        node.file.rename(folder / "away")
        empty = [node.restart(any_reply=True) for _ in range(given.restarts)]
        return {
            "server": adapter.label,
            "mode": given.mode,
            "cluster": {"services": given.services, "endpoints": given.services * 10, "pods": given.pods},
            "octets": octets,
            "first": first,
            "restarts": restarts,
            "empty": empty,
            "python": [timed([sys.executable, "-I", "-c", ""]) for _ in range(given.restarts)],
        }


def text_of(zone: str, objects: bool, pods: str, port: int, folder: Path) -> str:
    text = REPLICA.replace("ZONE", zone).replace("CENTRE", str(port)).replace("STORE", str(folder / "store"))
    return text.replace("FOLLOW", FOLLOW.replace("PODS", pods) if objects else "")


class Node:
    """The server of a node."""

    def __init__(self, adapter: Adapter, folder: Path, corefile: str, name: str, zone: str) -> None:
        (folder / "store").mkdir()
        self.folder, self.port, self.environment = folder, free_port(), {**os.environ, **adapter.environment()}
        self.file = folder / "store" / f"db.{zone}"
        self.command = adapter.command(Work("a node", corefile, (name, A)), Listen(self.port), folder)
        self.question = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + name_wire(name) + struct.pack(">HH", A, 1)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, any_reply: bool = False) -> dict[str, float]:
        """Until the first answer that has a record, or (``any_reply``) the first reply."""
        log = self.folder / "log"
        with log.open("wb") as output:
            began = time.monotonic()
            self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT, env=self.environment)
        while not self._answers(any_reply):
            if self.process.poll() is not None or time.monotonic() - began > LIST:
                raise StartError(f"no answer:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(PAUSE)
        found = {"s": time.monotonic() - began, "cpu_s": measure.cpu_ns(self.process.pid) * 1e-9}
        if not any_reply:
            time.sleep(REST)
            found |= {"rss_mb": measure.memory_mb(self.process.pid), "peak_mb": measure.memory_peak_mb(self.process.pid)}
            for name, pattern in (("transfer_s", RECEIVED), ("read_s", READ), ("took_s", TOOK)):
                if line := pattern.search(log.read_text(errors="replace")):
                    found[name] = int(line[2]) * 1e-3
        return found

    def _answers(self, any_reply: bool) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.connect(("127.0.0.1", self.port))
            one.settimeout(0.005)
            try:
                one.send(self.question)
                reply = one.recv(65535)
            except OSError:
                return False
        return any_reply or (reply[3] & 15 == 0 and reply[6:8] != b"\0\0")

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def restart(self, any_reply: bool = False) -> dict[str, float]:
        try:
            return self.start(any_reply)
        finally:
            self.kill()


def wait_until_written(node: Node) -> None:
    """Raises WorkloadError."""
    over, size = time.monotonic() + WRITTEN, -1
    while not node.file.exists() or node.file.stat().st_size != size:
        size = node.file.stat().st_size if node.file.exists() else -1
        if time.monotonic() > over:
            raise WorkloadError(f"nothing was written for {WRITTEN:g} s")
        time.sleep(1)


def timed(command: list[str]) -> dict[str, float]:
    began = time.monotonic()
    subprocess.run(command, check=True)
    return {"s": time.monotonic() - began}


def show(found: dict[str, Any]) -> None:
    cluster, first = found["cluster"], found["first"]
    print(f"{found['server']}, {found['mode']}: {cluster['services']:,} services, {cluster['endpoints']:,} endpoints, {cluster['pods']:,} pods")
    print(f"  first     {first['s']:.2f} s from the start to an answer, {first['rss_mb']:.0f} MB (peak {first['peak_mb']:.0f})")
    print(f"  of that   {', '.join(f'{first[key]:.2f} s {text}' for key, text in PARTS.items() if key in first)}")
    print(f"  on disk   {found['octets'] / 1e6:.1f} MB")
    for name in ("restarts", "empty", "python"):
        print(f"  {name:<9} {', '.join(f'{key} {text}' for key, text in summary(found[name]))}")


def summary(runs: list[dict[str, float]]) -> list[tuple[str, str]]:
    """Of each figure the least and the median."""
    out = []
    for key in runs[0]:
        values = [run[key] for run in runs if key in run]
        unit, scale = ("MB", 1.0) if key.endswith("_mb") else ("ms", 1e3)
        out.append((key.removesuffix("_s") if key != "s" else "time", f"{min(values) * scale:.0f} to {statistics.median(values) * scale:.0f} {unit}"))
    return out
