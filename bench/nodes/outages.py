"""What nodes answer while others are away."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from typing import Any

from fastdns.bench import measure
from fastdns.bench.nodes.changes import question
from fastdns.bench.nodes.link import Link
from fastdns.bench.nodes.ways import kill
from fastdns.bench.servers import Running
from fastdns.bench.workload import WorkloadError

__all__ = ["OUTAGES", "Scene", "outages", "share"]

#: Who is away: the cluster's DNS, the API server, and both while the server of the node starts again.
OUTAGES = {"centre": ("centre",), "api": ("api",), "both": ("centre", "api"), "restart": ("centre", "api", "node")}
#: Seconds from the beginning of an outage to the first questions, as long as clients wait for answers, and until all are well again.
SOON, PATIENCE, WELL = 1.0, 5.0, 180.0
#: Seconds beyond the last questions in which a server that starts again is waited for.
START = 10.0
#: So many questions follow each other at once, and seconds until the next ones: sockets have small buffers.
BURST, PAUSE = 10, 0.002

Names = Sequence[tuple[str, IPv4Address]]


def share(port: int, names: Names, patience: float = PATIENCE) -> float:
    """Of the names those that are answered rightly in time."""
    wanted = dict(enumerate(names))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        for ident, (name, _) in wanted.items():
            with contextlib.suppress(OSError):  # nobody listens
                sock.send(question(ident, name))
            if ident % BURST == BURST - 1:
                time.sleep(PAUSE)
        right, over = 0, time.monotonic() + patience
        while wanted and select.select([sock], [], [], max(0.0, over - time.monotonic()))[0]:
            try:
                reply = sock.recv(4096)
            except OSError:
                continue
            ident = int.from_bytes(reply[:2], "big")
            if ident in wanted:
                right += reply[3] & 15 == 0 and wanted.pop(ident)[1].packed in reply
    return right / len(names)


class Scene:
    """Servers of nodes by the name of their way, servers of the cluster, and who of all has a link to the API server."""

    def __init__(self, nodes: Mapping[str, Running], centres: Iterable[Running], links: Iterable[Link]) -> None:
        self.nodes, self.centres, self.links = dict(nodes), list(centres), list(links)

    def away(self, who: Sequence[str]) -> None:
        if "api" in who:
            for link in self.links:
                link.cut()
        for running in [*(self.centres if "centre" in who else []), *(self.nodes.values() if "node" in who else [])]:
            kill(running)
        if "node" in who:
            for running in self.nodes.values():
                running.start()

    def back(self, who: Sequence[str]) -> None:
        if "api" in who:
            for link in self.links:
                link.mend()
        if "centre" in who:
            for running in self.centres:
                running.start()


def outages(scene: Scene, names: Sequence[tuple[Names, Names]], later: float, well: Callable[[str], None]) -> dict[str, Any]:
    """By outage and way, a second after its beginning (`soon`) and ``later`` seconds after it: the shares of names that are answered.

    ``names``: for each outage those that are asked for right before it, and others that nobody asks for. Of a server that starts again `first` is when
    it answered first. ``well`` waits until a name that nobody has asked for is answered by all. Raises WorkloadError.
    """
    found: dict[str, Any] = {}
    with ThreadPoolExecutor(len(scene.nodes)) as pool:
        for (outage, who), (asked, others) in zip(OUTAGES.items(), names, strict=True):
            for name, running in scene.nodes.items():
                prepare(outage, name, running.port, asked)
            began = time.monotonic()
            scene.away(who)
            found[outage] = {name: {} for name in scene.nodes}
            firsts = {name: pool.submit(first, running, asked[:1], began, later + START) for name, running in scene.nodes.items()} if "node" in who else {}
            for when, after in (("soon", SOON), ("later", later)):
                time.sleep(max(0.0, began + after - time.monotonic()))
                for name, (known, unknown) in at_once(scene.nodes, asked, others).items():
                    found[outage][name][when] = {"asked": known, "others": unknown}
            for name, job in firsts.items():
                found[outage][name]["first"] = job.result()
            scene.back(who)
            well(outage)
    return found


def prepare(outage: str, name: str, port: int, asked: Names) -> None:
    """Asks for names until all are answered. Raises WorkloadError."""
    over = time.monotonic() + WELL
    while share(port, asked) < 1:
        if time.monotonic() > over:
            raise WorkloadError(f"{name} does not answer all names before the outage {outage!r}")


def first(running: Running, names: Names, began: float, limit: float) -> dict[str, float] | None:
    """Seconds to the first answer, and the CPU until then; None if there is none in time."""
    while (now := time.monotonic() - began) < limit:
        if share(running.port, names, 0.05):
            return {"s": now, "cpu_s": measure.cpu_ns(running.pid) * 1e-9}
        time.sleep(PAUSE)
    return None


def at_once(nodes: Mapping[str, Running], asked: Names, others: Names) -> dict[str, tuple[float, float]]:
    """All nodes at the same time: who waits for the answers of one does not make the others late."""
    with ThreadPoolExecutor(2 * len(nodes)) as pool:
        jobs = {name: [pool.submit(share, running.port, names) for names in (asked, others)] for name, running in nodes.items()}
        return {name: (known.result(), unknown.result()) for name, (known, unknown) in jobs.items()}
