"""The handler that counts queries."""

from fastdns._mux import NativeHandler

#: Values of the label `type`.
NAMES: tuple[str, ...]
#: Values of the label `rcode`.
RCODE: tuple[str, ...]

class Recorder(NativeHandler):
    """Counts each query that went through its chain, and those that no chain of its servers took (zone ``dropped``)."""
