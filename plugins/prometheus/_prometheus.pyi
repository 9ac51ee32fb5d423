"""The handler that counts queries."""

from fastdns._mux import NativeHandler
from fastdns.index.zone import Zone, ZoneSet

#: Values of the label `type`.
NAMES: tuple[str, ...]
#: Values of the label `rcode`.
RCODE: tuple[str, ...]

class Recorder(NativeHandler):
    """Counts each query that went through its chain, and those that no chain of its servers took (zone ``dropped``)."""

    def show(self, zone: str, transport: str, port: str, others: tuple[str, ...]) -> None:
        """Before the block serves: which of its keys `coredns_plugin_enabled` is for, and what it shows besides the handlers."""

    def follow(self, zones: ZoneSet) -> None:
        """Count queries for names in zones of this set apart, as far as `add_zone` knows them. Before the block serves."""

    def add_zone(self, zone: Zone) -> None:
        """To be called before a zone enters the set. The first 1,024 names of a block get a label of their own; what is counted stays when they go."""
