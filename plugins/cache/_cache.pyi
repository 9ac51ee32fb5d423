"""The cache's handler."""

from fastdns._mux import NativeHandler
from fastdns.plugins.cache import Settings
from fastdns.plugins.cache._contents import SharedContents

class CacheHandler(NativeHandler):
    """The cache of one server block; ``settings`` are read once, ``handlers``, those of the block, when it is
    attached: their ``subnet_bits`` are how many bits of the client's IPv4 and IPv6 address they tell upstreams. MemoryError when there is none."""

    #: It shares a former handler's entries.
    inherited: bool

    def __init__(self, settings: Settings, handlers: list[NativeHandler]) -> None: ...
    def take_over(self, former: CacheHandler) -> None:
        """Share the entries of a handler with the same settings, which may serve still. Before it is attached; no effect when that one is closed."""

    def bound(self, share: float) -> None:
        """Hold this share (up to 1) of the capacities from now on; those that are shared with a former handler stay as they are."""

    def contents(self) -> SharedContents | None:
        """What it has; None once it is closed."""

    def observed(self) -> list[str]:
        """Zones whose names are removed when they change."""

    def entries(self) -> tuple[int, int]:
        """How many entries there are: success, denial."""

    def octets(self) -> int:
        """Memory mapped for entries, in octets."""

class Count:
    """Gives the number of entries of a type (0 success, 1 denial) when /metrics is read."""

    def __init__(self, handler: CacheHandler, kind: int) -> None: ...
    def __call__(self) -> int: ...
