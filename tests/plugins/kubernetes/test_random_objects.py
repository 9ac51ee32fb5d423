"""Random objects of a tenant in the watches of a server, and a victim's names asked beside them: always right, changes within seconds, memory bounded."""

from __future__ import annotations

import os
import queue
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import dns.exception
import pytest

from fastdns.plugins.kubernetes.watch.resources import RESOURCES, Kind
from tests.fuzz.objects import event, octets
from tests.plugins.kubernetes.conftest import chunk, reply, status
from tests.plugins.kubernetes.test_decoders import MESSAGES, frame
from tests.server import Server
from tests.waiting import LIMIT, until

SECONDS = float(os.environ.get("FASTDNS_OBJECTS_SECONDS", "2"))
SEED = int(os.environ.get("FASTDNS_OBJECTS_SEED", "1"))
KINDS = (Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE, Kind.POD)
PATHS = {RESOURCES[kind].path: kind for kind in KINDS}
#: Octets that the process may grow by: the objects of a dozen names, their records, and what is freed late.
MEMORY = 300 << 20

COREFILE = """
cluster.local:{port} {
    kubernetes {
        endpoint URL
        pods verified
    }
}
"""


class Source:
    """The API server's side: lists of the victim's objects, and watches that bring what is put."""

    def __init__(self, protobuf: bool) -> None:
        self.protobuf = protobuf
        self.version = 10
        self.queues: dict[Kind, queue.Queue[bytes]] = {kind: queue.Queue(20) for kind in KINDS}
        self.address = "10.96.0.1"

    def victim(self, kind: Kind) -> list[dict[str, Any]]:
        meta = {"namespace": "victim", "name": "web", "resourceVersion": str(self.version)}
        objects: dict[Kind, list[dict[str, Any]]] = {
            Kind.NAMESPACE: [{"metadata": {"name": name, "resourceVersion": str(self.version)}} for name in ("victim", "evil")],
            Kind.SERVICE: [
                {"metadata": meta, "spec": {"clusterIP": self.address, "clusterIPs": [self.address], "type": "ClusterIP", "ports": []}},
                {"metadata": meta | {"name": "set"}, "spec": {"clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP", "ports": []}},
            ],
            Kind.SLICE: [
                {
                    "metadata": meta | {"name": "set-1", "labels": {"kubernetes.io/service-name": "set"}},
                    "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": True}}],
                    "ports": [],
                }
            ],
            Kind.POD: [{"metadata": meta, "spec": {}, "status": {"podIP": "10.1.0.1"}}],
        }
        return objects[kind]

    def answer(self, path: str, query: dict[str, str]) -> Iterator[Any]:
        kind = PATHS[path]
        if "sendInitialEvents" in query:
            yield reply(status(422), 422)
        elif "watch" not in query:
            yield reply(octets({"metadata": {"resourceVersion": str(self.version)}, "items": self.victim(kind)}))
        else:
            form = "application/vnd.kubernetes.protobuf;stream=watch" if self.protobuf else "application/json"
            yield f"HTTP/1.1 200 OK\r\nContent-Type: {form}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            while True:
                yield chunk(self.queues[kind].get())

    def change(self) -> None:
        """The victim's service gets another address."""
        self.version += 1
        self.address = f"10.96.{self.version // 250 % 250}.{self.version % 250 + 1}"
        changed = self.victim(Kind.SERVICE)[0]
        self.queues[Kind.SERVICE].put(frame("MODIFIED", MESSAGES[Kind.SERVICE](changed)) if self.protobuf else octets({"type": "MODIFIED", "object": changed}))


def asked(server: Server, name: str) -> list[str]:
    try:
        return sorted(record.address for rrset in server.query(name).answer for record in rrset)
    except (dns.exception.Timeout, AttributeError):
        return ["no answer"]


def resident(server: Server) -> int:
    with open(f"/proc/{server.process.pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))


@pytest.mark.timeout(SECONDS + 5 * LIMIT)
@pytest.mark.memory
@pytest.mark.parametrize("protobuf", [False, True], ids=["json", "protobuf"])
def test_a_victim_beside_random_objects(serve: Callable[..., Server], scripted: Any, protobuf: bool) -> None:
    source = Source(protobuf)
    server = serve(COREFILE.replace("URL", scripted(source.answer).url))
    until(lambda: asked(server, "web.victim.svc.cluster.local") == [source.address])
    before = resident(server)
    end = time.monotonic() + SECONDS
    number = 0
    while number == 0 or time.monotonic() < end:
        chance = random.Random(f"{SEED} {protobuf} {number}")
        number += 1
        for _ in range(5):
            kind = chance.choice(KINDS[1:])
            source.version += 1
            source.queues[kind].put(event(chance, kind, source.version, protobuf), timeout=LIMIT)
            assert asked(server, "set.victim.svc.cluster.local") == ["10.1.0.1"], f"round {number} of seed {SEED}:\n{server.log()[-2000:]}"
        source.change()
        until(lambda: asked(server, "web.victim.svc.cluster.local") == [source.address], f"round {number} of seed {SEED}: the victim's change")
        assert resident(server) - before < MEMORY, f"round {number} of seed {SEED}"
    assert "Traceback" not in server.log()
    assert "ended unexpectedly" not in server.log()
