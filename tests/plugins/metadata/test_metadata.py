"""Labels from those who publish them to those who read them."""

from __future__ import annotations

import re

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.metadata import setup
from fastdns.setup import Controller
from fastdns.testing import Upstream
from fastdns.walk.metadata import is_label
from tests.certificates import write_certificates


@pytest.mark.parametrize(("text", "good"), [("p/L", True), ("p/a/b", True), ("L", False), ("/x", False), ("x/", False), ("/", False), ("", False)])
def test_labels(text: str, good: bool) -> None:
    assert is_label(text) is good


@pytest.mark.parametrize(
    ("text", "zones"), [("metadata", ("example.org.",)), ("metadata a.test B.test.", ("a.test.", "b.test.")), ("metadata 10.0.0.0/8", ("10.in-addr.arpa.",))]
)
def test_zones(text: str, zones: tuple[str, ...]) -> None:
    controller = Controller.of(text, ["example.org"])
    setup(controller)
    assert sorted(controller.config.values["metadata"].names) == sorted(zones)


@pytest.mark.parametrize("text", ["metadata a.test {\n x\n}", "metadata\nmetadata"])
def test_errors(text: str) -> None:
    with pytest.raises(CorefileError, match="Wrong argument count or unexpected line ending after"):
        setup(Controller.of(text))


def test_upstream_and_kind_of_answer_in_the_log(serve) -> None:
    with Upstream() as upstream:
        server = serve(
            '.:{port} {\n bind 127.0.0.1\n metadata a.test\n log . "MD {/forward/upstream} {/log/type} {/log/class} {/none/none} {name}"\n'
            f" forward . {upstream.address}\n}}\n"
            'plain.test:{port} {\n bind 127.0.0.1\n log . "MD {/forward/upstream} {/log/class} {name}"\n' + f" forward . {upstream.address}\n}}\n"
        )
        for name in ("x.a.test.", "x.b.test.", "x.plain.test."):
            server.query(name, "A")
        server.wait_log(rf"MD {upstream.address} NOERROR success - x\.a\.test\.")
        server.wait_log(rf"MD {upstream.address} NOERROR success - x\.b\.test\.")
        server.wait_log(r"MD - - x\.plain\.test\.")


def test_upstreams_of_several_forwards(serve) -> None:
    """That of the occurrence that was asked, over whichever transport."""
    scheme = '{scheme}://.:{{{port}}} {{\n tls server.pem server.key\n template IN A {{\n  answer "{{{{ .Name }}}} 60 IN A 192.0.2.9"\n }}\n}}\n'
    encrypted = serve(scheme.format(scheme="tls", port="port") + scheme.format(scheme="https", port="port2"), prepare=write_certificates)
    authority = encrypted.folder / "ca.pem"
    with Upstream() as first, Upstream() as last:
        server = serve(
            '.:{port} {\n bind 127.0.0.1\n metadata\n log . "MD {/forward/upstream} {name}"\n'
            f" forward a.test {first.address}\n"
            f" forward b.test tls://127.0.0.1:{encrypted.port} {{\n  tls {authority}\n  tls_servername server.test\n }}\n"
            f" forward c.test https://127.0.0.1:{encrypted.ports['port2']} {{\n  tls {authority}\n  tls_servername server.test\n }}\n"
            f" forward . {last.address}\n}}\n"
        )
        for name in ("x.a.test.", "x.b.test.", "x.c.test.", "x.d.test."):
            assert server.query(name, "A").answer
        server.wait_log(rf"MD {first.address} x\.a\.test\.")
        server.wait_log(rf"MD 127\.0\.0\.1:{encrypted.port} x\.b\.test\.")
        server.wait_log(rf"MD 127\.0\.0\.1:{encrypted.ports['port2']} x\.c\.test\.")
        server.wait_log(rf"MD {last.address} x\.d\.test\.")


CLUSTER = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: team}
  spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{name: http, protocol: TCP, port: 80}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: asker, namespace: team, labels: {app: shop, example.org/tier: front, empty: ""}}
  status: {podIP: 127.0.0.1, phase: Running}
