"""The native handler of grpc."""

from fastdns._mux import NativeHandler
from fastdns.plugins.grpc import Options
from fastdns.tls.context import ClientContext

class GrpcHandler(NativeHandler):
    """Asks each upstream at most once, in the order of the policy."""

    options: Options
    #: None: clear text.
    context: ClientContext | None

    def __init__(self, options: Options) -> None:
        """OSError, ValueError: its files cannot be used."""
