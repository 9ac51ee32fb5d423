"""``python -m tests.cluster.churn STEP DEPLOYMENTS PORT...``: what `simulated` does to its cluster.

It runs on the host of the control plane, where kubectl's proxy is the API server. ``fill`` makes nodes, deployments and services and waits for their
endpoints, ``roll`` replaces the pods of all deployments and measures meanwhile how long a change takes to be in the answers of each DNS server, ``compare``
asks each server for the addresses of all services. Each prints one JSON object.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import random
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.apiserver.client import APIError, Connection

__all__ = ["DEPLOYMENTS", "LIMIT", "addresses_of", "question"]

API = "http://127.0.0.1:8001"
#: By default; each has a node of its own.
DEPLOYMENTS = 1000
NAMESPACES = 50
#: Of each deployment.
PODS_EACH, SERVICES_EACH = 10, 10
WRITERS = 32
#: Seconds until the endpoints are there, and all pods replaced.
LIMIT = 3600.0
#: Seconds between two changes whose way to the answers is timed, and after which one is lost.
EVERY, LOST = 0.25, 30.0
PROBE = "probe"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
#: Of an address of kwok's pods; probes have addresses of their own.
ADDRESSES = ipaddress.ip_network("198.18.0.0/15")

Object = dict[str, Any]


# ---- the API server ----


async def write_all(method: str, writes: Iterable[tuple[str, Object]]) -> None:
    """Paths and objects, by WRITERS connections at a time. Raises APIError."""
    rest = iter(writes)

    async def writer() -> None:
        connection = Connection(API)
        for path, thing in rest:
            await write(connection, method, path, thing)
        connection.close()

    await asyncio.gather(*(writer() for _ in range(WRITERS)))


async def write(connection: Connection, method: str, path: str, thing: Object) -> None:
    """Raises APIError."""
    status, body = await connection.request(method, path, json.dumps(thing).encode())
    if status not in (200, 201):
        raise APIError(status, body.decode(errors="replace"))


async def list_all(path: str) -> list[Object]:
    """Raises APIError."""
    connection = Connection(API)
    found = await connection.get_json(f"{path}?resourceVersion=0")
    connection.close()
    return list(found["items"])


async def wait(condition: Callable[[], Awaitable[str]], every: float) -> float:
    """Seconds until a condition that says what it waits for has nothing to say."""
    began = time.monotonic()
    while missing := await condition():
        print(missing, file=sys.stderr, flush=True)
        assert time.monotonic() < began + LIMIT, missing
        await asyncio.sleep(every)
    return time.monotonic() - began


# ---- objects ----


def namespace_of(number: int) -> str:
    return f"team-{number % NAMESPACES}"


def namespaces(count: int) -> Iterator[tuple[str, Object]]:
    for number in range(min(NAMESPACES, count)):
        yield "/api/v1/namespaces", {"metadata": {"name": namespace_of(number)}}


def nodes(count: int) -> Iterator[tuple[str, Object]]:
    for number in range(count):
        network = f"10.{128 + number // 256}.{number % 256}.0/24"
        yield "/api/v1/nodes", {"metadata": {"name": f"node-{number}"}, "spec": {"podCIDR": network, "podCIDRs": [network]}}


def deployments(count: int) -> Iterator[tuple[str, Object]]:
    """The pods of one are on one node, which they name: no scheduler runs."""
    for number in range(count):
        labels = {"app": f"app-{number}"}
        container = {"name": "main", "image": "main", "ports": [{"containerPort": 8080}]}
        template = {"metadata": {"labels": labels}, "spec": {"nodeName": f"node-{number}", "containers": [container]}}
        spec = {"replicas": PODS_EACH, "selector": {"matchLabels": labels}, "template": template}
        yield f"/apis/apps/v1/namespaces/{namespace_of(number)}/deployments", {"metadata": {"name": f"app-{number}", "labels": labels}, "spec": spec}


def services(count: int) -> Iterator[tuple[str, Object]]:
    """One in ten is headless."""
    for number in range(count):
        for each in range(SERVICES_EACH):
            spec: Object = {"selector": {"app": f"app-{number}"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
            if each == 0:
                spec["clusterIP"] = "None"
            yield f"/api/v1/namespaces/{namespace_of(number)}/services", {"metadata": {"name": f"svc-{number}-{each}"}, "spec": spec}


def probe(address: str) -> Object:
    labels = {"kubernetes.io/service-name": PROBE}
    endpoint = {"addresses": [address], "conditions": {"ready": True}}
    return {"metadata": {"name": PROBE, "labels": labels}, "addressType": "IPv4", "endpoints": [endpoint], "ports": [{"name": "http", "port": 80}]}


# ---- DNS ----


def addresses_of(reply: bytes) -> set[str]:
    """What the A records of an answer have."""
    found = set()
    at = skip_name(reply, 12) + 4
    for _ in range(struct.unpack_from(">H", reply, 6)[0]):
        at = skip_name(reply, at)
        rdtype, length = struct.unpack_from(">H6xH", reply, at)
        at += 10 + length
        if rdtype == 1:
            found.add(str(ipaddress.IPv4Address(reply[at - 4 : at])))
    return found


def skip_name(reply: bytes, at: int) -> int:
    while 0 < reply[at] < 0xC0:
        at += 1 + reply[at]
    return at + (1 if reply[at] == 0 else 2)


def question(number: int, name: str) -> bytes:
    """A query for the IPv4 addresses of a name."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"


