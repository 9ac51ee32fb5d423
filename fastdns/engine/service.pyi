"""What clients of a listening address get; the native side is in ``engine/service.pxd``."""

from fastdns.tls.context import ServerContext

class Service:
    """Of an address whose clients connect. It is replaced whole by a reload."""

    def __init__(self, transport: str, context: ServerContext | None = None, max_connections: int = 0, max_streams: int = 0, cells: int = 0) -> None:
        """``transport`` is a scheme of the Corefile: ``tls``, ``https``, ``grpc``. None: in clear text.

        ``max_connections`` is of the address, ``max_streams`` of a connection: requests under way; 0: no limit but the workers'. ``cells`` is the first
        of the cells of https's metric of responses, in the order of DohStatus (engine/http/doh.pxd), 0: none. Raises KeyError for another transport.
        """
    @property
    def context(self) -> ServerContext | None: ...
