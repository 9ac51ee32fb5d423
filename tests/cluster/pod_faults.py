"""What clients see while pods of the DNS server end: killed, without memory, deleted, evicted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from tests.cluster.deployment import PODS
from tests.cluster.nodes import Node
from tests.cluster.scene import Outcome, Scene
from tests.waiting import until

__all__ = ["FAULTS"]

#: Seconds for pods to end and others to be ready.
AGAIN = 120.0
#: Takes memory of a control group, whose ``cgroup.procs`` is its argument, until there is none left.
TAKES_MEMORY = """
import pathlib, sys
pathlib.Path(sys.argv[1]).write_text("0")
taken = []
while True:
    taken.append(b"x" * (1 << 20))
"""


def pod_killed(scene: Scene) -> Outcome:
    """The process of one pod is killed, until kubelet has started it again and it is ready."""

    def killed() -> str:
        pod = next(pod for pod in scene.deployment.pods() if pod["metadata"]["name"] in scene.deployment.ready())
        node = next(node for node in scene.nodes if node.host.name == pod["spec"]["nodeName"])
        node.host.run(*node.ctr("tasks", "kill", "--signal", "SIGKILL", container(pod)))
        until(lambda: restarted(scene, pod), "the pod's second start", AGAIN)
        return ""

    return scene.during(killed)


def out_of_memory(scene: Scene) -> Outcome:
    """Another process takes all memory that one pod may have, and the kernel ends the pod's."""

    def taken() -> str:
        pod, node = scene.pod_of_other_node()
        processes = [line.split()[0] for line in node.host.run(*node.ctr("tasks", "ps", container(pod))).splitlines()[1:]]
        for process in processes:
            # The kernel ends those of the highest score first. To raise it needs no capability, to lower it does.
            node.host.run("sh", "-c", f"echo 1000 > /proc/{process}/oom_score_adj")
        node.host.run(sys.executable, "-c", TAKES_MEMORY, memory_group(node, processes[0]), check=False)
        until(lambda: restarted(scene, pod), "the pod's second start", AGAIN)
        ended = next(found for found in scene.deployment.pods() if found["metadata"]["name"] == pod["metadata"]["name"])
        last = ended["status"]["containerStatuses"][0]["lastState"]["terminated"]
        return f"kubelet says {last['reason']}, status {last['exitCode']}"

    return scene.during(taken)


def pods_gone(scene: Scene) -> Outcome:
    """All pods of the DNS server are deleted at once, until as many others are ready."""

    def gone() -> str:
        before = scene.deployment.ready()
        scene.control.kubectl("delete", "pods", *PODS, "--wait=false")
        until(lambda: len(scene.deployment.ready() - before) == len(before), "the new pods", AGAIN)
        return ""

    return scene.during(gone)


def drained(scene: Scene) -> Outcome:
    """All pods of a node are evicted by the API, as before it is taken out of service."""

    def evicted() -> str:
        pod, node = scene.pod_of_other_node()
        name = node.host.name
        try:
            words = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={AGAIN:.0f}s"]
            scene.control.kubectl("drain", name, *words, limit=AGAIN + 30)
            until(lambda: pod["metadata"]["name"] not in {found["metadata"]["name"] for found in scene.deployment.pods()}, "the pod's end", AGAIN)
        finally:
            scene.control.kubectl("uncordon", name)
        return ""

    return scene.during(evicted)


def container(pod: Mapping[str, Any]) -> str:
    """The name of its container for containerd."""
    return str(pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2])


def restarted(scene: Scene, pod: Mapping[str, Any]) -> bool:
    """Whether a pod was started again and is ready."""
    name, before = pod["metadata"]["name"], pod["status"]["containerStatuses"][0]["restartCount"]
    found = {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in scene.deployment.pods()}
    return bool(found[name] > before) and name in scene.deployment.ready()


def memory_group(node: Node, process: str) -> str:
    """The file ``cgroup.procs`` of the group that bounds the memory of a process: of the controller in cgroup v1, and of the one group in v2."""
    groups = [line.split(":", 2) for line in node.host.run("cat", f"/proc/{process}/cgroup").splitlines()]
    for _, controllers, path in groups:
        if "memory" in controllers.split(","):
            return f"/sys/fs/cgroup/memory{path}/cgroup.procs"
    return f"/sys/fs/cgroup{groups[0][2]}/cgroup.procs"


FAULTS: Mapping[str, Callable[[Scene], Outcome]] = {
    "one DNS pod killed": pod_killed,
    "one DNS pod without memory": out_of_memory,
    "all DNS pods deleted": pods_gone,
    "a node drained": drained,
}
