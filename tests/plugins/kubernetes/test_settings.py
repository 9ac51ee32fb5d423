"""The directive's properties: what is read, and what is refused with which words."""

from __future__ import annotations

from typing import Any

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.kubernetes import kinds
from fastdns.plugins.kubernetes.settings import Settings, parse
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.setup import Controller
from fastdns.telemetry import log_line

SERVER = ["cluster.local", "10.0.0.0/8"]


def read(text: str) -> Settings:
    return parse(Controller.of(text, SERVER))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("kubernetes", {"zones": ["cluster.local.", "10.in-addr.arpa."], "primary": "cluster.local.", "ttl": 5, "pods": "disabled"}),
        ("kubernetes Coredns.Local test.local", {"zones": ["coredns.local.", "test.local."], "primary": "coredns.local."}),
        ("kubernetes 10.0.0.0/16 x.test", {"zones": ["0.10.in-addr.arpa.", "x.test."], "primary": "x.test."}),
        ("kubernetes . {\n}", {"zones": ["."], "primary": "."}),
        ("kubernetes in-addr.arpa x.test", {"primary": "in-addr.arpa."}),  # the bare one counts as no reverse zone
        ("kubernetes {\n endpoint http://localhost:9090\n}", {"endpoint": "http://localhost:9090"}),
        ("kubernetes {\n tls a b c\n}", {"tls": ("a", "b", "c")}),
        ("kubernetes {\n kubeconfig file\n}", {"kubeconfig": "file", "context": ""}),
        ("kubernetes {\n kubeconfig file context\n}", {"kubeconfig": "file", "context": "context"}),
        ("kubernetes {\n apiserver_qps 1.5\n apiserver_burst 7\n apiserver_max_inflight 3\n}", {"qps": 1.5, "burst": 7, "inflight": 3}),
        ("kubernetes {\n apiserver_qps 0\n}", {"qps": 0.0}),
        ("kubernetes {\n namespaces a\n namespaces b c\n}", {"namespaces": ["a", "b", "c"]}),
        ("kubernetes {\n pods insecure\n}", {"pods": "insecure"}),
        ("kubernetes {\n pods verified\n}", {"pods": "verified"}),
        ("kubernetes {\n pods disabled\n}", {"pods": "disabled"}),
        ("kubernetes {\n endpoint_pod_names\n}", {"pod_names": True}),
        ("kubernetes {\n ttl 0\n}", {"ttl": 0}),
        ("kubernetes {\n ttl 3600 and more\n}", {"ttl": 3600}),
        ("kubernetes {\n noendpoints\n}", {"no_endpoints": True}),
        ("kubernetes", {"fallthrough": None}),
        ("kubernetes {\n fallthrough\n}", {"fallthrough": ["."]}),
        ("kubernetes {\n fallthrough IP6.arpa in-addr.arpa\n}", {"fallthrough": ["ip6.arpa.", "in-addr.arpa."]}),
        ("kubernetes {\n ignore empty_service\n}", {"ignore_empty": True}),
        ("kubernetes {\n ignore\n}", {"ignore_empty": False}),
        ("kubernetes x.test y.test {\n multicluster y.test\n}", {"multicluster": ["y.test."]}),
        ("kubernetes {\n multicluster\n}", {"multicluster": []}),
        ("kubernetes {\n zonal\n}", {"zonal": True}),
        ("kubernetes", {"topology": 0}),
        ("kubernetes {\n pods verified\n topology zone\n}", {"topology": 2}),
        ("kubernetes {\n topology node\n pods verified\n}", {"topology": 1}),
        ("kubernetes {\n pods verified\n topology node zone only\n}", {"topology": 7}),
        ("kubernetes {\n startup_timeout 1m1s\n}", {"startup_timeout": 61.0}),
        ("kubernetes {\n startup_timeout 0s\n}", {"startup_timeout": 0.0}),
        ("kubernetes {\n manifests a b\n manifests c\n}", {"manifests": ["a", "b", "c"]}),
        ("kubernetes {\n snapshot file\n}", {"snapshot": "file"}),
    ],
)
def test_read(text: str, wanted: dict[str, Any]) -> None:
    settings = read(text)
    assert {name: getattr(settings, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        ("", {Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE}),
        ("noendpoints", {Kind.NAMESPACE, Kind.SERVICE}),
        ("pods insecure", {Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE}),
        ("pods verified", {Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE, Kind.POD}),
        ("multicluster cluster.local", set(Kind) - {Kind.POD}),
    ],
)
def test_what_is_watched(properties: str, wanted: set[Kind]) -> None:
    assert set(kinds(read(f"kubernetes {{\n {properties}\n}}"))) == wanted


