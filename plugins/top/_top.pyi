"""The handler of *top*."""

from collections.abc import Sequence

from fastdns._mux import NativeHandler
from fastdns.walk.metadata import LabelHandle

class TopHandler(NativeHandler):
    """TopHandler(name, search): ``search`` are the zones of clients' search domains."""

    def __init__(self, name: str, search: Sequence[str]) -> None: ...
    def use(self, namespace: LabelHandle, pod: LabelHandle | None, node: LabelHandle | None) -> None:
        """Where the client's pod, and its node, are read."""
