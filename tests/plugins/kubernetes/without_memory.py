"""Memory ends while a store is filled: ``python -m tests.plugins.kubernetes.without_memory FOLDER FAILURES...``, under allocations.c of that folder.

Objects come as the API server sends them, as a list and a watch, in JSON and in protobuf. Each allocation fails in its turn, alone or with all that
follow. What the store holds then must be right as far as it goes, and going on from where the stream says must end in the truth.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fastdns._wire import name_wire
from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.plugins.kubernetes.decode.stream import JSON, PROTOBUF, Stream
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.objects import Object, namespace, pod, service, slice_of
from tests.plugins.kubernetes.test_decoders import MESSAGES, frame, message, wrap
from tests.robustness.allocations import Allocations

Event = tuple[str, Object]


def address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def endpoints(number: int, count: int) -> list[str]:
    return [f"172.16.{number}.{i};host-{number}-{i};pod-{number}-{i};zone-a" for i in range(count)]


#: What is listed, and what happens then; versions grow with each object that is made.
LISTS: dict[Kind, list[Object]] = {
    Kind.NAMESPACE: [namespace("shop"), namespace("empty"), *(namespace(f"team-{i}") for i in range(40))],
    Kind.SERVICE: [service(f"team-{i % 40}/web-{i}", address(i), ports=("http:TCP:80", "dns:UDP:53")) for i in range(150)] + [service("shop/db", "None")],
    Kind.SLICE: [slice_of("shop/db-1", "db", *endpoints(1, 60)), slice_of("shop/db-2", "db", *endpoints(2, 3)), slice_of("shop/early", "late", "172.17.0.1")],
    Kind.POD: [pod(f"team-{i % 40}/pod-{i}", f"172.18.{i >> 8}.{i & 255}") for i in range(150)],
}
EVENTS: dict[Kind, list[Event]] = {
    Kind.NAMESPACE: [("DELETED", namespace("empty")), ("ADDED", namespace("new"))],
    Kind.SERVICE: [
        ("ADDED", service("shop/late", "None")),
        ("MODIFIED", service("team-3/web-3", "10.9.9.9", ports=[f"port-{i}:TCP:{i + 1}" for i in range(50)])),
        ("DELETED", service("team-4/web-4", address(4))),
        *(("ADDED", service(f"shop/extra-{i}", f"10.8.0.{i}")) for i in range(120)),
    ],
    Kind.SLICE: [("MODIFIED", slice_of("shop/db-1", "db", *endpoints(1, 90))), ("DELETED", slice_of("shop/db-2", "db", *endpoints(2, 3)))],
    Kind.POD: [("DELETED", pod("team-5/pod-5", "172.18.0.5")), ("MODIFIED", pod("team-6/pod-6", "172.18.9.9"))],
}
ORDER = (Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE, Kind.POD)


def version(item: Object) -> int:
    return int(item["metadata"]["resourceVersion"])


def encoded_list(kind: Kind, protobuf: bool) -> bytes:
    newest = str(max(map(version, LISTS[kind])))
    if protobuf:
        return wrap(message((1, message((1, ""), (2, newest))), *((2, MESSAGES[kind](one)) for one in LISTS[kind])), "List")
    return json.dumps({"metadata": {"resourceVersion": newest}, "items": LISTS[kind]}).encode()


def encoded_events(kind: Kind, events: list[Event], protobuf: bool) -> bytes:
    if protobuf:
        return b"".join(frame(what, MESSAGES[kind](one)) for what, one in events)
    return b"".join(json.dumps({"type": what, "object": one}).encode() + b"\n" for what, one in events)


class Feed:
    """Gives a store everything, and goes on as a reflector does when memory is out."""

    def __init__(self, store: Store, protobuf: bool, allocations: Allocations) -> None:
        self.store = store
        self.protobuf = protobuf
        self.allocations = allocations
        self.content = PROTOBUF if protobuf else JSON
        #: How often memory was out.
        self.broken = 0
        #: Called when it is.
        self.look = lambda: None

    def failed(self) -> None:
        self.broken += 1
        assert self.broken < 4, "memory is there again, and it still fails"
        if self.allocations.control.fail > 1:
            self.allocations.disarm()
        armed, self.allocations.control.armed = self.allocations.control.armed, 0
        self.look()
        self.allocations.control.armed = armed

    def run(self) -> None:
        for kind in ORDER:
            stream = Stream(self.store, kind)
            self.retry(lambda stream=stream, kind=kind: self.give_list(stream, kind))  # type: ignore[misc]
            self.retry(lambda stream=stream, kind=kind: self.give_events(stream, kind))  # type: ignore[misc]

    def retry(self, give: Any) -> None:
        while True:
            try:
                give()
                return
            except MemoryError:
                self.failed()

    def give_list(self, stream: Stream, kind: Kind) -> None:
        body = encoded_list(kind, self.protobuf)
        stream.begin_list()
        stream.begin(self.content, False, len(body))
        for at in range(0, len(body), 5000):
            stream.feed(body[at : at + 5000], len(body[at : at + 5000]))
        stream.end()
        stream.finish_list()
        stream.commit_list()

    def give_events(self, stream: Stream, kind: Kind) -> None:
        left = [(what, one) for what, one in EVENTS[kind] if version(one) > int(stream.version)]
        body = encoded_events(kind, left, self.protobuf)
        stream.begin(self.content + (";stream=watch" if self.protobuf else ""), True, -2)
        for at in range(0, len(body), 3000):
            stream.feed(body[at : at + 3000], len(body[at : at + 3000]))
        stream.flush()


Seen = tuple[dict[Kind, Any], list[tuple[Any, ...]]]


def seen(store: Store) -> Seen:
    """All that a store holds, and all that a zone made from it says but for its SOA."""
    copy = Recorder()
    copy.take(store)
    handler = Kubernetes("kubernetes", store, ["cluster.local."], "cluster.local.", pods="verified")
    transfer = handler.transfer(name_wire("cluster.local."), None)
    rows = sorted(row for row in transfer if row[1] != 6) if transfer is not None else []
    return {kind: copy.objects(kind) for kind in ORDER}, rows


def names(kind: Kind) -> set[tuple[str, str]]:
    made = [*LISTS[kind], *(one for _, one in EVENTS[kind])]
    return {(one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in made}


def main(folder: str, failures: list[int]) -> None:
    allocations = Allocations(Path(folder), own=True)
    rounds = 0
    for protobuf in (False, True):
        store = Store()
        Feed(store, protobuf, allocations).run()
        truth = seen(store)
        for fail in failures:
            skip = -1
            while skip < 0 or allocations.control.failed:
                skip += 1
                rounds += 1
                allocations.arm(skip=skip, fail=fail)
                try:
                    store = Store()
                except MemoryError:
                    allocations.disarm()
                    continue
                feed = Feed(store, protobuf, allocations)

                def look(store: Store = store) -> None:
                    found = seen(store)[0]
                    for kind in ORDER:
                        assert found[kind].keys() <= names(kind)

                feed.look = look
                feed.run()
                allocations.disarm()
                places = [place.name for place in allocations.places() if place.failed]
                assert seen(store) == truth, f"allocation {skip} of {places}, noticed {feed.broken} times"
                assert store.counts() == {**store.counts(), "services": len(truth[0][Kind.SERVICE]), "pods": len(truth[0][Kind.POD])}
    places = [place.name for place in allocations.places()]
    print(json.dumps({"rounds": rounds, "places": len(places), "names": places}))


if __name__ == "__main__":
    main(sys.argv[1], [int(text) for text in sys.argv[2:]])
