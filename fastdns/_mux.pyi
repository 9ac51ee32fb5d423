"""From question to chain: what plugin set-ups and the server hand to the native side. Hooks are in ``_mux.pxd``."""

from fastdns.setup.traits import Traits

def api() -> tuple[str, str]:
    """Version and fingerprint of the headers that this was built with; native plugins must have been built with the same."""

class NativeHandler:
    """A handler of a chain in C memory. Native subclasses set its hooks in ``__cinit__``."""

    plugin: object
    """The plugin's own object, if it wants one kept alive."""

    def __init__(self, name: str = "") -> None: ...
    @property
    def name(self) -> str:
        """Of the directive."""
    @property
    def traits(self) -> Traits | None:
        """What the plugin declares of itself; None: none were declared."""
    def set_traits(self, traits: Traits) -> None: ...
    def set_name(self, name: str) -> None: ...
    def attach(self, servers: list[tuple[int, str]], view: str) -> None:
        """Before the chain is published: (label, address) of each server that serves the block. Metric cells are made here."""
    def attach_zones(self, zones: list[tuple[int, str, str, str]]) -> None:
        """Likewise, for handlers that count by zone: (label, address, zone, view) of each."""
    def close(self) -> None:
        """After the chain was retired and no worker is in it."""
