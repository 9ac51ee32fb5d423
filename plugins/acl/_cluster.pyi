"""What a handler that knows the names of a cluster gives to acl."""

class ClusterNamesHandle:
    """Which namespaces a question is for, and the SOA of the cluster's zones; made by a handler's ``cluster_names(guarded=...)``."""

    #: What the names borrow from.
    kept: object
    #: Of the cluster, with their final dots.
    zones: tuple[str, ...]

class Unsynced:
    """Tells acl's handler that the cluster's state does not count any more; made by a handler's ``unsynced(mode, after)``."""

    def set(self, clients: bool, names: bool) -> None:
        """Whether which pod has an address, and whose address a reverse name is for, are taken as unknown."""

    @property
    def state(self) -> tuple[bool, bool]:
        """What was set last."""
