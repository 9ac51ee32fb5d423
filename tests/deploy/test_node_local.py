"""The manifests of the cache on every node keep the names and conventions of Kubernetes's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastdns
from fastdns.node.cache import IMAGE_SERVER
from fastdns.node.flags import parse
from fastdns.node.network import described
from fastdns.node.rights import parse_user
from fastdns.node.template import MODE, REPLICA, KubeDNS, render
from tests.deploy.conftest import DEPLOY

Render = Callable[[Path], list[dict[str, Any]]]
pytestmark = [pytest.mark.skipif(not DEPLOY.is_dir(), reason="the source tree is not here"), pytest.mark.timeout(1500)]


def filled(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """With what docs/node-local.md replaces."""
    text = json.dumps(documents)
    for pillar, value in (("DNS__DOMAIN", "cluster.local"), ("LOCAL__DNS", "169.254.20.10"), ("DNS__SERVER", "10.96.0.10")):
        text = text.replace(f"__PILLAR__{pillar}__", value)
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in json.loads(text)}


@pytest.fixture(scope="module")
def objects(kustomize: Render) -> dict[str, dict[str, Any]]:
    return filled(kustomize(DEPLOY / "node-local"))


def pick(document: Any, path: str) -> Any:
    for part in path.split("/"):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


POD = "spec/template/spec/"
DAEMONSET = "DaemonSet/node-local-dns"
ROWS: list[tuple[str, str, Any]] = [
    (DAEMONSET, "metadata/namespace", "kube-system"),
    (DAEMONSET, "spec/selector/matchLabels", {"k8s-app": "node-local-dns"}),
    (DAEMONSET, POD + "hostNetwork", True),
    (DAEMONSET, POD + "dnsPolicy", "Default"),
    (DAEMONSET, POD + "priorityClassName", "system-node-critical"),
    (DAEMONSET, POD + "serviceAccountName", "node-local-dns"),
    (DAEMONSET, POD + "containers/0/name", "node-cache"),
    (DAEMONSET, POD + "securityContext/seccompProfile", {"type": "RuntimeDefault"}),
    (DAEMONSET, POD + "containers/0/livenessProbe/httpGet", {"host": "169.254.20.10", "path": "/health", "port": 8080}),
    (DAEMONSET, "spec/updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}),
    (DAEMONSET, POD + "volumes/0", {"name": "handover", "hostPath": {"path": "/run/fastdns-node", "type": "DirectoryOrCreate"}}),
    (DAEMONSET, POD + "volumes/3/configMap", {"name": "node-local-dns", "items": [{"key": "Corefile", "path": "Corefile.base"}]}),
    ("Service/kube-dns-upstream", "spec/selector", {"k8s-app": "kube-dns"}),
    ("Service/node-local-dns", "spec/clusterIP", "None"),
    ("Service/node-local-dns", "spec/ports/0/port", 9253),
]


@pytest.mark.parametrize(("name", "path", "wanted"), ROWS, ids=[f"{row[0]}:{row[1]}" for row in ROWS])
def test_row(objects: dict[str, dict[str, Any]], name: str, path: str, wanted: Any) -> None:
    assert pick(objects[name], path) == wanted


def test_arguments(objects: dict[str, dict[str, Any]]) -> None:
    container = pick(objects[DAEMONSET], POD + "containers/0")
    flags = parse(container["args"])
    flags.validate()
    assert (flags.localip, flags.conf, flags.upstreamsvc) == ("169.254.20.10,10.96.0.10", "/etc/fastdns-node/Corefile", "kube-dns-upstream")
    assert f"Service/{flags.upstreamsvc}" in objects
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert flags.basecorefile == f"{mounts['config-volume']}/Corefile.base"
    assert mounts["kube-dns-config"] == "/etc/kube-dns"
    assert container["image"] == "fastdns-node:v" + fastdns.COREDNS_VERSION


def test_two_pods_fit_on_a_node(objects: dict[str, dict[str, Any]]) -> None:
    """Ports of a pod in the host's network are host ports, and the scheduler gives each to one pod. What says that the new pod serves is its own file."""
    containers = pick(objects[DAEMONSET], POD + "containers")
    assert all("ports" not in container for container in containers)
    probe = containers[0]["readinessProbe"]
    assert probe["exec"]["command"] == ["test", "-f", parse(containers[0]["args"]).pidfile]
    # The file is of a volume that ends with the pod.
    (volume,) = [mount["name"] for mount in containers[0]["volumeMounts"] if mount["mountPath"] == "/tmp"]
    assert {"name": volume, "emptyDir": {}} in pick(objects[DAEMONSET], POD + "volumes")


