"""The native handler of forward."""

from typing import Any

from fastdns._mux import NativeHandler
from fastdns.plugins.forward.options import Options
from fastdns.plugins.forward.upstreams import Target
from fastdns.walk.metadata import LabelHandle

class ForwardHandler(NativeHandler):
    """One instance: forwards what is at or below ``options.zone`` to the upstreams."""

    options: Options
    upstreams: list[Target]
    #: What asks the upstreams over TLS and HTTPS, if there are any.
    client_loop: Any

    def __init__(self, options: Options, upstreams: list[Target]) -> None:
        """ValueError for more upstreams than one instance can have."""

    def label(self, name: str) -> LabelHandle | None:
        """Publishes metadata ``forward/upstream``."""

    def set_taps(self, senders: list[Any]) -> None:
        """The `Sender` of each *dnstap* of the block, once, before the chain is published."""

    def set_client(self, index: int, client: int) -> None:
        """Gives an upstream the number by which the client loop knows it."""

    def probe_failed(self, index: int) -> None:
        """One more failed health check of an upstream."""

    def probe_succeeded(self, index: int) -> None:
        """An upstream has answered its health check."""

    def count_connection(self, index: int, hit: bool) -> None:
        """Counts an exchange over TLS by whether its connection stood already."""
