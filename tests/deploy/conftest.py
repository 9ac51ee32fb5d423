"""The tools that operators render manifests with, and the API server that takes them."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.process import ApiServer
from tests.cluster.programs import HELM
from tests.deploy.schema import check
from tests.programs import built

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="session")
def kustomize(request: pytest.FixtureRequest) -> Callable[[Path], list[dict[str, Any]]]:
    """``kustomize(folder)`` renders a folder and checks each object."""
    if path := shutil.which("kustomize"):
        command = [path, "build"]
    elif path := shutil.which("kubectl"):
        command = [path, "kustomize"]
    else:
        command = [built(request.getfixturevalue("go"), "kustomize", "sigs.k8s.io/kustomize/kustomize/v5", "v5.7.1"), "build"]

    def render(folder: Path) -> list[dict[str, Any]]:
        done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        documents = list(yaml.safe_load_all(done.stdout))
        for document in documents:
            check(document)
        return documents

    return render


@pytest.fixture(scope="session")
def helm_program(request: pytest.FixtureRequest) -> str:
    """The helm command."""
    return shutil.which("helm") or built(request.getfixturevalue("go"), "helm", "helm.sh/helm/v3/cmd/helm", HELM)


@pytest.fixture(scope="session")
def helm(helm_program: str) -> Callable[..., dict[str, dict[str, Any]]]:
    """``helm(chart, *arguments)`` renders a release `r` and checks each object of Kubernetes's own kinds; by ``Kind/name``."""

    def render(chart: Path, *arguments: str) -> dict[str, dict[str, Any]]:
        done = subprocess.run([helm_program, "template", "r", str(chart), "-n", "kube-system", *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        documents = [document for document in yaml.safe_load_all(done.stdout) if document]
        for document in documents:
            if ".coreos.com/" not in document["apiVersion"]:
                check(document)
        objects = {f"{document['kind']}/{document['metadata']['name']}": document for document in documents}
        assert len(objects) == len(documents)
        return objects

    return render


PLURALS = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Service": ("/api/v1", "services"),
    "Deployment": ("/apis/apps/v1", "deployments"),
}


class ManifestServer(ApiServer):
    """An API server that takes manifests."""

    def path(self, document: dict[str, Any]) -> str:
        root, plural = PLURALS[document["kind"]]
        return f"{root}/namespaces/{document['metadata']['namespace']}/{plural}/{document['metadata']['name']}"

    def apply(self, document: dict[str, Any], manager: str = "fastdns") -> Any:
        """Server-side apply that takes fields over, as with ``--force-conflicts``; unknown fields are errors."""
        options = f"?fieldManager={manager}&force=true&fieldValidation=Strict"
        return self.ask("PATCH", self.path(document) + options, document, "application/apply-patch+yaml")

    def apply_service(self, name: str, address: str, seconds: float = 0) -> None:
        """A service and its slice with one endpoint, which says that it has changed so many seconds ago."""
        changed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
        port = {"name": "http", "port": 80, "protocol": "TCP"}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [port]}}
        piece = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{name}-1",
                "labels": {"kubernetes.io/service-name": name},
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": changed},
            },
            "addressType": "IPv4",
            "ports": [port],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        }
        for path, document in (
            (f"/api/v1/namespaces/monitored/services/{name}", service),
            (f"/apis/discovery.k8s.io/v1/namespaces/monitored/endpointslices/{name}-1", piece),
        ):
            self.ask("PATCH", f"{path}?fieldManager=t&force=true", document, "application/apply-patch+yaml")


@pytest.fixture(scope="session")
def apiserver(cluster_programs: Path) -> Iterator[ManifestServer]:
    server = ManifestServer()
    yield server
    server.stop()
