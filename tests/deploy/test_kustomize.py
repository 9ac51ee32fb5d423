"""The overlays render to what their comments say, and an API server takes them."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fastdns.plugins.k8s_gateway.kinds import GATEWAY, RESOURCES, SLICE
from tests.conformance.kube_api import KubeAPI
from tests.deploy.conftest import DEPLOY, PLURALS, ManifestServer
from tests.server import Server, command, free_port
from tests.waiting import until

KUSTOMIZE = DEPLOY / "kustomize"
Render = Callable[[Path], list[dict[str, Any]]]

pytestmark = [pytest.mark.skipif(not DEPLOY.is_dir(), reason="the source tree is not here"), pytest.mark.timeout(1500)]


def keyed(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in documents}


def plain() -> dict[str, dict[str, Any]]:
    return keyed([document for path in (DEPLOY / "kubernetes").glob("[!k]*.yaml") for document in yaml.safe_load_all(path.read_text())])


BASE = ["ClusterRole/system:coredns", "ClusterRoleBinding/system:coredns", "ConfigMap/coredns", "Deployment/coredns"]
BASE += ["Service/kube-dns", "ServiceAccount/coredns"]
ROWS = [
    ("base", BASE, []),
    ("overlays/kubeadm", ["Deployment/coredns"], ["Deployment/coredns"]),
    ("overlays/coredns-custom", [*BASE, "ConfigMap/coredns-custom"], []),
    ("overlays/multicluster", [*BASE, "ClusterRole/system:coredns-multicluster", "ClusterRoleBinding/system:coredns-multicluster"], ["ConfigMap/coredns"]),
    ("overlays/k8s-gateway", [*BASE, "ClusterRole/system:coredns-k8s-gateway", "ClusterRoleBinding/system:coredns-k8s-gateway"], ["ConfigMap/coredns"]),
    ("overlays/minimal-rbac", BASE, ["ClusterRole/system:coredns"]),
    ("overlays/replicas", BASE, ["ConfigMap/coredns", "Deployment/coredns"]),
    ("overlays/k3s", BASE, ["ConfigMap/coredns", "Deployment/coredns", "Service/kube-dns"]),
]


@pytest.mark.parametrize(("folder", "names", "changed"), ROWS, ids=[row[0] for row in ROWS])
def test_overlay_holds(kustomize: Render, folder: str, names: list[str], changed: list[str]) -> None:
    """Just these objects; all but those named are the plain manifests' as they stand."""
    got, manifests = keyed(kustomize(KUSTOMIZE / folder)), plain()
    assert sorted(got) == sorted(names)
    assert sorted(name for name, document in got.items() if name in manifests and document != manifests[name]) == changed


@pytest.mark.parametrize("folder", [row[0] for row in ROWS])
def test_the_api_server_takes_it(kustomize: Render, apiserver: ManifestServer, folder: str) -> None:
    taken = [apiserver.apply(document) for document in kustomize(KUSTOMIZE / folder) if document["kind"] in PLURALS]
    assert "coredns" in [document["metadata"]["name"] for document in taken]


def test_minimal_rights_are_those_that_the_corefile_uses(kustomize: Render, serve: Callable[[str], Server]) -> None:
    """A server with the overlay's *kubernetes* block asks for every resource of the role, and for no other."""
    objects = keyed(kustomize(KUSTOMIZE / "overlays/minimal-rbac"))
    granted = [resource for rule in objects["ClusterRole/system:coredns"]["rules"] for resource in rule["resources"]]
    block = re.search(r"kubernetes [^{]*{[^}]*}", objects["ConfigMap/coredns"]["data"]["Corefile"])
    assert block
    api = KubeAPI(free_port(), ["ns default", "svc default/web 10.0.0.1", "eps default/web 10.1.0.1"])
    api.grant(*granted)
    try:
        server = serve(f".:{{port}} {{\n{block[0].replace('{', f'{{{chr(10)} endpoint {api.url}', 1)}\n}}\n")
        until(lambda: [rrset[0].to_text() for rrset in server.query("web.default.svc.cluster.local.").answer] == ["10.0.0.1"])
        assert {path.partition("?")[0].rpartition("/")[2] for path in api.requests} == set(granted)
    finally:
        api.stop()


def test_rights_of_k8s_gateway(kustomize: Render) -> None:
    """Every kind that it may watch, and no other."""
    rules = keyed(kustomize(KUSTOMIZE / "overlays/k8s-gateway"))["ClusterRole/system:coredns-k8s-gateway"]["rules"]
    granted = {(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]}
    assert granted == {(kind.group, kind.plural) for kind in (*RESOURCES.values(), GATEWAY, SLICE)}


def test_kubeadm_overlay_exchanges_the_image_only(kustomize: Render, apiserver: ManifestServer) -> None:
    """On a Deployment that another manager wrote, with its own resources and arguments."""
    before = plain()["Deployment/coredns"]
    before["metadata"]["namespace"] = "kubeadm"
    container = before["spec"]["template"]["spec"]["containers"][0]
    container |= {"image": "registry.k8s.io/coredns/coredns:v1.14.2", "args": ["-conf", "/etc/coredns/Corefile", "-quiet"]}
    stored = apiserver.ask("POST", "/apis/apps/v1/namespaces/kubeadm/deployments?fieldManager=kubeadm", before)
    (overlay,) = kustomize(KUSTOMIZE / "overlays/kubeadm")
    overlay["metadata"]["namespace"] = "kubeadm"
    after = apiserver.apply(overlay)
    assert after["spec"]["template"]["spec"]["containers"][0].pop("image") == "fastdns:v1.14.7"
    assert stored["spec"]["template"]["spec"]["containers"][0].pop("image") == "registry.k8s.io/coredns/coredns:v1.14.2"
    assert after["spec"] == stored["spec"]
    # What is applied again as it was, by kubeadm, puts the image back.
    again = apiserver.apply(before, "kubeadm")
    assert again["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.k8s.io/coredns/coredns:v1.14.2"


@pytest.mark.parametrize(
    "folder", ["base", "overlays/coredns-custom", "overlays/multicluster", "overlays/k8s-gateway", "overlays/minimal-rbac", "overlays/replicas", "overlays/k3s"]
)
def test_corefile_is_served(kustomize: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """With every file of the ConfigMaps where the Deployment mounts it."""
    objects = keyed(kustomize(KUSTOMIZE / folder))
    pod = objects["Deployment/coredns"]["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    for volume in pod["volumes"]:
        data = objects.get(f"ConfigMap/{volume['configMap']['name']}", {}).get("data")
        assert data or volume["configMap"]["optional"]
        for key in [item["key"] for item in volume["configMap"].get("items", [])] or data or []:
            path = tmp_path / mounts[volume["name"]].lstrip("/") / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(data[key].replace("/etc/coredns", str(tmp_path / "etc/coredns")))
    for variable in pod["containers"][0].get("env", ()):
        monkeypatch.setenv(variable["name"], base64.b64encode(bytes(32)).decode())
    corefile = tmp_path / "etc/coredns/Corefile"
    checked = subprocess.run([*command(), "check", "--json", str(corefile)], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout
    assert [problem for problem in json.loads(checked.stdout)["problems"] if problem["severity"] == "error"] == []
    planned = subprocess.run([*command(), "plan", str(corefile)], capture_output=True, text=True, timeout=120).stdout
    assert ("corp.example" in planned) == (folder == "overlays/coredns-custom")
