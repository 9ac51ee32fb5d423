from fastdns._mux import NativeHandler

class BufsizeHandler(NativeHandler):
    """Lets no client's UDP size be above ``size`` octets."""

    def __init__(self, name: str, size: int) -> None: ...
