"""Rights in the namespaces of the property `namespaces` alone: a watch for each, after a 403 for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dns.rcode
import pytest

from fastdns.plugins.kubernetes.watch import cluster as clusters
from fastdns.plugins.kubernetes.watch import namespaced, reflector
from fastdns.plugins.kubernetes.watch.client import Limits
from fastdns.plugins.kubernetes.watch.cluster import Lease
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.informers import Options
from fastdns.plugins.kubernetes.watch.resources import RESOURCES, Kind, kinds
from tests.native.recorder import Recorder
from tests.waiting import LIMIT, until

OBJECTS = [
    *(f"ns {name}" for name in ("shop", "billing", "other")),
    *(f"svc {name}/web 10.0.0.{i}" for i, name in enumerate(("shop", "billing", "other"), 1)),
    *(f"eps {name}/web 10.1.0.{i}" for i, name in enumerate(("shop", "billing", "other"), 1)),
    *(f"pod {name}/web 10.1.0.{i}" for i, name in enumerate(("shop", "billing", "other"), 1)),
]
ROLES = [f"{namespace}/{plural}" for namespace in ("shop", "billing") for plural in ("services", "endpointslices", "pods")]
NAMED = ("shop", "billing")
LIMITS = Limits(qps=1000.0, burst=1000)
ALL = kinds(pods=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("FIRST_PAUSE", 0.02), ("LONGEST_PAUSE", 0.2), ("PROBE_PAUSE", 0.1), ("SHORT", 0.05), ("ASK_AGAIN", 0.3)):
        monkeypatch.setattr(reflector, name, seconds)


Hold = Callable[..., tuple[Recorder, Lease]]


@pytest.fixture
def hold() -> Iterator[Hold]:
    """``hold(server, *namespaces)``: a share of its informers, started."""
    held: list[Lease] = []

    def start(server: Any, *namespaces: str, wanted: frozenset[Kind] = ALL, wait: bool = True) -> tuple[Recorder, Lease]:
        lease = clusters.acquire(Endpoint(server.url), Options(limits=LIMITS), wanted, Recorder, namespaces)
        held.append(lease)
        lease.start()
        assert not wait or lease.wait(LIMIT, say=False), "not synced"
        assert isinstance(lease.sink, Recorder)
        return lease.sink, lease

    yield start
    for lease in held:
        lease.release()
    assert not clusters.registry


def known(recorder: Recorder, kind: Kind) -> list[str]:
    return sorted("/".join(name).strip("/") for name in recorder.objects(kind))


def asked(server: Any) -> list[str]:
    return [path.partition("?")[0] for path in server.requests]


def test_paths_of_a_namespace() -> None:
    assert RESOURCES[Kind.SERVICE].within("shop").path == "/api/v1/namespaces/shop/services"
    assert RESOURCES[Kind.SLICE].within("a/b").path == "/apis/discovery.k8s.io/v1/namespaces/a%2Fb/endpointslices"
    assert RESOURCES[Kind.POD].within("shop").plural == "pods"


def test_roles_in_the_namespaces_named_are_enough(fakekube: Any, hold: Hold, lines: list[str]) -> None:
    server = fakekube(OBJECTS)
    server.grant(*ROLES)
    recorder, lease = hold(server, *NAMED)
    assert known(recorder, Kind.NAMESPACE) == ["billing", "shop"]
    for kind in (Kind.SERVICE, Kind.SLICE, Kind.POD):
        assert [name.partition("/")[0] for name in known(recorder, kind)] == ["billing", "shop"]
    assert not any("other" in path for path in asked(server))
    # What happens there arrives, by watches.
    until(lambda: sum("watch=true" in path and "/namespaces/" in path for path in server.requests) >= 6)
    server.apply("svc shop/new 10.0.0.9")
    server.delete("svc billing/web")
    until(lambda: known(recorder, Kind.SERVICE) == ["shop/new", "shop/web"])
    assert lease.synced
    assert sum("[WARNING]" in line for line in lines) == 4
    assert any("services is forbidden" in line and line.rstrip().endswith("watching services in the namespaces named") for line in lines)
    assert not any("[ERROR]" in line for line in lines)


def test_a_right_in_all_namespaces_given_later_is_used(fakekube: Any, hold: Hold, lines: list[str]) -> None:
    server = fakekube(OBJECTS)
    server.grant(*ROLES)
    recorder, lease = hold(server, *NAMED)
    server.grant("namespaces", "services", "endpointslices", "pods")
    until(lambda: known(recorder, Kind.SERVICE) == ["billing/web", "other/web", "shop/web"])
    until(lambda: known(recorder, Kind.NAMESPACE) == ["billing", "other", "shop"] and not lease.cluster.split)
    # One watch for all is left.
    server.requests.clear()
    server.cut()
    until(lambda: {"/api/v1/services", "/api/v1/pods"} <= set(asked(server)))
    assert not any("/namespaces/" in path for path in asked(server))
    # And when it is taken away again, what is known stays, and watches of the namespaces take over.
    server.grant(*ROLES)
    until(lambda: Kind.SERVICE in lease.cluster.split)
    server.apply("svc shop/new 10.0.0.9")
    until(lambda: "shop/new" in known(recorder, Kind.SERVICE))
    assert lease.synced


def test_a_role_given_later_is_used(fakekube: Any, hold: Hold, lines: list[str]) -> None:
    """Until then the kind is not synced, as in CoreDNS without its rights."""
    server = fakekube(OBJECTS)
    server.grant("namespaces", "shop/services")
    _, lease = hold(server, *NAMED, wanted=frozenset({Kind.SERVICE}), wait=False)
    until(lambda: any('in the namespace "billing"' in line and "[ERROR]" in line for line in lines))
    assert not lease.synced
    server.grant("namespaces", "shop/services", "billing/services")
    assert lease.wait(LIMIT, say=False)


def test_an_expired_watch_is_a_new_list(fakekube: Any, hold: Hold) -> None:
    server = fakekube(OBJECTS)
    server.grant(*ROLES)
    recorder, lease = hold(server, *NAMED, wanted=frozenset({Kind.SERVICE}))
    until(lambda: sum("watch=true" in path and "/namespaces/" in path for path in server.requests) >= 2)
    with server.changed:
        del server.store["services", "billing", "web"]  # without an event
    server.gone("event")
    until(lambda: known(recorder, Kind.SERVICE) == ["shop/web"])
    assert lease.synced


def test_all_namespaces_or_none(fakekube: Any, hold: Hold, lines: list[str]) -> None:
    """A holder that wants all namespaces leaves no other way: CoreDNS's."""
    server = fakekube(OBJECTS)
    server.grant(*ROLES)
    hold(server, wanted=frozenset({Kind.SERVICE}), wait=False)
    _, lease = hold(server, *NAMED, wanted=frozenset({Kind.SERVICE}), wait=False)
    until(lambda: any("Failed to watch: failed to list *v1.Service: services is forbidden" in line for line in lines))
    assert not lease.wait(0.5, say=False)
    assert "/api/v1/namespaces/shop/services" not in asked(server)


