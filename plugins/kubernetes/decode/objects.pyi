"""Takers of Kubernetes objects: see _objects.pxd."""

class Sink:
    """Takes Kubernetes objects; this base class ignores them. The store of the kubernetes plugin derives from it."""

    def __init__(self) -> None: ...
    def lose(self, kind: int, since: float | None) -> None:
        """Changes of a kind do not come any more since a time of `time.monotonic`; None: they do."""
