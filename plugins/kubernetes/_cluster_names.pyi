"""Which namespaces a question is for, and the SOA of the cluster's zones, for plugin acl."""

from fastdns.plugins.acl._cluster import ClusterNamesHandle
from fastdns.plugins.kubernetes._handler import ViewHandler

def cluster_names(handler: ViewHandler, guarded: bool) -> ClusterNamesHandle:
    """See `fastdns.plugins.kubernetes._kubernetes.Kubernetes.cluster_names`."""