def test_more_than_fifty_are_not_watched_one_by_one(fakekube: Any, hold: Hold, lines: list[str]) -> None:
    server = fakekube(OBJECTS)
    many = [f"n{i}" for i in range(namespaced.MOST + 1)]
    server.grant(*(f"{name}/services" for name in many))
    _, lease = hold(server, *many, wanted=frozenset({Kind.SERVICE}), wait=False)
    until(lambda: any("Failed to watch: failed to list *v1.Service" in line for line in lines))
    (said,) = [line for line in lines if "51 namespaces are named, of which at most 50 are watched one by one" in line]
    assert "[ERROR]" in said
    assert not lease.synced
    assert not any("/namespaces/" in path for path in asked(server))


def test_fifty_are(fakekube: Any, hold: Hold) -> None:
    many = [f"n{i}" for i in range(namespaced.MOST)]
    server = fakekube([f"svc {name}/web 10.0.0.{i}" for i, name in enumerate(many, 1)])
    server.grant(*(f"{name}/services" for name in many))
    recorder, _ = hold(server, *many, wanted=frozenset({Kind.SERVICE}))
    assert len(known(recorder, Kind.SERVICE)) == namespaced.MOST


def test_a_reload_names_others(fakekube: Any, hold: Hold) -> None:
    server = fakekube(OBJECTS)
    server.grant(*(f"{name}/services" for name in ("shop", "billing", "other")))
    wanted = frozenset({Kind.SERVICE, Kind.NAMESPACE})
    recorder, old = hold(server, *NAMED, wanted=wanted)
    _, new = hold(server, "shop", "other", wanted=wanted)
    assert known(recorder, Kind.SERVICE) == ["billing/web", "other/web", "shop/web"]
    old.release()
    until(lambda: known(recorder, Kind.SERVICE) == ["other/web", "shop/web"] and known(recorder, Kind.NAMESPACE) == ["other", "shop"])
    assert new.synced


def test_the_server_answers_from_them(fakekube: Any, serve: Any) -> None:
    server = fakekube(OBJECTS)
    server.grant(*ROLES)
    block = f"kubernetes cluster.local {{\n endpoint {server.url}\n namespaces shop billing\n apiserver_qps 1000\n apiserver_burst 1000\n}}\n"
    served = serve(f".:{{port}} {{\n{block} ready\n}}\n")

    def answer(name: str) -> str:
        reply = served.query(f"{name}.cluster.local.")
        return reply.answer[0][0].to_text() if reply.answer else dns.rcode.to_text(reply.rcode())

    until(lambda: answer("web.shop.svc") == "10.0.0.1")
    assert answer("web.billing.svc") == "10.0.0.2"
    assert answer("web.other.svc") == answer("other.svc") == "NXDOMAIN"
    assert answer("shop.svc") == "NOERROR"
