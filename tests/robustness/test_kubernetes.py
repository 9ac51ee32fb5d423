"""What tenants of a cluster may do to each other by names (spec: robustness, sections 2 and 5)."""

from __future__ import annotations

from collections.abc import Iterator

import dns.rcode
import pytest

from fastdns.testing import Upstream
from tests.server import Server

COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa {
        manifests {dir}/../cluster.yaml
        pods insecure
        fallthrough in-addr.arpa
    }
    forward . UPSTREAM
}
"""
SERVICE = "{{kind: Service, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{{spec}}}}}"
PORTS = "ports: [{name: http, port: 80, protocol: TCP}]"


def cluster(*services: tuple[str, str, str]) -> str:
    namespaces = sorted({namespace for _, namespace, _ in services})
    parts = [f"{{kind: Namespace, metadata: {{name: {name}}}}}" for name in namespaces]
    parts += [SERVICE.format(name=name, namespace=namespace, spec=spec) for name, namespace, spec in services]
    return "\n---\n".join(parts)


def address(last: int) -> str:
    return f"clusterIP: 10.96.0.{last}, clusterIPs: [10.96.0.{last}], {PORTS}"


def alias(target: str) -> str:
    return f"type: ExternalName, externalName: {target}"


LOOPS = [(f"l{size}-{i}", "loops", alias(f"l{size}-{(i + 1) % size}.loops.svc.cluster.local")) for size in range(1, 21) for i in range(size)]
LINES = [(f"c{i}", "lines", alias(f"c{i + 1}.lines.svc.cluster.local")) for i in range(20)] + [("c20", "lines", address(20))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("cluster")
    text = cluster(("web", "default", address(10)), ("example", "com", address(11)), ("secret", "hidden", address(12)), *LOOPS, *LINES)
    (folder / "cluster.yaml").write_text(text)
    (folder / "server").mkdir()
    with Upstream() as upstream, Server(folder / "server", COREFILE.replace("UPSTREAM", upstream.address)) as started:
        yield started


def test_CVE_2022_2835_a_namespace_named_like_a_top_level_domain(server: Server) -> None:
    """GHSA-ch7v, -h828: it has its names below the cluster's zone, as ever, and takes none outside of it; nothing searches on a client's
    behalf unless `autopath` is configured."""
    assert server.answers("example.com.svc.cluster.local.") == ["10.96.0.11"]
    for name in ("example.com.", "com.", "example.com.svc."):
        assert server.answers(name) == ["192.0.2.53"]


@pytest.mark.parametrize(
    "name", ["*.hidden.svc", "*.*.svc", "secret.*.svc", "any.hidden.svc", "*.svc", "*", "_http._tcp.*.hidden.svc", "*.*.secret.hidden.svc"]
)
def test_wildcards_never_enumerate(server: Server, name: str) -> None:
    """Cross-tenant data: since CoreDNS 1.9 a star is a label like any other."""
    for rdtype in ("A", "SRV", "ANY"):
        reply = server.query(f"{name}.cluster.local.", rdtype)
        assert reply.rcode() == dns.rcode.NXDOMAIN
        assert not reply.answer


def test_TsuNAME_loops_of_names_end_at_once(server: Server) -> None:
    """Loops of 1 to 20 ExternalName services, and lines of them: an answer or a failure, quickly."""
    for size in range(1, 21):
        used = server.cpu()
        reply = server.query(f"l{size}-0.loops.svc.cluster.local.")
        assert reply.rcode() in (dns.rcode.NOERROR, dns.rcode.SERVFAIL)
        assert server.cpu() - used < 0.3
        assert sum(map(len, reply.answer)) <= 20
    for first in range(21):
        reply = server.query(f"c{first}.lines.svc.cluster.local.")
        assert reply.rcode() in (dns.rcode.NOERROR, dns.rcode.SERVFAIL)
    assert server.answers("c19.lines.svc.cluster.local.")[0] == "10.96.0.20"
    assert server.answers("web.default.svc.cluster.local.") == ["10.96.0.10"]


def test_names_that_are_no_addresses(server: Server) -> None:
    """Reverse names and pod names of every shape: refused or forwarded, never a crash or a wrong address."""
    for name in ("10.0.96.10", "300.0.96.10", "1.10.0.96.10", "0.96.10", "x.0.96.10", "-1.0.96.10", "01.0.96.10"):
        reply = server.query(f"{name}.in-addr.arpa.", "PTR")
        assert reply.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)
    for name in ("1-2-3-4", "1-2-3-400", "--", "-1-2-3-4", "1-2-3", "1--2", "1-2-3-4-5-6-7-8", "g--1", "0001-2-3-4", "1-2-3-4-", "::"):
        reply = server.query(f"{name}.default.pod.cluster.local.")
        for rrset in reply.answer:
            assert name in ("1-2-3-4", "0001-2-3-4"), (name, rrset.to_text())
