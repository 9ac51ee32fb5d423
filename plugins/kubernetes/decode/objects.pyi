"""Takers of Kubernetes objects: see _objects.pxd."""

class Sink:
    """Takes Kubernetes objects; this base class ignores them. The store of the kubernetes plugin derives from it."""

    def __init__(self) -> None: ...
    def lose(self, kind: int, since: float | None) -> None:
        """Changes of a kind do not come any more since a time of `time.monotonic`; None: they do."""

    def limit_age(self, seconds: float | None, fails: bool) -> None:
        """What changes have not come to for so long is stale; then queries get SERVFAIL, or answers that say so. None: never."""
