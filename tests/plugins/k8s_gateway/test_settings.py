"""The directive's properties: what is read, and what is refused with which words."""

from __future__ import annotations

from typing import Any

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.k8s_gateway import setup
from fastdns.plugins.k8s_gateway.settings import Settings, parse
from fastdns.setup import Controller

SERVER = ["example.org", "example.net"]


def read(text: str) -> Settings:
    return parse(Controller.of(f"k8s_gateway {text}", SERVER))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {"zones": ["example.org.", "example.net."], "resources": ["Ingress", "Service"], "ttl": 60, "apex": "dns1.kube-system", "secondary": ""}),
        ("A.Test b.test", {"zones": ["a.test.", "b.test."]}),
        ("{\n resources HTTPRoute Service HTTPRoute\n}", {"resources": ["HTTPRoute", "Service"]}),
        ("{\n resources TLSRoute GRPCRoute DNSEndpoint Node Ingress\n}", {"resources": ["TLSRoute", "GRPCRoute", "DNSEndpoint", "Node", "Ingress"]}),
        ("{\n ingressClasses a b\n gatewayClasses c\n}", {"ingress_classes": ["a", "b"], "gateway_classes": ["c"]}),
        ("{\n ttl 0\n}", {"ttl": 0}),
        ("{\n ttl 3600\n}", {"ttl": 3600}),
        ("{\n apex a.b\n secondary c.d\n}", {"apex": "a.b", "secondary": "c.d"}),
        ("{\n nodeAddressType ExternalIP\n}", {"node_address": "ExternalIP"}),
        ("{\n fallthrough\n}", {"fall": ["."]}),
        ("{\n fallthrough a.test\n}", {"fall": ["a.test."]}),
        ("{\n kubeconfig file context\n}", {"kubeconfig": "file", "context": "context"}),
        ("{\n endpoint http://localhost:1\n tls a b c\n}", {"endpoint": "http://localhost:1", "tls": ("a", "b", "c")}),
        ("{\n apiserver_qps 2\n apiserver_burst 3\n apiserver_max_inflight 4\n startup_timeout 1s\n}", {"qps": 2, "burst": 3, "inflight": 4}),
    ],
)
def test_read(text: str, wanted: dict[str, Any]) -> None:
    settings = read(text)
    assert {name: getattr(settings, name) for name in wanted} == wanted


def test_selectors() -> None:
    settings = read('{\n serviceLabelSelectors a=b "c in (d, e),!f"\n serviceLabelSelectors g\n}')
    assert [str(selector) for selector in settings.selectors] == ["a=b", "c in (d,e),!f", "g"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "Unknown property 'nonsense'"),
        ("resources", "Incorrectly formatted 'resource' parameter"),
        ("resources Pod", "unknown resource 'Pod'"),
        ("ingressClasses", "Incorrectly formatted 'ingressClasses' parameter"),
        ("gatewayClasses", "Incorrectly formatted 'gatewayClasses' parameter"),
        ("serviceLabelSelectors", "serviceLabelSelectors requires at least one argument"),
        ('serviceLabelSelectors ""', "serviceLabelSelectors does not accept empty strings"),
        ("serviceLabelSelectors =", 'invalid serviceLabelSelectors "="'),
        ("ttl", "Wrong argument count"),
        ("ttl 3601", r"ttl must be in range \[0, 3600\]: 3601"),
        ("ttl -1", r"ttl must be in range \[0, 3600\]: -1"),
        ("apex", "Wrong argument count"),
        ("secondary", "Wrong argument count"),
        ("kubeconfig", "Wrong argument count"),
        ("nodeAddressType Hostname", "nodeAddressType must be 'InternalIP' or 'ExternalIP', got: Hostname"),
        ("tls a", "Wrong argument count"),
        ("apiserver_qps -1", "apiserver_qps must be >= 0"),
        ("apex a..b", "no host name: 'a..b'"),
        (f"secondary {'.'.join(['a' * 60] * 3 + ['a' * 49])}", "a name server's name of more than 244 octets"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(CorefileError, match=words) as caught:
        setup(Controller.of(f"k8s_gateway {{\n endpoint http://127.0.0.1:1\n {text}\n}}", SERVER))
    assert "Testfile:3" in str(caught.value) or text.startswith(("apex a", "secondary a"))


def test_a_ttl_that_is_no_number() -> None:
    with pytest.raises(ValueError, match='strconv.Atoi: parsing "x": invalid syntax'):
        read("{\n ttl x\n}")


def test_a_cluster_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CorefileError, match="unable to load in-cluster configuration"):
        setup(Controller.of("k8s_gateway", SERVER))
