"""What clients see while a node is lost, or its disk is about to be full."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

from tests.cluster.nodes import Node
from tests.cluster.scene import RETURN, Outcome, Scene
from tests.waiting import until

__all__ = ["FAULTS"]

#: Seconds after which kubelet looks at the disk again.
ROUND = 10.0


def node_lost(scene: Scene) -> Outcome:
    """The node of one DNS pod is cut from the network, until nobody is sent to it any more, and comes back."""

    def lost() -> str:
        pod, node = scene.pod_of_other_node()
        ready = scene.deployment.ready()
        scene.network.cut(node.host)
        try:
            until(lambda: pod["metadata"]["name"] not in scene.deployment.ready(), "the news that the node's pod is not ready", RETURN)
        finally:
            scene.network.join(node.host)
        until(lambda: scene.deployment.ready() == ready, "the node's return", RETURN)
        return ""

    return scene.during(lost)


def disk_pressure(scene: Scene) -> Outcome:
    """kubelet takes the disk of a node for full: it evicts pods, and takes no others."""

    def full() -> str:
        pod, node = scene.pod_of_other_node()
        name = pod["metadata"]["name"]
        configure(node, {**node.kubelet(), "evictionHard": {"nodefs.available": "99%"}})
        try:
            until(lambda: under_pressure(scene, node), "the node's disk pressure", RETURN)
            time.sleep(2 * ROUND)
            kept = name in scene.deployment.ready()
        finally:
            configure(node, node.kubelet())
        until(lambda: not under_pressure(scene, node), "the end of the node's disk pressure", RETURN)
        # kubelet has deleted those that no pod had, and there is no registry to ask.
        node.load_images()
        return "the DNS pod stays, which its priority makes critical" if kept else "the DNS pod is evicted"

    return scene.during(full)


def configure(node: Node, configuration: Mapping[str, object]) -> None:
    """Start kubelet anew; what runs goes on."""
    (node.host.folder / "kubelet.json").write_text(json.dumps(configuration, indent=1))
    node.host.stop("kubelet")
    node.start_kubelet()


def under_pressure(scene: Scene, node: Node) -> bool:
    conditions = scene.control.get("node", node.host.name)["status"]["conditions"]
    return any(condition["type"] == "DiskPressure" and condition["status"] == "True" for condition in conditions)


FAULTS: Mapping[str, Callable[[Scene], Outcome]] = {
    "a node lost and back": node_lost,
    "the disk of a node full for kubelet": disk_pressure,
}
