"""Thousands of connections that do little or nothing: others are served, they cost little, and nothing is left of them (spec: robustness, section 5)."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.server import Server
from tests.slowloris import Slowloris
from tests.waiting import until

Serve = Callable[..., Server]

COREFILE = """
.:{port} {
    bind 127.0.0.1
    hosts {
        192.0.2.1 www.example.org
        fallthrough
    }
    whoami
}
"""

#: Of the specification.
IDLE, DRIPPING = 20000, 1000
#: Descriptors that server and attacker need for other things.
SPARE = 150
#: Octets that a connection may cost the server.
COST = 30_000


@contextmanager
def slowloris(server: Server, idle: int, dripping: int) -> Iterator[Slowloris]:
    attack = Slowloris(server.port, idle, dripping)
    try:
        yield attack
    finally:
        attack.close()


def latencies(server: Server, count: int, tcp: bool) -> list[float]:
    """Seconds of questions asked one after the other, each answered, over fresh sockets."""
    took = []
    for _ in range(count):
        start = time.monotonic()
        assert server.answers("www.example.org.", tcp=tcp) == ["192.0.2.1"]
        took.append(time.monotonic() - start)
    return sorted(took)


@pytest.mark.parametrize(("idle", "dripping"), [(1500, 100), pytest.param(IDLE, DRIPPING, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def test_slowloris_thousands_that_idle_or_drip(serve: Serve, idle: int, dripping: int) -> None:
    """As many of the 20,000 as the limit on descriptors allows, of which connections to the server get three quarters."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    idle = min(idle, hard * 3 // 4 - dripping - SPARE)
    server = serve(COREFILE)
    assert latencies(server, 20, True)
    memory, descriptors = server.memory(), server.descriptors()
    quiet = latencies(server, 300, False)
    with slowloris(server, idle, dripping) as attack:
        # Two workers share the connections at random, and each has its half of the 20,000 places: the last few take turns.
        until(lambda: attack.status()["idle"] >= 0.97 * idle and attack.status()["cut"] >= dripping, "the attack")
        under_attack = latencies(server, 300, False)
        fresh = latencies(server, 20, True)
        status = attack.status()
        cost = (server.memory() - memory) / (idle + dripping)
        print(
            f"{status}, {cost:.0f} octets each; UDP median {quiet[150] * 1e6:.0f} -> {under_attack[150] * 1e6:.0f} us, "
            f"p99 {quiet[297] * 1e6:.0f} -> {under_attack[297] * 1e6:.0f} us; fresh TCP at most {fresh[-1] * 1e3:.1f} ms"
        )
        assert cost < COST
        assert status["idle"] >= 0.9 * idle
        assert server.descriptors() - descriptors >= 0.9 * idle
        if idle > 10000:
            assert fresh[-1] < 1
    until(lambda: server.descriptors() <= descriptors, "the end of all connections")
    assert latencies(server, 20, True)
