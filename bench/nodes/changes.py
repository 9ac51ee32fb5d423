"""Changes of a cluster, and how long after each of them a node's answer is the old one."""

from __future__ import annotations

import contextlib
import heapq
import http.client
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from fastdns._wire import name_wire
from fastdns.bench.nodes.api import send
from fastdns.bench.parts.cluster import A, Object

__all__ = ["KINDS", "NAMESPACE", "Change", "Prober", "Writer", "before", "changes"]

NAMESPACE = "fastdns-bench-nodes"
#: What happens: a Service is made, the endpoint of a headless Service gets another address, a Service is deleted.
KINDS = ("new", "changed", "deleted")
#: Of services, of endpoints before, and after a change. The first are of the API server's range.
SERVICES, OLD, NEW = IPv4Address("10.110.0.0"), IPv4Address("198.18.0.0"), IPv4Address("198.19.0.0")
#: Seconds between two questions for a name before its change, for so long after it, and from then on.
QUIET, SOON, OFTEN, LATER = 0.5, 2.0, 0.01, 0.1
NXDOMAIN = 3


@dataclass(frozen=True, slots=True)
class Change:
    number: int
    kind: str
    #: Seconds after the first one.
    due: float

    @property
    def service(self) -> str:
        return f"{self.kind}-{self.number}"

    @property
    def name(self) -> str:
        return f"{self.service}.{NAMESPACE}.svc.cluster.local."

    @property
    def address(self) -> IPv4Address:
        """That of the answer afterwards, or for a deleted Service before."""
        return (NEW if self.kind == "changed" else SERVICES) + self.number + 1

    def write(self) -> tuple[str, str, Object]:
        """Method, plural and object."""
        if self.kind == "changed":
            return "PUT", "endpointslices", endpoints(self.service, self.address)
        return ("POST" if self.kind == "new" else "DELETE"), "services", service(self.service, str(self.address))

    def is_new(self, reply: bytes) -> bool:
        """Whether an answer is that after the change."""
        rcode = reply[3] & 15
        return rcode == NXDOMAIN if self.kind == "deleted" else not rcode and self.address.packed in reply


def changes(count: int, seconds: float, seed: int) -> list[Change]:
    """So many of each kind, mixed, in equal distances."""
    kinds = [kind for kind in KINDS for _ in range(count)]
    random.Random(seed).shuffle(kinds)
    return [Change(number, kind, number * seconds / len(kinds)) for number, kind in enumerate(kinds)]


def before(made: Sequence[Change]) -> Iterator[tuple[str, Object]]:
    """Plurals and objects that are there before the changes."""
    yield "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for change in made:
        if change.kind == "deleted":
            yield "services", service(change.service, str(change.address))
        elif change.kind == "changed":
            yield "services", service(change.service, "None")
            yield "endpointslices", endpoints(change.service, OLD + change.number + 1)


def service(name: str, address: str) -> Object:
    spec = {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def endpoints(name: str, address: IPv4Address) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-0", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [str(address)], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }


def question(ident: int, name: str) -> bytes:
    return struct.pack(">HHHHHH", ident, 0x100, 1, 0, 0, 0) + name_wire(name) + struct.pack(">HH", A, 1)


class Writer(threading.Thread):
    """Writes the changes when they are due."""

    def __init__(self, connection: http.client.HTTPConnection, made: Sequence[Change], start: float) -> None:
        super().__init__(daemon=True)
        self.connection, self.made, self.start_time = connection, made, start
        #: When the write was sent (`time.monotonic`), by number.
        self.sent: dict[int, float] = {}
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with contextlib.closing(self.connection):
                for change in self.made:
                    time.sleep(max(0.0, self.start_time + change.due - time.monotonic()))
                    method, plural, thing = change.write()
                    self.sent[change.number] = time.monotonic()
                    send(self.connection, method, plural, thing)
        except Exception as error:  # the thread that waits for it raises it
            self.error = error


def pause(left: float) -> float:
    """Seconds until a name is asked for again that changes in ``left`` seconds, or has changed."""
    if left > 0:
        return max(OFTEN, min(QUIET, left))
    return OFTEN if -left < SOON else LATER


class Prober:
    """Asks nodes for the names of changes, from before a change until each node has answered it."""

    def __init__(self, made: Sequence[Change], ports: Sequence[int], seed: int) -> None:
        self.made, self.ports = made, ports
        self.random = random.Random(seed)
        self.questions = [question(change.number, change.name) for change in made]
        #: Seconds from the write to the first new answer, by node and change.
        self.seen: list[dict[int, float]] = [{} for _ in ports]
        #: Questions and replies in all, and replies that were neither of the two answers.
        self.asked = self.replies = self.failures = 0

    def run(self, writer: Writer, warm: float, limit: float) -> None:
        """From ``warm`` seconds before the first change until ``limit`` seconds after the last one. Raises what the writer has."""
        began = time.monotonic()
        # Names begin at random times, so that what caches have of them has every age when it changes.
        waiting = [(began + self.random.uniform(0, warm), node, change.number) for node in range(len(self.ports)) for change in self.made]
        heapq.heapify(waiting)
        over = writer.start_time + self.made[-1].due + limit
        with contextlib.ExitStack() as parts:
            self.sockets = [parts.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in self.ports]
            for sock, port in zip(self.sockets, self.ports, strict=True):
                sock.connect(("127.0.0.1", port))
                sock.setblocking(False)
            poll = select.poll()
            nodes = {sock.fileno(): node for node, sock in enumerate(self.sockets)}
            for fd in nodes:
                poll.register(fd, select.POLLIN)
            while waiting and (now := time.monotonic()) < over:
                while waiting and waiting[0][0] <= now:
                    _, node, number = heapq.heappop(waiting)
                    if number not in self.seen[node]:
                        self._ask(node, number)
                        due = writer.start_time + self.made[number].due
                        heapq.heappush(waiting, (now + pause(due - now), node, number))
                for fd, _ in poll.poll(max(0.0, waiting[0][0] - now) * 1e3 if waiting else 0):
                    self._take(nodes[fd], writer.sent)
                if writer.error is not None:
                    raise writer.error

    def _ask(self, node: int, number: int) -> None:
        with contextlib.suppress(OSError):
            self.sockets[node].send(self.questions[number])
            self.asked += 1

    def _take(self, node: int, sent: dict[int, float]) -> None:
        while True:
            try:
                reply = self.sockets[node].recv(4096)
            except OSError:
                return
            now, number = time.monotonic(), int.from_bytes(reply[:2], "big")
            self.replies += 1
            self.failures += reply[3] & 15 not in (0, NXDOMAIN)
            if number in sent and number not in self.seen[node] and self.made[number].is_new(reply):
                self.seen[node][number] = now - sent[number]

    def found(self, node: int) -> dict[str, Any]:
        """By kind: seconds of each change that was answered, sorted, and how many were not."""
        out = {}
        for kind in KINDS:
            of_kind = [change for change in self.made if change.kind == kind]
            seconds = sorted(self.seen[node][change.number] for change in of_kind if change.number in self.seen[node])
            out[kind] = {"s": seconds, "missing": len(of_kind) - len(seconds)}
        return out
