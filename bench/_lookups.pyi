"""Look-ups in an index as a worker does them."""

from collections.abc import Sequence

from fastdns._index import Index

class Reader:
    """Looks names (wire form) up in turn, without the GIL, with the epoch slot of `worker`.

    ``checked``: every A record found must hold four octets and their complement; `torn` counts those that do not.
    """

    lookups: int
    hits: int
    torn: int
    #: Nanoseconds in `run`.
    elapsed: int

    def __init__(self, index: Index, names: Sequence[bytes], worker: int = 0, checked: bool = False) -> None: ...
    def run(self, most: int = 0, qtype: int = 1) -> None:
        """Until `most` look-ups are done (0: no limit) or `stop` is called."""

    def stop(self) -> None:
        """End `run`, from another thread."""
