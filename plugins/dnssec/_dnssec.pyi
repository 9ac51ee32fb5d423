from fastdns._mux import NativeHandler
from fastdns.index.zone_list import ZoneList

class DnssecHandler(NativeHandler):
    """Answers DNSKEY queries for the apex of ``zones``, and signs replies to queries with DO.

    ``number`` is the handler's for the signing thread, ``keys`` are (TTL, DNSKEY rdata), ``capacity`` is how many RRsets' signatures
    are kept, ``pace`` how many RRsets may be signed in a second.
    """

    def __init__(self, name: str, zones: ZoneList, number: int, keys: list[tuple[int, bytes]], capacity: int, pace: int) -> None: ...
    def entries(self) -> int:
        """RRsets whose signatures are kept."""

    def octets(self) -> int:
        """Memory of those."""

    def find(self, key: bytes, moment: int) -> bytes | None:
        """The signatures kept for a key (see ``_signatures.pxd``) that are good for two days behind ``moment`` (Unix seconds)."""

    def put(self, key: bytes, begins: int, expires: int, octets: bytes) -> None:
        """Keeps signatures, each with its length in two octets before it. Signing thread only."""

    def free_retired(self) -> None:
        """Frees what was taken out, once no worker reads it."""

    def clean(self, moment: int) -> None:
        """Takes out what expires within two days behind ``moment`` (Unix seconds)."""
