"""The cache on every node (deploy/node-local) in the cluster, and what is lost when it comes, when it is updated and when it goes."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cluster.control_plane import ControlPlane
from tests.cluster.images import NODE
from tests.cluster.nodes import DNS
from tests.cluster.rolling import Loss
from tests.cluster.scene import Scene
from tests.waiting import until

__all__ = ["LOCAL", "losses", "manifest"]

FOLDER = Path(__file__).resolve().parents[2] / "deploy/node-local"
LOCAL = "169.254.20.10"
PODS = ("-n", "kube-system", "-l", "k8s-app=node-local-dns")
#: Seconds for all of its pods to start or end.
LIMIT = 300.0
#: Seconds until the packet filter leads to it.
EFFECT = 60.0
#: Prints the page of its metrics, on its node.
METRICS = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9253/metrics', timeout=5).read().decode())"


def losses(scene: Scene, proxy_mode: str) -> Iterator[tuple[str, Loss]]:
    """What happens to the cache, and what the client lost of its queries. Afterwards it is gone."""
    control = scene.control
    text = manifest(control.kubectl("kustomize", str(FOLDER)), proxy_mode)
    # With iptables it has the address that clients know. Without, clients are told its own.
    if proxy_mode == "iptables":
        yield "is installed", scene.client.during(_timed(lambda: _install(control, text)))
    else:
        _install(control, text)
    server = DNS if proxy_mode == "iptables" else LOCAL
    until(lambda: _answers(scene, server), "an answer of the cache on the client's node", EFFECT)
    yield "is updated", scene.client.during(_timed(lambda: _update(control)), server)
    until(lambda: _answers(scene, server), "an answer of the updated cache on the client's node", EFFECT)
    yield "is there, and the DNS server is updated", scene.client.during(scene.deployment.restart, server)
    if proxy_mode == "iptables":
        yield "is removed", scene.client.during(_timed(lambda: _remove(control, text)))
    else:
        _remove(control, text)


def manifest(text: str, proxy_mode: str) -> str:
    """The manifest for this cluster, as docs/node-local.md has it; without iptables kube-proxy keeps the address of the service."""
    if proxy_mode != "iptables":
        text = re.sub(r"[ ,]__PILLAR__DNS__SERVER__", "", text)
    values = {"__PILLAR__DNS__DOMAIN__": "cluster.local", "__PILLAR__LOCAL__DNS__": LOCAL, "__PILLAR__DNS__SERVER__": DNS}
    for name, value in values.items():
        text = text.replace(name, value)
    return re.sub(r"(?m)^(\s*(?:- )?image: ).*$", rf"\g<1>{NODE}", text)


def _answers(scene: Scene, server: str) -> bool:
    """Whether the cache on the client's node, and no other server, answers a client."""
    before = _requests(scene)
    return bool(scene.client.asked("kubernetes.default.svc.cluster.local", server)) and before < _requests(scene) < math.inf


def _requests(scene: Scene) -> float:
    """How many questions the cache on the client's node has had: infinitely many while it does not tell."""
    page = scene.client.node.host.run(sys.executable, "-c", METRICS, check=False)
    counts = re.findall(r"(?m)^coredns_dns_requests_total\S* (\S+)$", page)
    return sum(map(float, counts)) if page else math.inf


def _install(control: ControlPlane, text: str) -> None:
    control.apply(text)
    _rolled_out(control)


def _update(control: ControlPlane) -> None:
    control.kubectl("-n", "kube-system", "rollout", "restart", "daemonset/node-local-dns")
    _rolled_out(control)


def _remove(control: ControlPlane, text: str) -> None:
    control.kubectl("delete", "-f", "-", "--ignore-not-found", text=text)
    until(lambda: not control.get("pods", *PODS)["items"], "the end of the caches", LIMIT)


def _rolled_out(control: ControlPlane) -> None:
    control.kubectl("-n", "kube-system", "rollout", "status", "daemonset/node-local-dns", f"--timeout={LIMIT:.0f}s", limit=LIMIT + 30)


def _timed(change: Callable[[], None]) -> Callable[[], float]:
    def timed() -> float:
        began = time.monotonic()
        change()
        return time.monotonic() - began

    return timed
