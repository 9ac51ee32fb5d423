"""What a handler that knows the names of a cluster gives to acl."""

class ClusterNamesHandle:
    """Which namespaces a question is for, and the SOA of the cluster's zones; made by a handler's ``cluster_names(guarded=...)``."""

    #: What the names borrow from.
    kept: object
    #: Of the cluster, with their final dots.
    zones: tuple[str, ...]
