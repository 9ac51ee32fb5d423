"""What faults act on, and what they leave to tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.cluster.control_plane import ControlPlane
from tests.cluster.deployment import Deployment
from tests.cluster.hosts import Network
from tests.cluster.nodes import Node
from tests.cluster.rolling import Client, Loss
from tests.waiting import until

__all__ = ["RETURN", "SERVICE", "Outcome", "Scene"]

#: Seconds for all to be as before: kube-proxy, kubelet and the DNS server wait between attempts.
RETURN = 180.0
SERVICE = """apiVersion: v1
kind: Service
metadata: {name: new, namespace: default}
spec: {ports: [{port: 80}]}
"""


class Outcome(NamedTuple):
    """What clients saw, and what else there is to say."""

    loss: Loss
    note: str = ""


class Scene(NamedTuple):
    control: ControlPlane
    nodes: Sequence[Node]
    network: Network
    deployment: Deployment
    client: Client

    def during(self, change: Callable[[], str]) -> Outcome:
        """Queries while something happens, until the DNS pods are as many as before and ready; it tells what there is to say."""
        notes: list[str] = []

        def timed() -> float:
            began, count = time.monotonic(), len(self.deployment.ready())
            notes.append(change())
            until(lambda: len(self.deployment.ready()) == count, "the readiness of the DNS pods", RETURN)
            return time.monotonic() - began

        try:
            return Outcome(self.client.during(timed), *notes)
        finally:
            self.control.kubectl("delete", "service", "new", "--ignore-not-found")

    def knows_new_service(self) -> bool:
        return bool(self.client.asked("new.default.svc.cluster.local"))

    def new_service_known(self, limit: float = RETURN) -> float:
        """The seconds until the new service is known. Raises AssertionError where that takes longer."""
        began = time.monotonic()
        until(self.knows_new_service, "the new service's address", limit)
        return time.monotonic() - began

    def pod_of_other_node(self) -> tuple[dict[str, Any], Node]:
        """A DNS pod that is ready on another node than the client's, and its node."""
        ready, away = self.deployment.ready(), {node.host.name: node for node in self.nodes if node is not self.client.node}
        for pod in self.deployment.pods():
            if pod["metadata"]["name"] in ready and pod["spec"]["nodeName"] in away:
                return pod, away[pod["spec"]["nodeName"]]
        raise RuntimeError("no DNS pod is ready on another node than the client's")
