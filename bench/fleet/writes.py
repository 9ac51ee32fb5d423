"""Changes of endpoints for an API server: made up, or recorded from a real one and written again."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from fastdns.bench.parts.api import KINDS
from fastdns.bench.workload import WorkloadError

__all__ = ["BASE", "Write", "Writer", "made_up", "put", "recorded", "surroundings"]

#: The address of change 0; that of change N is N after it.
BASE = IPv4Address("198.18.0.0")
#: Of what is made up.
NAMESPACE = "fastdns-bench"
SLICES, ENDPOINTS = 200, 5
#: Seconds for a request.
REPLY = 60.0

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Write:
    """One endpoint of a slice gets a new address."""

    #: Seconds since the first one.
    due: float
    #: Of the change.
    number: int
    #: The change whose address it replaces; -1: another address.
    replaced: int
    #: The slice.
    object: Object


def made_up(rate: float, seconds: float) -> Iterator[Write]:
    """Slices in turn, and in turn each of their endpoints."""
    addresses = [[f"10.200.{i}.{k + 1}" for k in range(ENDPOINTS)] for i in range(SLICES)]
    for number in range(1, round(rate * seconds) + 1):
        i, k = number % SLICES, number // SLICES % ENDPOINTS
        addresses[i][k] = str(BASE + number)
        yield Write((number - 1) / rate, number, max(-1, number - SLICES * ENDPOINTS) or -1, endpoint_slice(i, addresses[i]))


def endpoint_slice(i: int, addresses: Sequence[str]) -> Object:
    name = f"changing-{i:03d}"
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-0", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}, "hostname": f"{name}-{k}"} for k, address in enumerate(addresses)],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }


def recorded(path: Path) -> list[Write]:
    """What `python -m tests.apiserver.churn` has written down, at the same distances in time. Raises WorkloadError."""
    found: list[Write] = []
    first = 0.0
    try:
        for line in path.read_text().splitlines():
            one = json.loads(line)
            first = first or one["sent"]
            old, new = (int(IPv4Address(one[key])) - int(BASE) for key in ("old", "new"))
            found.append(Write(one["sent"] - first, new, old if old >= 0 else -1, one["object"]))
    except (OSError, ValueError, KeyError) as error:
        raise WorkloadError(f"{path}: not a record of changes with IPv4 addresses: {error}") from None
    if not found or min(write.number for write in found) < 1 or max(write.number for write in found) > 1 << 17:
        raise WorkloadError(f"{path}: no changes with addresses from {BASE + 1} on")
    return sorted(found, key=lambda write: write.due)


def surroundings(writes: Iterable[Write]) -> Iterator[tuple[str, Object]]:
    """Namespaces and headless services of the slices, with their plurals, each once."""
    seen: set[tuple[str, str]] = set()
    for write in writes:
        meta = write.object["metadata"]
        namespace, name = meta["namespace"], meta["labels"]["kubernetes.io/service-name"]
        if ("", namespace) not in seen:
            seen.add(("", namespace))
            yield "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        if (namespace, name) not in seen:
            seen.add((namespace, name))
            spec = {"clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP", "ports": write.object["ports"]}
            yield "services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def put(connection: http.client.HTTPConnection, plural: str, thing: Object) -> None:
    """Makes or replaces an object. Raises OSError."""
    meta = thing["metadata"]
    namespace = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    connection.request("PUT", f"{KINDS[plural][0]}{namespace}/{plural}/{meta['name']}", json.dumps(thing), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    text = reply.read()
    if reply.status >= 300:
        raise OSError(f"PUT {plural}/{meta['name']}: {reply.status}: {text[:200]!r}")


class Writer(threading.Thread):
    """Sends writes to an API server when they are due."""

    def __init__(self, address: str, writes: Sequence[Write], told: Callable[[int, int], object]) -> None:
        """``told`` is called with number and replaced number right before each write."""
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection(address, timeout=REPLY)
        self.writes = writes
        self.told = told
        #: The last change written.
        self.last = 0
        #: Seconds that a write was sent after it was due, at most.
        self.late = 0.0
        self.error: Exception | None = None
        self.over = threading.Event()

    def run(self) -> None:
        start = time.monotonic()
        try:
            for write in self.writes:
                if self.over.wait(max(0.0, start + write.due - time.monotonic())):
                    return
                self.late = max(self.late, time.monotonic() - start - write.due)
                self.told(write.number, write.replaced)
                put(self.connection, "endpointslices", write.object)
                self.last = max(self.last, write.number)
        except Exception as error:  # the thread that waits for it raises it
            self.error = error
        finally:
            self.connection.close()