@pytest.mark.parametrize("folder", ["node-local", "node-replica"])
def test_rights(kustomize: Render, folder: str) -> None:
    """No container has more than it needs (tests/node/test_rights.py), and the server is no root's process."""
    pod = pick(filled(kustomize(DEPLOY / folder))[DAEMONSET], "spec/template/spec")
    added = {
        "node-cache": ["KILL", "NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW", "SETGID", "SETUID"],
        "sockets": ["NET_ADMIN", "NET_RAW"],
        "objects": ["CHOWN", "DAC_OVERRIDE"],
    }
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    for container in containers:
        rights = {"drop": ["ALL"], "add": added[container["name"]]}
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": rights}
    user = parse_user(parse(containers[0]["args"]).user)
    assert user is not None
    owned = [container["command"][2] for container in containers if container["name"] == "objects"]
    assert owned == [f"{user.uid}:{user.gid}"] * (folder == "node-replica")


def test_the_container_that_keeps_sockets(objects: dict[str, dict[str, Any]]) -> None:
    """It has the same folder, makes and removes the same interface and rules, and has no rights but for these."""
    cache, keeper = pick(objects[DAEMONSET], POD + "containers")
    flags, kept = parse(cache["args"]), parse(keeper["args"])
    for parsed in (flags, kept):
        parsed.validate()
    assert (flags.hold, kept.hold) == (False, True)
    assert kept.handover == flags.handover
    assert described(kept) == described(flags)
    for container in (cache, keeper):
        assert {"name": "handover", "mountPath": flags.handover} in container["volumeMounts"]
        assert {"name": "xtables-lock", "mountPath": "/run/xtables.lock", "readOnly": False} in container["volumeMounts"]
        assert container["image"] == "fastdns-node:v" + fastdns.COREDNS_VERSION


def test_corefile(objects: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    template = objects["ConfigMap/node-local-dns"]["data"]["Corefile"]
    text = render(template, ["169.254.20.10", "10.96.0.10"], "53", "10.96.7.7", KubeDNS({"acme.local": ["192.0.2.1"]}, ["192.0.2.2"]))
    assert "__PILLAR__" not in text
    # This machine has none of the addresses, so that only the chains are looked at.
    path = tmp_path / "Corefile"
    path.write_text("\n".join(line for line in text.splitlines() if not line.strip().startswith(("bind", "health"))))
    planned = subprocess.run([sys.executable, "-m", "fastdns", "plan", "-json", str(path)], capture_output=True, text=True, timeout=120, env={**os.environ})
    (server,) = json.loads(planned.stdout)["servers"]
    assert sorted(zone["zone"] for zone in server["zones"]) == [".", "acme.local.", "cluster.local.", "in-addr.arpa.", "ip6.arpa."]


def test_replica(kustomize: Render) -> None:
    """A mode and a template beside the other, a folder for the copy, the key, and the affinity."""
    plain, objects = filled(kustomize(DEPLOY / "node-local")), filled(kustomize(DEPLOY / "node-replica"))
    assert sorted(name for name, document in objects.items() if document != plain.get(name)) == [
        "ConfigMap/node-local-dns",
        DAEMONSET,
        "Service/kube-dns-upstream",
    ]
    data = objects["ConfigMap/node-local-dns"]["data"]
    assert data["Corefile"] == plain["ConfigMap/node-local-dns"]["data"]["Corefile"]
    assert data["kubernetes-mode"] == "replica"
    volumes = {volume["name"]: volume for volume in pick(objects[DAEMONSET], POD + "volumes")}
    assert {item["key"]: item["path"] for item in volumes["config-volume"]["configMap"]["items"]} == {
        "Corefile": "Corefile.base",
        "Corefile.replica": REPLICA,
        "kubernetes-mode": MODE,
    }
    container = pick(objects[DAEMONSET], POD + "containers/0")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    text = render(data["Corefile.replica"], ["169.254.20.10", "10.96.0.10"], "53", "10.96.7.7", KubeDNS())
    assert "__PILLAR__" not in text
    assert f"store {mounts['objects']}\n" in text
    assert f"{{${container['env'][0]['name']}}}" in text
    assert volumes["objects"]["hostPath"]["type"] == "DirectoryOrCreate"
    assert objects["Service/kube-dns-upstream"]["spec"]["sessionAffinity"] == "ClientIP"


def test_image() -> None:
    """A stage of its own; the last one, which is built by default, stays the server's. It has what the other base image brings."""
    text = (DEPLOY / "Dockerfile").read_text()
    stages = text.split("\nFROM ")
    (node,) = [stage for stage in stages if stage.startswith("${NODE_IMAGE} AS node")]
    assert 'ENTRYPOINT ["/node-cache"]' in node
    assert "iptables" in node
    assert "nftables" in node
    assert "libssl3" in node
    assert stages[-1].strip() == "server"
    layout = (DEPLOY / "root.sh").read_text()
    assert "launcher node-cache fastdns.node" in layout
    assert f"launcher {IMAGE_SERVER.lstrip('/')} fastdns\n" in layout
    # A file capability would clear the signal for the parent's death.
    assert not re.search(rf"setcap .*{IMAGE_SERVER}", text)
