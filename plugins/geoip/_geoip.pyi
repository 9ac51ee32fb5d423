"""Labels of metadata out of a database of addresses."""

from fastdns._mux import NativeHandler
from fastdns.plugins.geoip._mmdb import Database
from fastdns.walk.metadata import LabelHandle

class GeoipHandler(NativeHandler):
    """Publishes what a database says of a query's client; the chain passes it by.

    ``city`` and ``asn`` say which labels there are. With ``subnet`` the address of the query's client-subnet option (RFC 7871) counts, if it has one.
    """

    def __init__(self, database: Database, *, city: bool, asn: bool, subnet: bool = False) -> None: ...
    def label(self, name: str) -> LabelHandle | None:
        """Publishes ``geoip/NAME``."""
