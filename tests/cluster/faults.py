"""What clients see while parts of the cluster are away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.cluster.control_plane import ControlPlane
from tests.cluster.deployment import PODS, Deployment
from tests.cluster.nodes import Node
from tests.cluster.rolling import Client, Loss
from tests.waiting import until

__all__ = ["AWAY", "Return", "api_server_away", "pod_killed", "pods_gone"]

#: Seconds without an API server.
AWAY = 60.0
#: Seconds for all to be as before: kube-proxy and the DNS server wait between attempts.
RETURN = 180.0
SERVICE = """apiVersion: v1
kind: Service
metadata: {name: new, namespace: default}
spec: {ports: [{port: 80}]}
"""


class Return(NamedTuple):
    """Of the API server: seconds until all nodes reached it again by its service, which is kube-proxy's doing, and then until a new service had its name."""

    reached: float
    known: float


def api_server_away(control: ControlPlane, nodes: Sequence[Node], deployment: Deployment, client: Client) -> tuple[Loss, Return]:
    """Queries while the API server is away for AWAY seconds, and until all is as before: without it the node is taken for lost, and its pods for not ready."""
    times: list[float] = []

    def away() -> float:
        began = time.monotonic()
        pods = deployment.ready()
        control.host.stop("kube-apiserver")
        time.sleep(AWAY)
        control.start_apiserver()
        times.append(time.monotonic())
        control.apply(SERVICE)
        until(lambda: all(node.reaches_api_server() for node in nodes), "the way of all nodes to the API server", RETURN)
        times.append(time.monotonic())
        until(lambda: client.asked("new.default.svc.cluster.local"), "the new service's address", RETURN)
        times.append(time.monotonic())
        until(lambda: deployment.ready() == pods, "the readiness of the DNS pods", RETURN)
        return time.monotonic() - began

    loss = client.during(away)
    control.kubectl("delete", "service", "new")
    back, reached, known = times
    return loss, Return(reached - back, known - reached)


def pods_gone(control: ControlPlane, deployment: Deployment, client: Client) -> Loss:
    """Queries while all pods of the DNS server are deleted at once, until as many others are ready."""

    def gone() -> float:
        began = time.monotonic()
        before = deployment.ready()
        control.kubectl("delete", "pods", *PODS, "--wait=false")
        until(lambda: len(deployment.ready() - before) == len(before), "the new pods", 120)
        return time.monotonic() - began

    return client.during(gone)


def pod_killed(nodes: Sequence[Node], deployment: Deployment, client: Client) -> Loss:
    """Queries while the process of one pod is killed, as for want of memory, until kubelet has started it again and it is ready."""

    def killed() -> float:
        began = time.monotonic()
        pod = next(pod for pod in deployment.pods() if pod["metadata"]["name"] in deployment.ready())
        name, status = pod["metadata"]["name"], pod["status"]["containerStatuses"][0]
        node = next(node for node in nodes if node.host.name == pod["spec"]["nodeName"])
        node.host.run(*node.ctr("tasks", "kill", "--signal", "SIGKILL", status["containerID"].rpartition("/")[2]))

        def restarted() -> bool:
            found = {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in deployment.pods()}
            return bool(found[name] > status["restartCount"]) and name in deployment.ready()

        until(restarted, "the pod's second start", 120)
        return time.monotonic() - began

    return client.during(killed)
