from fastdns._metadata import LabelHandle
from fastdns.plugins.kubernetes._kubernetes import Kubernetes

def publish(handler: Kubernetes, name: str) -> LabelHandle | None:
    """The label of metadata ``kubernetes/NAME``, or None."""
