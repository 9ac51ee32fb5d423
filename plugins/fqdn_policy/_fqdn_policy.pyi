"""The handler of *fqdn_policy*."""

from fastdns._mux import NativeHandler

class PolicyHandler(NativeHandler):
    """Parks replies with addresses until the agent at ``path`` has taken them; for names in ``zones``.

    ``timeout``: ns that a reply waits. ``closed``: it fails then, instead of leaving. ``waiting``: replies that may wait. MemoryError.
    """

    def __init__(self, path: str, zones: list[str], timeout: int, closed: bool, waiting: int) -> None: ...
    def connections(self) -> int:
        """How many workers are connected."""

    def waiting(self) -> int:
        """How many replies wait."""
