"""How long a change takes from the API server's reply to a write until the answer of a server shows it.

    python -m tests.plugins.k8s_gateway.propagation [--routes 5000] [--changes 200] [--alone]

Prints a line for each kind of change: median, 99th percentile and most, in milliseconds. With ``--alone`` what else the machine does has its turn after
all processes that take part (SCHED_RR, as root).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import dns.message
import dns.rdatatype

from tests.plugins.k8s_gateway.cluster import ROOTS, Cluster
from tests.plugins.k8s_gateway.objects import Object, gateway, route, service
from tests.server import Server
from tests.waiting import REPLY, until

#: Routes of the small Gateway.
FEW = 10
#: Seconds between two questions.
PAUSE = 0.0002

#: The object of a change and the part of it that changes; names and the addresses that they get by it.
Change = Callable[[int], tuple[Object, str]]
Shown = Callable[[int], list[tuple[str, str]]]


class Asker:
    """Asks for the address of a name, as fast as a resolver may."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(REPLY)
        self.socket.connect(("127.0.0.1", port))

    def address(self, name: str) -> str:
        self.socket.send(dns.message.make_query(name, "A").to_wire())
        reply = dns.message.from_wire(self.socket.recv(4096))
        return str(reply.answer[0][0]) if reply.answer else ""

    def wait(self, name: str, address: str) -> None:
        """Until the answer is this one."""
        end = time.monotonic() + REPLY
        while self.address(name) != address:
            assert time.monotonic() < end, f"{name} has not become {address}"
            time.sleep(PAUSE)


class Writer:
    """Writes objects over one connection."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.connection = http.client.HTTPConnection(urlsplit(cluster.server.http).netloc, timeout=REPLY)

    def send(self, method: str, path: str, item: Object) -> Object:
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        self.connection.request(method, path, json.dumps(item), {**headers, "Authorization": f"Bearer {self.cluster.server.token}"})
        reply = self.connection.getresponse()
        text = reply.read()
        assert reply.status < 300, f"{method} {path}: {reply.status} {text[:300]!r}"
        found: Object = json.loads(text)
        return found

    def create(self, item: Object) -> None:
        path = self.cluster.path(item)
        self.send("POST", path, item)
        if "status" in item and item["kind"] not in ROOTS:
            self.patch(item, "status")

    def patch(self, item: Object, part: str) -> None:
        """Replace ``spec`` or ``status``."""
        path = f"{self.cluster.path(item)}/{item['metadata']['name']}"
        self.send("PATCH", f"{path}/status" if part == "status" and item["kind"] not in ROOTS else path, {part: item[part]})


@dataclass
class Scene:
    """What is there: Gateways with one, with some and with many routes."""

    routes: int
    cluster: Cluster = field(default_factory=Cluster)

    def fill(self) -> None:
        for plural in ("gateways", "httproutes"):
            self.cluster.install(plural, "v1")
        items = [gateway("a/one", "203.0.113.1"), gateway("a/few", "203.0.113.1"), gateway("a/many", "203.0.113.1"), gateway("a/other", "203.0.113.2")]
        items += [route("a/one", "one.example.org", parents=("one",)), service("a/lb", "192.0.2.1", spec={"clusterIP": "10.96.3.1"})]
        items += [route(f"a/few-{number}", f"few-{number}.example.org", parents=("few",)) for number in range(FEW)]
        items += [route(f"a/many-{number:05}", f"many-{number}.example.org", parents=("many",)) for number in range(self.routes)]
        parts = [items[place::4] for place in range(4)]
        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(self._create, part) for part in parts]:
                done.result()

    def _create(self, items: Sequence[Object]) -> None:
        writer = Writer(self.cluster)
        with closing(writer.connection):
            for item in items:
                writer.create(item)

    def corefile(self) -> str:
        return f".:{{port}} {{\n bind 127.0.0.1\n k8s_gateway example.org {{\n  endpoint {self.cluster.server.http}\n  resources HTTPRoute Service\n }}\n}}\n"

    def changes(self, count: int) -> dict[str, tuple[Change, Shown]]:
        """By what changes: change 1 to ``count`` of it, and what shows it."""
        many = [f"many-{number}.example.org" for number in (0, self.routes // 2, self.routes - 1)]
        few = [f"few-{number}.example.org" for number in (0, FEW - 1)]
        return {
            "a Service": (lambda number: (service("a/lb", address(number)), "status"), become("lb.a.example.org")),
            "a Gateway of one route": (edge("one"), become("one.example.org")),
            f"a Gateway of {FEW} routes": (edge("few"), become(*few)),
            f"a Gateway of {self.routes:,} routes": (edge("many"), become(*many)),
            "a route": (
                lambda number: (route("a/one", "one.example.org", parents=("other" if number % 2 else "one",)), "spec"),
                lambda number: [("one.example.org", "203.0.113.2" if number % 2 else address(count))],
            ),
        }


def edge(name: str) -> Change:
    return lambda number: (gateway(f"a/{name}", address(number)), "status")


def become(*names: str) -> Shown:
    return lambda number: [(name, address(number)) for name in names]


def address(number: int) -> str:
    return f"198.18.{number >> 8 & 255}.{number & 255}"


def measure(scene: Scene, asker: Asker, count: int) -> Iterator[tuple[str, list[float]]]:
    """Seconds of each change, sorted."""
    writer = Writer(scene.cluster)
    with closing(writer.connection):
        for what, (change, shown) in scene.changes(count).items():
            taken = []
            for number in range(1, count + 1):
                writer.patch(*change(number))
                start = time.perf_counter()
                for name, expected in shown(number):
                    asker.wait(name, expected)
                taken.append(time.perf_counter() - start)
            yield what, sorted(taken)
    for number in range(scene.routes):
        assert asker.address(f"many-{number}.example.org") == address(count)


def alone(*processes: int) -> None:
    """Have other processes of the machine wait for these, this one, and their children."""
    waiting = [os.getpid(), *processes]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
            os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))
            waiting += map(int, (task / "children").read_text().split())


@contextmanager
def served(routes: int) -> Iterator[tuple[Scene, Server, Asker]]:
    """A server of the scene."""
    scene = Scene(routes)
    try:
        scene.fill()
        with tempfile.TemporaryDirectory() as folder, Server(Path(folder), scene.corefile()) as server:
            asker = Asker(server.port)
            with closing(asker.socket):
                until(lambda: asker.address(f"many-{routes - 1}.example.org"), "the last route")
                yield scene, server, asker
    finally:
        scene.cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--routes", type=int, default=5_000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    with served(options.routes) as (scene, server, asker):
        if options.alone:
            alone(server.pid)
        for what, taken in measure(scene, asker, options.changes):
            median, late = taken[len(taken) // 2], taken[min(len(taken) - 1, len(taken) * 99 // 100)]
            print(f"{what}: median {median * 1e3:.1f} ms, p99 {late * 1e3:.1f} ms, most {taken[-1] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
