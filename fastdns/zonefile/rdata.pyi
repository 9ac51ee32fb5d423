"""Rdata from its presentation form; the native side is in ``zonefile/rdata.pxd``."""

def parse(qtype: int, text: str, origin: bytes | None = None) -> bytes:
    """Rdata in wire form, names uncompressed; relative names end in ``origin`` (wire form), or else are taken as absolute.

    Raises ValueError with the words of CoreDNS's parser (``bad MX Pref``).
    """

def valid(qtype: int, rdata: bytes) -> bool:
    """Whether these octets are rdata of this type, with no name compressed. Types without a name may hold anything."""

def lower(qtype: int, rdata: bytes) -> bytes:
    """Valid rdata with its names in lower case where DNSSEC's canonical form has them so (RFC 4034 6.2), and in SVCB and HTTPS.

    Raises ValueError for what is not valid.
    """
