"""The native handler."""

from collections.abc import Mapping, Sequence

from fastdns._mux import NativeHandler
from fastdns.plugins.recorder._memory import Recording

def chain_of(number: int) -> tuple[tuple[str, Mapping[str, str]], ...]:
    """Names of a chain's handlers, with their words for `fastdns explain`; empty for number 0."""

def zone_of(label: int) -> tuple[str, str, str]:
    """Address, zone and view of a label."""

class RecorderHandler(NativeHandler):
    """Records the queries of one server block."""

    recording: Recording
    def __init__(self, recording: Recording) -> None: ...
    def take_pairs(self) -> int:
        """Have room for two upstreams that are asked the same. Before the chain is built.

        Returns the address of a function (`asked_func` of _asked.pxd) that is to be told of them.
        """

    def name_chain(self, handlers: Sequence[NativeHandler]) -> None:
        """What the handlers of the block are called, by their positions."""
