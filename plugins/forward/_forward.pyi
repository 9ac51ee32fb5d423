"""The native handler of forward."""

from typing import Any

from fastdns._mux import NativeHandler
from fastdns.plugins.forward.options import Options
from fastdns.plugins.forward.upstreams import Target
from fastdns.tls.context import ClientContext
from fastdns.walk.metadata import LabelHandle

class ForwardHandler(NativeHandler):
    """One instance: forwards what is at or below ``options.zone`` to the upstreams."""

    options: Options
    upstreams: list[Target]
    #: Of each scheme with TLS or QUIC.
    contexts: dict[str, ClientContext]

    def __init__(self, options: Options, upstreams: list[Target]) -> None:
        """ValueError for more upstreams than one instance can have."""

    def follow(self, above: ForwardHandler) -> None:
        """Comes after another one in the same server block: metadata are those of the one that was asked."""

    def label(self, name: str) -> LabelHandle | None:
        """Publishes metadata ``forward/upstream``."""

    def down(self) -> list[str]:
        """The upstreams to which no queries go at present, as more probes have failed than `max_fails` allows."""

    @property
    def hedges(self) -> bool:
        """Whether there may be second questions."""

    def set_recorder(self, address: int) -> None:
        """The function (`RecorderHandler.take_pairs`) that is told of second questions, once, before the chain is published."""

    def set_taps(self, senders: list[Any]) -> None:
        """The `Sender` of each *dnstap* of the block, once, before the chain is published."""
