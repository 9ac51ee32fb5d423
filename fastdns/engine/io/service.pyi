"""What clients of a listening address get; the native side is in ``engine/io/service.pxd``."""

from fastdns.tls.context import ServerContext

class Service:
    """Of an address whose clients connect. It is replaced whole by a reload."""

    def __init__(self, transport: str, context: ServerContext | None = None) -> None:
        """``transport`` is a scheme of the Corefile: ``tls``. None: in clear text. KeyError for another one, OSError when there are no threads."""
    @property
    def context(self) -> ServerContext | None: ...
