"""Several servers of one cluster, and what a secondary makes of them: watches that are late, an etcd that goes back, serials that begin again."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.query
import pytest

from fastdns.plugins.transfer.serial import next_serial, serial_after
from tests.conformance.kube_api import KubeAPI
from tests.plugins.kubernetes.test_journal import CENTRE, REPLICA, cluster_of, some, version, version_of
from tests.plugins.secondary.kept import serial_in
from tests.plugins.secondary.primary import Primary
from tests.plugins.secondary.test_secondary import zone
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

#: Seconds by which the watches of the two servers are late.
LATE = (0.0, 1.0)
CHANGES = 16

WATCHED = """
cluster.local:{port} {
    transfer {
        to *
    }
    kubernetes {
        endpoint URL
        journal
    }
}
"""


def late(servers: list[Server], delays: tuple[float, ...]) -> list[threading.Thread]:
    """Threads that change one service in each server's cluster again and again, each server with its delay."""

    def change(server: Server, delay: float) -> None:
        cluster = cluster_of(server)
        time.sleep(delay)
        for number in range(CHANGES):
            cluster.put("new", f"10.0.1.{number}")
            time.sleep(0.2)

    threads = [threading.Thread(target=change, args=pair) for pair in zip(servers, delays, strict=True)]
    for thread in threads:
        thread.start()
    return threads


def zone_of(server: Server) -> list[str]:
    """All records but those of the version."""
    messages = dns.query.xfr("127.0.0.1", "cluster.local.", port=server.port, relativize=False, lifetime=LIMIT)
    lines = [line for message in messages for rrset in message.answer for line in rrset.to_text().splitlines()]
    return sorted(line for line in lines if " SOA " not in line and " ZONEMD " not in line)


def test_two_servers_whose_watches_are_late_by_different_times(serve: Serve) -> None:
    """The one that is ahead goes in the middle of the changes: the secondary has a version of one of them at each moment, and the last one in the end."""
    centres = [serve(CENTRE.replace(" PEER", ""), prepare=some) for _ in LATE]
    primaries = " ".join(f"127.0.0.1:{server.port}" for server in centres)
    text = REPLICA.replace("FROM", f"{primaries}\n        stale serve 2s").replace("    secondary", "    transfer {\n        to *\n    }\n    secondary")
    replica = serve(text)
    replica.until("s3.ns.svc.cluster.local.", "A", ["10.0.0.3"])
    threads = late(centres, LATE)
    seen = []
    stopped = False
    while any(thread.is_alive() for thread in threads) or not stopped:
        seen.append(replica.answers("new.ns.svc.cluster.local."))
        if not stopped and len({tuple(one) for one in seen}) > 3:
            centres[0].process.kill()
            stopped = True
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert {tuple(one) for one in seen} <= {("NXDOMAIN",), *((f"10.0.1.{number}",) for number in range(CHANGES))}
    replica.until("new.ns.svc.cluster.local.", "A", [f"10.0.1.{CHANGES - 1}"])
    until(lambda: version_of(replica) == version(centres[1]), "the version of the server that is left")
    assert zone_of(replica) == zone_of(centres[1])


def test_an_etcd_that_goes_back(serve: Serve, fakekube: Callable[..., KubeAPI]) -> None:
    """A backup of etcd is restored: objects and their revisions go back, the zone's serials do not, and the secondary has what is there now."""
    api = fakekube(["ns ns", "svc ns/web 10.0.0.1", "svc ns/old 10.0.0.2"])
    centre = serve(WATCHED.replace("URL", api.url))
    replica = serve(REPLICA.replace("FROM", f"127.0.0.1:{centre.port}\n        stale serve 2s"))
    replica.until("old.ns.svc.cluster.local.", "A", ["10.0.0.2"])
    backup = api.copy()
    api.apply("svc ns/web 10.0.0.11")
    api.apply("svc ns/new 10.0.0.3")
    api.delete("svc ns/old")
    replica.until("old.ns.svc.cluster.local.", "A", ["NXDOMAIN"])
    replica.until("web.ns.svc.cluster.local.", "A", ["10.0.0.11"])
    serial, _ = version_of(replica)
    api.restore(backup)
    replica.until("old.ns.svc.cluster.local.", "A", ["10.0.0.2"])
    replica.until("web.ns.svc.cluster.local.", "A", ["10.0.0.1"])
    replica.until("new.ns.svc.cluster.local.", "A", ["NXDOMAIN"])
    assert serial_after(version_of(replica)[0], serial)
    # Revisions that have been there once name other objects.
    api.apply("svc ns/web 10.0.0.21")
    replica.until("web.ns.svc.cluster.local.", "A", ["10.0.0.21"])
    until(lambda: version_of(replica) == version(centre), "the version of the server")


# ---- serials of 32 bits (RFC 1982) ----

WRAP = (0xFFFFFFFD, 0xFFFFFFFF, 0, 3)


@pytest.fixture
def primary() -> Iterator[Primary]:
    one = Primary(zone(WRAP[0], "current 60 IN A 10.0.0.0\n"))
    yield one
    one.close()


def test_a_secondary_follows_over_the_wrap(serve: Serve, primary: Primary, tmp_path: Path) -> None:
    """By IXFR, on disk, over a restart between the last serial and the first one, and to its own secondaries."""
    store = tmp_path / "store"
    store.mkdir()
    more = f"transfer from {primary.address}\n        store {store}"
    text = f"example.org:{{port}} {{\n    transfer {{\n        to *\n    }}\n    secondary {{\n        {more}\n    }}\n}}\n"
    server = serve(text)
    for number, (before, serial) in enumerate(itertools.pairwise(WRAP), 1):
        server.until("current.example.org.", "A", [f"10.0.0.{number - 1}"])
        transferred(server, before)  # from here on there is a journal
        primary.add(zone(serial, f"current 60 IN A 10.0.0.{number}\n"))
        primary.notify(server.port)
        server.until("current.example.org.", "A", [f"10.0.0.{number}"])
        assert transferred(server, before)[0] == serial
        server.stop()
        assert serial_in(store / "db.example.org") == serial
        server = serve(text)
        assert server.answers("current.example.org.") == [f"10.0.0.{number}"]
    assert primary.asked.count("AXFR") == 1
    primary.add(zone(WRAP[0], "current 60 IN A 10.0.0.99\n"))
    assert primary.notify(server.port) is not None
    server.wait_log("Notify from 127.0.0.1 for example.org.: no SOA serial increase seen")
    assert server.answers("current.example.org.") == [f"10.0.0.{len(WRAP) - 1}"]


def transferred(server: Server, serial: int) -> tuple[int, int]:
    """The serial that IXFR from another one gives, and the number of records."""
    messages = dns.query.xfr("127.0.0.1", "example.org.", "IXFR", serial=serial, port=server.port, relativize=False, lifetime=LIMIT)
    rrsets = [rrset for message in messages for rrset in message.answer]
    return rrsets[0][0].serial, len(rrsets)


def test_serials_go_on_over_the_wrap() -> None:
    assert next_serial(1, 0xFFFFFFFE) == 1
    assert next_serial(0xFFFFFFFE, 1) == 2
    assert next_serial(0xFFFFFFFF, 0xFFFFFFFF) == 0
    assert serial_after(0, 0xFFFFFFFF)
    assert not serial_after(0xFFFFFFFF, 0)
