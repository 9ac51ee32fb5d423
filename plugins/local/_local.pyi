from fastdns._mux import NativeHandler

class LocalHandler(NativeHandler):
    """Answers localhost and its reverse names; with ``prefix`` also names whose first label is localhost."""

    def __init__(self, name: str, prefix: bool) -> None: ...
