"""The expected replies, held against those of a running server: for every kind of question, and for names that nobody asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import dns.name
import dns.rdatatype
import dns.zone
import pytest

from fastdns.bench.workload import Question
from fastdns.bench.workloads import cluster, mix, synthetic
from fastdns.bench.workloads.oracle import Oracle, reverse_name
from fastdns.bench.workloads.resolver import Resolver
from fastdns.bench.workloads.zonefile import Zone
from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.bench.asking import all_wrong, folded, replies, wrong
from tests.plugins.kubernetes.objects import alias, manifest, namespace, pod, service, slice_of
from tests.server import Server

SHAPE = synthetic.Shape(services=60, headless=6, external_names=4, namespaces=5, endpoints=300, pods=350, dual_stack=0.3, not_ready=0.1)
EXTERNAL = Zone("example.org.", 200)
COREFILE = """
.:{port} {
    bind 127.0.0.1
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        manifests {dir}/cluster.jsonl
        pods verified
    }
    hosts {dir}/hosts example.org
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("made")
    synthetic.write(synthetic.objects(SHAPE), str(folder / "cluster.jsonl"))
    lines = [
        f"{ip_address(rdata)} {EXTERNAL.name(number)}\n"
        for number in range(EXTERNAL.names)
        for qtype in (1, 28)
        for rdata in EXTERNAL.question(number, qtype).answers or ()
    ]
    (folder / "hosts").write_text("".join(lines))
    with Server(folder, COREFILE) as running:
        yield running


@pytest.fixture(scope="module")
def ingredients(server: Server) -> mix.Ingredients:
    asked = [(EXTERNAL.name(number), 1) for number in range(EXTERNAL.names)]
    questions = [EXTERNAL.question(number, qtype) for number in range(EXTERNAL.names) for qtype in (1, 28)]
    known = {(question.name, question.type): question for question in questions}
    oracle = Oracle(cluster.manifests([server.folder / "cluster.jsonl"]), pods="verified")
    return mix.Ingredients(oracle=oracle, external=asked, known=known, resolver=Resolver(domains=["nodes.example.org."]), zipf=0.5)


@pytest.mark.parametrize("kind", sorted(mix.KINDS.keys() - {"queries"}))
def test_every_kind_is_answered_as_expected(server: Server, ingredients: mix.Ingredients, kind: str) -> None:
    made = mix.make({kind: 1}, ingredients, 400)
    known = [question for question in made.questions if question.answers is not None]
    assert len(known) > len(made.questions) // 2 or kind == "cname"
    assert all(question.rcode is not None for question in known)
    assert all_wrong(server.port, made.questions) == []


def test_names_of_a_zone() -> None:
    """As another reader of master files sees them."""
    zone = dns.zone.from_text("".join(EXTERNAL.lines()), "example.org.", relativize=False)
    assert len(zone.nodes) == EXTERNAL.names + 2
    for number in range(EXTERNAL.names):
        owner = dns.name.from_text(EXTERNAL.name(number))
        if (alias := zone.get_rdataset(owner, "CNAME")) is not None:
            owner = alias[0].target
        for qtype in (1, 28):
            found = zone.get_rdataset(owner, dns.rdatatype.RdataType.make(qtype)) or ()
            assert EXTERNAL.question(number, qtype).answers == {rdata.to_wire() for rdata in found}
    assert EXTERNAL.question(EXTERNAL.names).rcode == 3


def test_wrong_replies_are_found(server: Server, ingredients: mix.Ingredients) -> None:
    """The comparison above is able to fail: every expectation, spoilt, is."""
    assert ingredients.oracle is not None
    made = mix.make({"cluster": 1, "srv": 1, "nx": 1}, ingredients, 100)
    for question, reply in replies(server.port, made.questions):
        assert question.answers is not None
        spoilt = [
            Question(question.name, question.type, 2, question.answers),
            Question(question.name, question.type, question.rcode, question.answers | {b"no"}),
        ]
        assert all(wrong(other, reply) for other in spoilt)


# ---- odd clusters ----