class Resolver:
    """One DNS server, asked over UDP from one socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.connect(("127.0.0.1", port))

    async def ask(self, name: str, seconds: float = 1.0) -> set[str]:
        """The IPv4 addresses of a name; raises TimeoutError."""
        number = random.randrange(1 << 16)
        loop = asyncio.get_running_loop()
        self.socket.send(question(number, name))
        async with asyncio.timeout(seconds):
            while (reply := await loop.sock_recv(self.socket, 65535))[:2] != struct.pack(">H", number):
                pass
        return addresses_of(reply)

    async def ask_until(self, name: str, address: str) -> float | None:
        """The time at which the name has the address, or None."""
        deadline = time.monotonic() + LOST
        while time.monotonic() < deadline:
            try:
                if address in await self.ask(name):
                    return time.monotonic()
            except TimeoutError:
                continue
            await asyncio.sleep(0.001)
        return None


# ---- steps ----


async def fill(count: int, ports: Sequence[int]) -> Object:
    began = time.monotonic()
    wanted = count * PODS_EACH * SERVICES_EACH
    for kind in (namespaces, nodes, deployments, services):
        await write_all("POST", kind(count))
        print(f"{kind.__name__} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    spec = {"clusterIP": "None", "ports": [{"name": "http", "port": 80}]}
    await write_all("POST", [("/api/v1/namespaces/default/services", {"metadata": {"name": PROBE}, "spec": spec})])
    await write_all("POST", [("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", probe(str(ADDRESSES[0])))])

    async def missing() -> str:
        found = sum(len(each.get("endpoints") or ()) for each in await list_all(SLICES) if each["metadata"]["namespace"].startswith("team-"))
        return "" if found == wanted else f"{found} of {wanted} endpoints"

    await wait(missing, 10)
    return {"seconds": time.monotonic() - began}


async def roll(count: int, ports: Sequence[int]) -> Object:
    """Propagation is timed until all pods have been replaced."""
    generation = str(random.getrandbits(32))
    changed: list[tuple[str, Object]] = []
    for each in await list_all("/apis/apps/v1/deployments"):
        meta = each["metadata"]
        each["spec"]["template"]["metadata"]["annotations"] = {"generation": generation}
        del meta["resourceVersion"]  # whatever has become of the status
        changed.append((f"/apis/apps/v1/namespaces/{meta['namespace']}/deployments/{meta['name']}", each))
    ended = asyncio.Event()
    times = asyncio.create_task(propagation(ports, ended))
    began = time.monotonic()
    await write_all("PUT", changed)

    async def missing() -> str:
        done = 0
        for each in await list_all("/apis/apps/v1/deployments"):
            status = each["status"]
            counts = {status.get(kind, 0) for kind in ("replicas", "updatedReplicas", "availableReplicas")}
            replaced = each["spec"]["template"]["metadata"].get("annotations") == {"generation": generation}
            done += replaced and counts == {PODS_EACH} and status["observedGeneration"] == each["metadata"]["generation"]
        return "" if done == count else f"{done} of {count} deployments"

    await wait(missing, 5)
    seconds = time.monotonic() - began
    ended.set()
    return {"seconds": seconds, "propagation": await times}


async def propagation(ports: Sequence[int], ended: asyncio.Event) -> list[list[float | None]]:
    """Of each server the seconds from each change's write, which was answered, to the answers that have it; None: it never came."""
    connection = Connection(API)
    resolvers = [Resolver(port) for port in ports]
    found: list[list[float | None]] = [[] for _ in ports]
    number = 0
    while not ended.is_set():
        number += 1
        address = str(ADDRESSES[number])
        written = asyncio.create_task(write(connection, "PUT", f"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{PROBE}", probe(address)))
        seen = [asyncio.create_task(each.ask_until(f"{PROBE}.default.svc.cluster.local", address)) for each in resolvers]
        await written
        answered = time.monotonic()
        for each, task in zip(found, seen, strict=True):
            at = await task
            # An answer may have a change before its writer hears that it is stored.
            each.append(None if at is None else max(at - answered, 0.0))
        await asyncio.sleep(EVERY)
    return found


async def compare(count: int, ports: Sequence[int]) -> Object:
    resolvers = [Resolver(port) for port in ports]
    names = [f"{thing['metadata']['name']}.{path.split('/')[4]}.svc.cluster.local" for path, thing in services(count)]
    different = []
    for name in names:
        answers = [await each.ask(name, 10.0) for each in resolvers]
        if not answers[0] or any(answer != answers[0] for answer in answers):
            different.append(name)
    return {"names": len(names), "different": different}


STEPS = {"fill": fill, "roll": roll, "compare": compare}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(STEPS[sys.argv[1]](int(sys.argv[2]), [int(port) for port in sys.argv[3:]]))))
