from fastdns._mux import NativeHandler
from fastdns.plugins.rewrite.rules import Rule
from fastdns.setup.config import Config

class RewriteHandler(NativeHandler):
    """Applies rules to queries and to their answers."""

    #: The most bits of the client's IPv4 and IPv6 address that a rule tells upstreams; 0: none.
    subnet_bits: tuple[int, int]

    def __init__(self, name: str, rules: list[Rule]) -> None: ...
    def resolve(self, config: Config) -> None:
        """Looks the labels of metadata up that rules read; before the chain is published."""