ODD = (
    (Kind.NAMESPACE, [namespace(name) for name in ("default", "a", "svc", "empty")]),
    (
        Kind.SERVICE,
        [
            service("a/web", "10.0.0.100", ports=("http:TCP:80", "metrics:TCP:9090")),
            service("a/dual", "10.0.0.110", "fd00:10::110"),
            service("a/six", "fd00:10::6"),
            service("a/multi", "10.0.0.130", ports=("dns:UDP:53", "dns:TCP:53", "sctp:SCTP:5000")),
            service("a/bare", "10.0.0.140", ports=()),
            service("a/hdls", "None", ports=("http:TCP:80", "dns:UDP:53")),
            service("a/portless", "None", ports=()),
            service("a/none", "None"),
            service("a/twins", "None"),
            service("svc/svc", "10.0.3.1"),
            service("gone/web", "10.0.2.100"),
            alias("a/out", "target.example.com"),
            alias("a/in", "web.a.svc.cluster.local"),
            alias("a/again", "in.a.svc.cluster.local."),
            alias("a/dangling", "nosuch.a.svc.cluster.local"),
            alias("a/self", "self.a.svc.cluster.local"),
            alias("a/below", "x.below.a.svc.cluster.local"),
            alias("a/round", "about.a.svc.cluster.local"),
            alias("a/about", "round.a.svc.cluster.local"),
            alias("a/address", "192.0.2.1"),
        ],
    ),
    (
        Kind.SLICE,
        [
            slice_of("a/web-1", "web", "172.0.0.10;web-0", "172.0.0.11", ports=("http:TCP:80", "metrics:TCP:9090")),
            slice_of("a/hdls-1", "hdls", "172.0.0.20;DB-0", "172.0.0.21;db-1", "172.0.0.22", ports=("http:TCP:80", "dns:UDP:53")),
            slice_of("a/hdls-2", "hdls", "fd00::20;DB-0", "fd00:0:0:1::", ports=("http:TCP:80", "dns:UDP:53")),
            slice_of("a/portless-1", "portless", "172.0.0.30;solo", ports=()),
            slice_of("a/twins-1", "twins", "172.0.2.1;a", "172.0.2.2;b"),
            slice_of("a/twins-2", "twins", "172.0.2.1;a", "172.0.2.3;c"),
            slice_of("a/nobody-1", "nobody", "172.0.4.1"),
            slice_of("gone/web-1", "web", "172.0.9.1"),
        ],
    ),
    (Kind.POD, [pod("a/web-0", "172.0.0.10"), pod("default/six", "fd00::99")]),
)
LEFT = [
    *(f"{item['metadata']['name']}.{item['metadata']['namespace']}.svc" for item in ODD[1][1]),
    *("nosuch.a.svc", "web.default.svc", "WEB.A.svc", "x.in.a.svc", "web.a.svc.x", "a.b.c.d.e.svc"),
    *(
        "_http._tcp.web.a.svc",
        "http.tcp.web.a.svc",
        "_http._udp.web.a.svc",
        "_._udp.multi.a.svc",
        "_._.web.a.svc",
        "_http._tcp.bare.a.svc",
        "_dns._udp.hdls.a.svc",
    ),
    *("db-0.hdls.a.svc", "db-1.hdls.a.svc", "172-0-0-22.hdls.a.svc", "172-0-0-20.hdls.a.svc", "fd00-0-0-1--0.hdls.a.svc", "172-0-0-11.web.a.svc"),
    *("web-0.web.a.svc", "solo.portless.a.svc", "172-0-4-1.nobody.a.svc", "a.twins.a.svc", "x.y.z.web.a.svc"),
    *("", "svc", "pod", "a.svc", "gone.svc", "empty.svc", "a.pod", "gone.pod", "dns-version", "x.dns-version", "nonsense", "x.ns.dns"),
    *("172-0-0-10.a.pod", "172-0-0-10.default.pod", "1-2-3-4.a.pod", "fd00--99.default.pod", "x.172-0-0-10.a.pod", "w.x.y.172-0-0-10.a.pod", "1-2-3-400.a.pod"),
]
REVERSED = ["10.0.0.100", "10.0.0.110", "fd00:10::110", "10.0.2.100", "172.0.0.10", "172.0.0.20", "fd00::20", "172.0.2.1"]
TYPES = (1, 5, 12, 15, 16, 28, 33, 6, 65, 255)


@pytest.mark.parametrize("pods", ["disabled", "insecure", "verified"])
def test_odd_names(serve, tmp_path: Path, pods: str) -> None:
    (tmp_path / "odd.jsonl").write_text(manifest(*ODD))
    properties = f"manifests {tmp_path}/odd.jsonl\n pods {pods}"
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n kubernetes cluster.local in-addr.arpa ip6.arpa {{\n {properties}\n }}\n}}")
    oracle = Oracle(cluster.manifests([tmp_path / "odd.jsonl"]), pods=pods)
    questions = [oracle.question(f"{left}.cluster.local.".removeprefix("."), qtype) for left in LEFT for qtype in TYPES]
    questions += [oracle.question(reverse_name(address), 12) for address in REVERSED]
    assert sum(question.rcode is None for question in questions) < len(questions) // 20
    assert all_wrong(server.port, questions) == []


@pytest.mark.parametrize("suffix", synthetic.SUFFIXES)
def test_all_formats_say_the_same(tmp_path: Path, suffix: str) -> None:
    shape = synthetic.Shape(services=10, endpoints=30)
    path = tmp_path / f"cluster{suffix}"
    counts = synthetic.write(synthetic.objects(shape), str(path))
    assert counts == {"Namespace": 3, "Node": 3, "Service": 14, "Pod": 45, "EndpointSlice": counts["EndpointSlice"]}
    made = cluster.manifests([path])
    assert list(made.services) == list(cluster.Cluster(_converted(shape)).services)
    assert sum(len(one.endpoints) for one in made.services.values()) > 20
    assert (len(made.services), len(made.namespaces)) == (14, 3)


def _converted(shape: synthetic.Shape):
    from fastdns.plugins.kubernetes.watch.manifests import convert

    return (found for item in synthetic.objects(shape) for found in convert(json.loads(json.dumps(item))))


def test_case_does_not_count_in_names_only() -> None:
    assert folded(Question("a.", 12))(b"\1A\0") == b"\1a\0"
    assert folded(Question("a.", 1))(b"AAAA") == b"AAAA"
