"""rrl's handler."""

from fastdns._mux import NativeHandler
from fastdns.plugins.rrl.settings import Settings
from fastdns.walk.metadata import LabelHandle

class RrlHandler(NativeHandler):
    """Drops requests and replies above the rates of ``settings``. MemoryError."""

    def __init__(self, name: str, settings: Settings) -> None: ...
    def use_cookies(self, cookies: NativeHandler) -> None:
        """The handler of *cookies* in the same block, before this one serves. Without it no datagram proves its address."""
    def use(self, namespace: LabelHandle, pod: LabelHandle | None) -> None:
        """Where a client's namespace and pod are read, before the handler serves. Without it accounts are those of networks alone."""