"""

NAMES = [
    ("web.team.svc.cluster.local.", "team web   svc -"),
    ("_http._tcp.web.team.svc.cluster.local.", "team web http tcp svc -"),
    ("team.svc.cluster.local.", "team    svc -"),
    ("a.b.c.d.e.web.team.svc.cluster.local.", "- - - - - invalid query name"),
    ("www.example.org.", "- - - - - -"),
]


@pytest.mark.parametrize(("name", "line"), NAMES)
def test_parts_of_a_clusters_names(serve, name: str, line: str) -> None:
    labels = ("namespace", "service", "port-name", "protocol", "kind", "parse-error")
    form = " ".join(f"{{/kubernetes/{label}}}" for label in labels)
    server = serve(
        '.:{port} {\n bind 127.0.0.1\n metadata\n log . "K=' + form + '="\n kubernetes cluster.local {\n  manifests {dir}/cluster.yaml\n }\n}\n',
        prepare=lambda folder: (folder / "cluster.yaml").write_text(CLUSTER),
    )
    server.query(name, "A")
    server.wait_log(f"K={line}=")


ASKER = """
.:{port} {
    bind 127.0.0.1
    metadata
    log . "K={/kubernetes/client-namespace} {/kubernetes/client-pod-name} {/kubernetes/client-label/app} {/kubernetes/client-label/example.org/tier} \
{/kubernetes/client-label/empty}/{/kubernetes/client-label/none}="
    view shop {
        expr metadata('kubernetes/client-label/app') == '%s'
    }
    kubernetes cluster.local {
        manifests {dir}/cluster.yaml
        pods verified
    }
}
""".replace("\\\n", "")


def test_labels_of_the_pod_that_asks(serve) -> None:
    server = serve(ASKER % "shop", prepare=lambda folder: (folder / "cluster.yaml").write_text(CLUSTER))
    assert server.answers("web.team.svc.cluster.local.", "A") == ["10.96.0.1"]
    server.wait_log(r"K=team asker shop front /-=")


def test_a_view_knows_pods_by_their_labels(serve) -> None:
    server = serve(ASKER % "other", prepare=lambda folder: (folder / "cluster.yaml").write_text(CLUSTER))
    assert server.answers("web.team.svc.cluster.local.", "A") == ["REFUSED"]


ZONE = """$ORIGIN w.test.
@ 300 IN SOA ns host 1 2 3 4 300
@ NS ns
ns A 192.0.2.53
* TXT all
*.sub TXT sub
x.y A 192.0.2.1
"""

WILDCARDS = [
    ("a.w.test. TXT", "*.w.test."),
    ("A.b.SUB.w.test. TXT", "*.sub.w.test."),
    ("c.w.test. A", "*.w.test."),
    ("ns.w.test. A", "-"),
    ("x.y.w.test. A", "-"),
]


@pytest.mark.parametrize("cache", ["", "cache"])
def test_the_wildcard_that_answered(serve, cache: str) -> None:
    server = serve(
        '.:{port} {\n bind 127.0.0.1\n metadata\n log . "W={/zone/wildcard}= {name} {type} {>id}"\n ' + cache + "\n file {dir}/zone w.test\n}\n",
        prepare=lambda folder: (folder / "zone").write_text(ZONE),
    )
    for _ in range(2):
        for question, wildcard in WILDCARDS:
            reply = server.query(*question.split())
            server.wait_log(rf"W={re.escape(wildcard)}= {re.escape(question.split()[0].lower())} \S+ {reply.id}$")


def test_zones_bound_what_is_published_before_the_chain(serve) -> None:
    server = serve(
        '.:{port} {\n bind 127.0.0.1\n metadata a.test\n log . "V={/view/name} {name}"\n view v {\n  expr true\n }\n whoami\n}\n',
    )
    server.query("x.a.test.", "A")
    server.query("x.b.test.", "A")
    server.wait_log(r"V=v x\.a\.test\.")
    server.wait_log(r"V=- x\.b\.test\.")


def test_rewrite_puts_a_label_into_an_option(serve) -> None:
    with Upstream() as upstream:
        server = serve(
            ".:{port} {\n bind 127.0.0.1\n metadata\n view v {\n  expr true\n }\n rewrite edns0 local set 0xffee {view/name}\n"
            f" forward . {upstream.address}\n}}\n"
        )
        server.query("x.test.", "A")
        assert [(int(option.otype), option.to_wire()) for option in upstream.seen[-1].options] == [(0xFFEE, b"v")]
