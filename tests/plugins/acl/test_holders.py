"""acl: whose an address is. Tenants write EndpointSlices that name addresses of others; the pods that have them say whose they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.kube_api import KubeAPI
from tests.plugins.acl.test_tenants import NX, outcome
from tests.server import Server, free_port
from tests.waiting import until

A, B, NODE = "127.0.0.10", "127.0.0.11", "127.0.0.20"
BASE = ["ns a", "ns b", "ns kube-system", f"pod a/client {A}", f"pod b/client {B}", "svc kube-system/agent None"]
BASE += [f"svc {name} None" for name in ("a/set", "a/db", "b/set", "b/db", "b/evil")]
RULES = "acl cluster.local in-addr.arpa {\n  allow target own kube-system\n  nxdomain target *\n }"


def agent(namespace: str = "kube-system") -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"namespace": namespace, "name": "agent"}, "spec": {"hostNetwork": True}, "status": {"podIP": NODE, "phase": "Running"}}


class Cluster:
    """A server with acl, and the API server that it follows."""

    def __init__(self, serve: Callable[..., Server], objects: list[Any], more: str) -> None:
        self.api = KubeAPI(free_port(), [*BASE, *objects])
        text = (
            f".:{{port}} {{\n bind 127.0.0.1\n {more}\n {RULES}\n kubernetes cluster.local in-addr.arpa {{\n  endpoint {self.api.url}\n  pods verified\n }}\n}}"
        )
        self.server = serve(text)

    def name(self, client: str, address: str) -> str:
        return outcome(self.server.query(".".join(reversed(address.split("."))) + ".in-addr.arpa.", "PTR", source=client))

    def names(self, address: str) -> tuple[str, str]:
        """What the clients of both tenants get."""
        return self.name(A, address), self.name(B, address)

    def await_slice(self, client: str, service: str, address: str, there: bool = True) -> None:
        """Until a change of the owner's own slice is answered."""
        name = f"{address.replace('.', '-')}.{service}.svc.cluster.local."
        until(lambda: self.server.answers(name, source=client) == ([address] if there else ["NXDOMAIN"]))


@pytest.fixture
def cluster(serve: Callable[..., Server]) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(*objects: Any, more: str = "") -> Cluster:
        made.append(Cluster(serve, list(objects), more))
        return made[-1]

    yield make
    for one in made:
        one.api.stop()


MINE = f"NOERROR {A.replace('.', '-')}.set.a.svc.cluster.local."


@pytest.mark.parametrize("first", ["the victim's", "the other tenant's"])
def test_a_slice_takes_no_address_from_a_pod(cluster: Callable[..., Cluster], first: str) -> None:
    both = [(A, f"eps a/set {A}"), (B, f"eps b/evil {A}")]
    one = cluster(more="cache 30")
    for client, slice_ in both if first == "the victim's" else both[::-1]:
        one.api.apply(slice_)
        one.await_slice(client, "set.a" if client == A else "evil.b", A)
    for _ in range(2):
        assert one.names(A) == (MINE, NX)
    one.api.delete("eps b/evil-s1")
    one.await_slice(B, "evil.b", A, False)
    assert one.names(A) == (MINE, NX)
    # Without a slice of its own the address has no name, whatever the other tenant's slice says.
    one.api.apply(f"eps b/evil {A}")
    one.await_slice(B, "evil.b", A)
    one.api.delete("eps a/set-s1")
    one.await_slice(A, "set.a", A, False)
    until(lambda: one.names(A) == (NX, NX))


def test_an_address_that_passes_to_another_pod(cluster: Callable[..., Cluster]) -> None:
    address = "127.0.0.30"
    one = cluster(f"pod a/old {address}", f"eps a/set {address}", f"eps b/set {address}")
    one.await_slice(A, "set.a", address)
    until(lambda: one.name(A, address) == "NOERROR 127-0-0-30.set.a.svc.cluster.local.")
    # For a moment both pods have it: then it is nobody's alone.
    one.api.apply(f"pod b/new {address}")
    until(lambda: one.names(address) == (NX, NX))
    one.api.delete("pod a/old")
    until(lambda: one.names(address) == (NX, "NOERROR 127-0-0-30.set.b.svc.cluster.local."))


def test_the_address_of_a_node(cluster: Callable[..., Cluster]) -> None:
    """Names count of namespaces that have a pod in its network; if there is none, each tenant has its own."""
    one = cluster(agent(), f"eps kube-system/agent {NODE}", f"eps b/evil {NODE}")
    one.await_slice(B, "evil.b", NODE)
    shared = f"NOERROR {NODE.replace('.', '-')}.agent.kube-system.svc.cluster.local."
    until(lambda: one.names(NODE) == (shared, shared))
    one.api.delete("eps kube-system/agent-s1")
    own = f"NOERROR {NODE.replace('.', '-')}.evil.b.svc.cluster.local."
    until(lambda: one.names(NODE) == (NX, own))


@pytest.mark.parametrize("more", ["", "cache 30"])
def test_an_address_that_no_pod_has(cluster: Callable[..., Cluster], more: str) -> None:
    """Each tenant has the names that it gave itself, and those who may see all namespaces have all."""
    outside = "192.0.2.5"
    one = cluster(f"eps a/db {outside}", f"eps b/db {outside}", more=more)
    one.await_slice(A, "db.a", outside)
    one.await_slice(B, "db.b", outside)
    wanted = tuple(f"NOERROR 192-0-2-5.db.{tenant}.svc.cluster.local." for tenant in "ab")
    for _ in range(2):
        assert one.names(outside) == wanted
    one.api.delete("eps b/db-s1")
    until(lambda: one.names(outside) == (wanted[0], NX))
