from fastdns._mux import NativeHandler
from fastdns.plugins.autopath._autopath import SearchPathHandle

class ErraticHandler(NativeHandler):
    """Answers A, AAAA and AXFR; of so many queries one is dropped, delayed (by ``duration`` nanoseconds) or cut, 0 for none."""

    def __init__(self, name: str, drop: int, delay: int, truncate: int, duration: int, large: bool) -> None: ...
    def ready(self) -> bool:
        """Only after the third query and before the sixth."""
    def search_path(self) -> SearchPathHandle:
        """a.example.org, b.example.org, and the root, for whoever asks."""
