from fastdns._mux import NativeHandler

class HeaderHandler(NativeHandler):
    """Changes the flags of queries on their way down, and of replies on their way up; each by (bits to set, bits to clear)."""

    def __init__(self, name: str, query: tuple[int, ...], response: tuple[int, ...]) -> None: ...
