"""Seeded schedules of changes and faults; in the end what is served is the truth, and in between nothing is lost that was there all the time."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest

from fastdns.plugins.kubernetes.watch import reflector
from fastdns.plugins.kubernetes.watch.client import Limits
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.conftest import addresses
from tests.waiting import until

#: A thousand of them is a job for the night: FASTDNS_SCHEDULES.
SCHEDULES = int(os.environ.get("FASTDNS_SCHEDULES", "8"))
STEPS = 25
#: Never touched, so never missed.
STEADY = ["ns default", "svc default/steady 10.9.9.9 ports=http:TCP:80", "eps default/steady ports=http:TCP:80 10.8.8.8"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(reflector, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(reflector, "PROBE_PAUSE", 0.05)


def truth(server: Any) -> dict[str, str]:
    with server.changed:
        return {name: thing["spec"]["clusterIPs"][0] for (plural, _, name), thing in server.store.items() if plural == "services"}


def endpoints(server: Any) -> dict[str, list[str]]:
    with server.changed:
        found = {}
        for (plural, _, name), thing in server.store.items():
            if plural == "endpointslices":
                ready = [point for point in thing["endpoints"] if point["conditions"]["ready"]]
                found[name] = [address for point in ready for address in point["addresses"]]
        return found


def slices(recorder: Recorder) -> dict[str, list[str]]:
    return {name: [point[0][0] for point in view["endpoints"]] for (_, name), view in recorder.objects(Kind.SLICE).items()}


def change(server: Any, chance: random.Random) -> None:
    """A service, its endpoints, or both come, change or go."""
    name = f"s{chance.randrange(12)}"
    with server.changed:
        known = ("services", "default", name) in server.store
    if known and chance.random() < 0.35:
        server.delete(f"svc default/{name}")
        if ("endpointslices", "default", f"{name}-s1") in server.store:
            server.delete(f"eps default/{name}-s1")
        return
    server.apply(f"svc default/{name} 10.0.{chance.randrange(256)}.{chance.randrange(1, 255)} ports=http:TCP:80")
    points = [f"10.1.{chance.randrange(256)}.{chance.randrange(1, 255)}{chance.choice(['', ';notready'])}" for _ in range(chance.randrange(1, 4))]
    server.apply(f"eps default/{name} ports=http:TCP:80 {' '.join(points)}")


def fault(server: Any, chance: random.Random) -> None:
    choice = chance.randrange(8)
    if choice == 0:
        server.cut()
    elif choice == 1:
        server.gone("event")
    elif choice == 2:
        server.gone("status")
    elif choice == 3:
        server.mark()
    elif choice < 7:
        server.set_down(chance.choice([True, "close", 500, 429]))
        for _ in range(chance.randrange(3)):
            change(server, chance)
        time.sleep(chance.random() * 0.05)
        server.set_down(False)


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_the_end_of_every_schedule_is_the_truth(fakekube: Any, follow: Any, seed: int) -> None:
    chance = random.Random(seed)
    server = fakekube(STEADY)
    # So many faults in so short a time would wait for the client's own limit.
    recorder, _ = follow(Endpoint(server.url), Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE, limits=Limits(1000, 1000))
    for _ in range(STEPS):
        (fault if chance.random() < 0.3 else change)(server, chance)
        assert addresses(recorder)["steady"] == "10.9.9.9"
        assert slices(recorder)["steady-s1"] == ["10.8.8.8"]
        if chance.random() < 0.3:
            time.sleep(0.01)
    until(lambda: addresses(recorder) == truth(server) and slices(recorder) == endpoints(server))
    assert recorder.log.count(("upsert", "service", "default", "steady")) == 1
    assert ("remove", "service", "default", "steady") not in recorder.log


def test_nothing_goes_while_the_server_is_away(fakekube: Any, follow: Any) -> None:
    server = fakekube(STEADY)
    recorder, lease = follow(Endpoint(server.url), Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE)
    before = list(recorder.log)
    server.set_down("close")
    time.sleep(0.5)
    assert recorder.log == before
    assert lease.synced
