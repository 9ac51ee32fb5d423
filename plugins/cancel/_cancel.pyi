from fastdns._mux import NativeHandler

class Cancel(NativeHandler):
    """Limits the time that a query and its children may wait to ``timeout`` nanoseconds."""

    def __init__(self, timeout: int) -> None: ...
