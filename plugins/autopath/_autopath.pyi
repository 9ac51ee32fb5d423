"""autopath's handler."""

from collections.abc import Iterable

from fastdns._mux import NativeHandler

class SearchPathHandle:
    """What ``search_path()`` of a handler that knows the search path of each client returns, or ``question_path()``; made by native code."""

class AutopathHandler(NativeHandler):
    """Walks search paths for names in ``zones``. ``search`` is a fixed path as text, ending in the root; ValueError for what is no name."""

    def __init__(self, zones: Iterable[str], search: list[str] | None = None) -> None: ...
    def use(self, provider: SearchPathHandle) -> None:
        """Ask another handler of the block for each client's path. Only before the chain is published."""
