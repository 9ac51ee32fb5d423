from fastdns.plugins.kubernetes._handler import ViewHandler
from fastdns.walk.metadata import LabelHandle

def publish(handler: ViewHandler, name: str) -> LabelHandle | None:
    """The label of metadata ``kubernetes/NAME``, or None."""

def certain(handler: ViewHandler, name: str) -> LabelHandle | None:
    """``client-namespace``, ``client-pod-name``, ``client-node-name`` and ``client-label/KEY`` for those who decide by them what a client may do.

    None where pods are not verified. Unset for clients that are no pod, that share their node's network, or whose address several pods have that differ
    in it. A pod's node is known where nodes are kept (`topology`).
    """
