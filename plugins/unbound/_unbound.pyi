"""The native handler of unbound."""

from fastdns._mux import NativeHandler
from fastdns.plugins.unbound.shared import SharedContext

class UnboundHandler(NativeHandler):
    """Has libunbound answer what is below its zones."""

    #: What answers; given back when the handler is closed.
    context: SharedContext

    def __init__(self, context: SharedContext, zones: list[str], excepted: list[str]) -> None: ...
