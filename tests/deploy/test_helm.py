"""The chart takes the values of CoreDNS's chart, and what it renders is valid and served."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import fastdns
from tests.deploy.conftest import DEPLOY, PLURALS, ManifestServer
from tests.server import command

CHART = DEPLOY / "helm" / "fastdns"
VALUES = Path(__file__).parent / "values.yaml"
Render = Callable[..., dict[str, dict[str, Any]]]

#: Slow: on a new machine helm is built with Go, which takes minutes.
pytestmark = [pytest.mark.skipif(not DEPLOY.is_dir(), reason="the source tree is not here"), pytest.mark.timeout(1500), pytest.mark.slow]

#: What CoreDNS's chart 1.46 renders of its default values.
DEFAULT_COREFILE = """.:53 {
    errors
    health {
        lameduck 10s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus 0.0.0.0:9153
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance
}
"""


@pytest.fixture(scope="module")
def full(helm: Render) -> dict[str, dict[str, Any]]:
    """The objects with all values set."""
    return helm(CHART, "-f", str(VALUES))


def pick(document: Any, path: str) -> Any:
    for part in path.split("/"):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def test_lint(helm_program: str) -> None:
    for arguments in ([], ["-f", str(VALUES)]):
        done = subprocess.run([helm_program, "lint", "--strict", str(CHART), *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def test_default_objects(helm: Render) -> None:
    """Under the names and the selector that CoreDNS's chart gives: those of a Deployment cannot be changed by an upgrade."""
    objects = helm(CHART)
    assert sorted(objects) == ["ClusterRole/r-coredns", "ClusterRoleBinding/r-coredns", "ConfigMap/r-coredns", "Deployment/r-coredns", "Service/r-coredns"]
    selector = {"app.kubernetes.io/instance": "r", "app.kubernetes.io/name": "coredns", "k8s-app": "coredns"}
    deployment = objects["Deployment/r-coredns"]["spec"]
    assert deployment["selector"]["matchLabels"] == deployment["template"]["metadata"]["labels"] == selector
    assert objects["Service/r-coredns"]["spec"]["selector"] == selector
    container = deployment["template"]["spec"]["containers"][0]
    assert container["image"] == "fastdns:v" + fastdns.COREDNS_VERSION
    assert container["args"] == ["-conf", "/etc/coredns/Corefile"]
    ports = [(port["name"], port["port"], port["protocol"]) for port in objects["Service/r-coredns"]["spec"]["ports"]]
    assert ports == [("udp-53", 53, "UDP"), ("tcp-53", 53, "TCP")]
    assert [port["name"] for port in container["ports"]] == ["udp-53", "tcp-53", "tcp-9153"]


def test_default_corefile(helm: Render, tmp_path: Path) -> None:
    corefile = helm(CHART)["ConfigMap/r-coredns"]["data"]["Corefile"]
    assert corefile == DEFAULT_COREFILE
    (tmp_path / "Corefile").write_text(corefile)
    checked = subprocess.run([*command(), "check", str(tmp_path / "Corefile")], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout


def leaves(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(values, list) and values:
        for number, value in enumerate(values):
            yield from leaves(value, f"{path}.{number}")
    else:
        yield path, values


def test_every_value_is_in_the_table() -> None:
    """All of values.yaml is set in the values of these tests, so that the test below sees it."""
    table = [path for path, _ in leaves(yaml.safe_load(VALUES.read_text()))]
    for path, _ in leaves(yaml.safe_load((CHART / "values.yaml").read_text())):
        if not re.match(r"\.servers", path):
            assert any(other == path or other.startswith(path + ".") for other in table), path


def test_every_value_is_used(full: dict[str, dict[str, Any]], helm: Render) -> None:
    found = full | helm(CHART, "-f", str(VALUES), "--set", "autoscaler.enabled=false")
    found["hpa"] = helm(CHART, "-f", str(VALUES), "--set", "autoscaler.enabled=false", "--set", "hpa.enabled=true")
    rendered = "\n".join(f"{path}: {value}" for path, value in leaves(found | {"scaler": full}))
    for path, value in leaves(yaml.safe_load(VALUES.read_text())):
        if value is None or isinstance(value, bool) or value == "":
            continue
        # A block of a plugin is indented, a line at a time.
        for line in str(value).replace("{{ .Release.Name }}", "r").splitlines():
            assert re.search(rf"(?<!\w){re.escape(line)}(?!\w)", rendered), f"{path}: {value!r} is nowhere"


def test_values_of_another_chart(helm: Render) -> None:
    """With --reuse-values on a release of CoreDNS's chart, values that only this one has are not there, nor are their defaults."""
    missing = ["fastdns", "nameOverride", "fullnameOverride", "k8sAppLabelOverride", "hpa.behavior", "autoscaler.customFlags", "rbac.multiclusterEnable"]
    given = [argument for name in missing for argument in ("--set", f"{name}=null")]
    for more in ([], ["--set", "autoscaler.enabled=true"], ["--set", "hpa.enabled=true"]):
        assert helm(CHART, *given, *more) == helm(CHART, *more)


ROWS = [
    ("Deployment/set-deployment", "spec/template/spec/containers/0/args", ["-conf", "/etc/coredns/Corefile", "-workers", "3"]),
    ("Deployment/set-deployment", "spec/template/spec/automountServiceAccountToken", False),
    ("Deployment/set-deployment", "spec/template/spec/volumes/1", {"name": "snapshot", "hostPath": {"path": "/var/lib/set-host", "type": "DirectoryOrCreate"}}),
    ("Deployment/set-deployment", "spec/template/spec/volumes/3/secret/defaultMode", 0o644),
    (
        "Service/set-service",
        "spec/ports",
        [
            {"name": "udp-1053", "port": 2053, "protocol": "UDP", "targetPort": 1053, "nodePort": 30053},
            {"name": "tcp-1053", "port": 2053, "protocol": "TCP", "targetPort": 1053, "nodePort": 30053},
            {"name": "udp-4053", "port": 4053, "protocol": "UDP", "targetPort": 4053},
        ],
    ),
    ("ServiceMonitor/set-full", "metadata/namespace", "set-monitoring"),
    ("ServiceMonitor/set-full", "spec/endpoints/0/honorLabels", True),
    ("Role/set-role", "metadata/namespace", "set-namespace"),
    ("Role/set-role", "rules/0/resources", ["services", "pods"]),
    ("Role/set-role", "rules/2/resources", ["serviceimports"]),
    ("RoleBinding/set-role", "roleRef/kind", "Role"),
    ("RoleBinding/set-role", "subjects/0/name", "set-account"),
    (
        "Pod/set-full-test",
        "spec/containers/0/command",
        ["nslookup", "-port=$(SET_SERVICE_SERVICE_PORT)", "set-test.example", "$(SET_SERVICE_SERVICE_HOST)"],
    ),
    ("Pod/set-full-test", "metadata/labels/k8s-app", "kube-dns-test"),
    ("PodDisruptionBudget/set-full", "spec/selector/matchLabels/k8s-app", "kube-dns"),
]


@pytest.mark.parametrize(("name", "path", "wanted"), ROWS, ids=[f"{row[0]}:{row[1]}" for row in ROWS])
def test_row(full: dict[str, dict[str, Any]], name: str, path: str, wanted: Any) -> None:
    assert pick(full[name], path) == wanted


RIGHTS = [
    ([], ["endpoints", "services", "pods", "namespaces"]),
    (["--set", "fastdns.rbac.minimal=true"], ["services", "namespaces"]),
    (["--set", "fastdns.rbac.minimal=true", "--set", "fastdns.rbac.pods=true"], ["services", "pods", "namespaces"]),
]


@pytest.mark.parametrize(("given", "wanted"), RIGHTS, ids=["CoreDNS's", "minimal", "minimal with pods"])
def test_rights(helm: Render, given: list[str], wanted: list[str]) -> None:
    role = helm(CHART, *given)["ClusterRole/r-coredns"]
    assert [rule["resources"] for rule in role["rules"]] == [wanted, ["endpointslices"]]


def test_rights_in_namespaces(helm: Render) -> None:
    objects = helm(CHART, "--set", "fastdns.rbac.namespaces={shop}")
    assert not [name for name in objects if name.startswith("Cluster")]
    role, binding = objects["Role/r-coredns"], objects["RoleBinding/r-coredns"]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "shop"
    assert [rule["resources"] for rule in role["rules"]] == [["services"], ["endpointslices"]]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r-coredns"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "default", "namespace": "kube-system"}]


def test_autoscaler_settings(full: dict[str, dict[str, Any]]) -> None:
    linear = json.loads(full["ConfigMap/set-full-autoscaler"]["data"]["linear"])
    wanted = {"coresPerReplica": 149, "nodesPerReplica": 151, "min": 157, "max": 163, "includeUnschedulableNodes": True, "preventSinglePointFailure": False}
    assert linear == wanted
    assert "replicas" not in full["Deployment/set-deployment"]["spec"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "deployment.dnsPolicy=None"], "needs deployment.dnsConfig"),
        (["--set", "servers=null"], None),
        (["--set", "deployment.enabled=false"], None),
    ],
)
def test_odd_values(helm_program: str, arguments: list[str], said: str | None) -> None:
    done = subprocess.run([helm_program, "template", "r", str(CHART), *arguments], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == (said is not None), done.stderr
    assert (said or "") in done.stderr


SCHEMES = [("", "udp-53"), ("tls://", "tcp-53"), ("https://", "tcp-53"), ("grpc://", "tcp-53"), ("quic://", "udp-53"), ("https3://", "udp-53")]


@pytest.mark.parametrize(("scheme", "port"), SCHEMES)
def test_schemes(helm: Render, tmp_path: Path, scheme: str, port: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"servers": [{"zones": [{"zone": ".", "scheme": scheme}], "port": 53, "plugins": [{"name": "whoami"}]}]}))
    objects = helm(CHART, "-f", str(values))
    assert [entry["name"] for entry in objects["Service/r-coredns"]["spec"]["ports"]] == [port]
    assert objects["ConfigMap/r-coredns"]["data"]["Corefile"] == f"{scheme}.:53 {{\n    whoami\n}}\n"


def test_full_corefile_is_served(full: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    corefile = full["ConfigMap/set-full"]["data"]["Corefile"]
    assert "cache 1000000\n" in corefile
    assert "snapshot /var/lib/set-snapshot/kubernetes-0\n" in corefile
    (tmp_path / "Corefile").write_text(corefile)
    planned = subprocess.run([*command(), "plan", "-json", str(tmp_path / "Corefile")], capture_output=True, text=True, timeout=120)
    servers = {server["address"]: [zone["zone"] for zone in server["zones"]] for server in json.loads(planned.stdout)["servers"]}
    assert servers == {"dns://:1053": ["first.example.", "second.example."], "dns://:4053": ["."]}


def test_the_api_server_takes_it(helm: Render, full: dict[str, dict[str, Any]], apiserver: ManifestServer) -> None:
    for objects in (helm(CHART), full):
        for document in objects.values():
            if document["kind"] in PLURALS and document["metadata"]["name"] != "set-service":  # its address is of another range
                apiserver.apply(document)