def test_selectors() -> None:
    settings = read("kubernetes {\n labels app in (a, b), !canary\n namespace_labels istio=enabled\n}")
    assert settings.labels is not None
    assert settings.namespace_labels is not None
    assert settings.labels.matches({"app": "a"})
    assert not settings.labels.matches({"app": "a", "canary": ""})
    assert str(settings.namespace_labels) == "istio=enabled"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kubernetes 10.0.0.0/8", "non-reverse zone name must be used"),
        ("kubernetes {\n endpoint\n}", "Wrong argument count or unexpected line ending after 'endpoint'"),
        ("kubernetes {\n tls a b\n}", "Wrong argument count or unexpected line ending after 'b'"),
        ("kubernetes {\n tls a b c d\n}", "Wrong argument count"),
        ("kubernetes {\n kubeconfig\n}", "Wrong argument count"),
        ("kubernetes {\n kubeconfig a b c\n}", "Wrong argument count"),
        ("kubernetes {\n apiserver_qps x\n}", 'invalid apiserver_qps "x": strconv.ParseFloat: parsing "x": invalid syntax'),
        ("kubernetes {\n apiserver_qps -1\n}", "apiserver_qps must be >= 0"),
        ("kubernetes {\n apiserver_burst 1.5\n}", 'invalid apiserver_burst "1.5": strconv.Atoi: parsing "1.5": invalid syntax'),
        ("kubernetes {\n apiserver_max_inflight -3\n}", "apiserver_max_inflight must be >= 0"),
        ("kubernetes {\n apiserver_max_inflight\n}", "Wrong argument count"),
        ("kubernetes {\n namespaces\n}", "Wrong argument count"),
        ("kubernetes {\n namespaces a\n namespace_labels b=c\n}", "namespaces and namespace_labels cannot both be set"),
        ("kubernetes {\n labels app in (\n}", "unable to parse label selector value: 'app in (': "),
        ("kubernetes {\n namespace_labels !!\n}", "unable to parse namespace_label selector value: '!!': "),
        ("kubernetes {\n labels\n}", "Wrong argument count"),
        ("kubernetes {\n pods\n}", "Wrong argument count"),
        ("kubernetes {\n pods insecure verified\n}", "Wrong argument count"),
        ("kubernetes {\n pods secure\n}", "wrong value for pods: secure,  must be one of: disabled, verified, insecure"),
        ("kubernetes {\n endpoint_pod_names yes\n}", "Wrong argument count"),
        ("kubernetes {\n ttl\n}", "Wrong argument count"),
        ("kubernetes {\n ttl x\n}", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("kubernetes {\n ttl -1\n}", "ttl must be in range [0, 3600]: -1"),
        ("kubernetes {\n ttl 3601\n}", "ttl must be in range [0, 3600]: 3601"),
        ("kubernetes {\n noendpoints x\n}", "Wrong argument count"),
        ("kubernetes {\n ignore pods\n}", "unable to parse ignore value: 'pods'"),
        (
            "kubernetes x.test y.test {\n multicluster z.test\n}",
            "is not authoritative for the multicluster zone z.test. (authoritative zones: [x.test. y.test.])",
        ),
        ("kubernetes {\n zonal x\n}", "Wrong argument count"),
        ("kubernetes {\n topology\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'topology'"),
        ("kubernetes {\n topology zone\n}", "topology requires pods verified, which finds the node of a client"),
        ("kubernetes {\n pods verified\n topology zone\n noendpoints\n}", "topology requires the endpoint cache; remove noendpoints"),
        *(
            (
                f"kubernetes {{\n pods verified\n topology {words}\n}}",
                f"wrong value for topology: {words}, must be one of: zone, node, node zone, and may end in: only",
            )
            for words in ("only", "region", "zone node", "zone zone", "only zone", "Zone")
        ),
        ("kubernetes {\n zonal\n noendpoints\n}", "zonal requires the endpoint cache; remove noendpoints"),
        ("kubernetes {\n startup_timeout\n}", "Wrong argument count"),
        ("kubernetes {\n startup_timeout 5\n}", 'failed to parse startup_timeout: 5, time: missing unit in duration "5"'),
        ("kubernetes {\n manifests\n}", "Wrong argument count"),
        ("kubernetes {\n manifests a\n endpoint http://b\n}", "manifests takes the place of endpoint and kubeconfig; remove them"),
        ("kubernetes {\n manifests a\n snapshot b\n}", "manifests needs no snapshot; remove it"),
        ("kubernetes {\n upstream\n}", "unknown property 'upstream'"),
        ("kubernetes {\n resyncperiod 5m\n}", "unknown property 'resyncperiod'"),
        ("kubernetes {\n transfer to *\n}", "unknown property 'transfer'"),
        ("kubernetes {\n federation\n}", "unknown property 'federation'"),
        ("kubernetes {\n autopath\n}", "unknown property 'autopath'"),
        ("kubernetes x.test\nkubernetes y.test", "this plugin can only be used once per Server Block"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as error:
        read(text)
    assert message in str(error.value)


def test_several_endpoints_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(log_line, "put", lambda *line: said.append(log_line.compose(*line).decode()))
    assert read("kubernetes {\n endpoint http://a http://b\n}").endpoint == "http://a"
    assert said == ["[WARNING] plugin/kubernetes: Multiple endpoints have been deprecated, only the first specified endpoint 'http://a' is used"]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            "",
            "plugin/kubernetes: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
        ),
        ("manifests {dir}/nowhere", "plugin/kubernetes: manifests: .*/nowhere: no such file or folder"),
        ("kubeconfig {dir}/nowhere", "plugin/kubernetes: stat .*/nowhere: no such file or directory"),
    ],
)
def test_a_server_that_cannot_find_its_objects_does_not_start(serve, properties: str, message: str) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""}
    server = serve(f"cluster.local:{{port}} {{\n kubernetes {{\n {properties}\n }}\n}}", wait=False, env=env)
    assert server.exit_status() == 1
    server.wait_log(message)
