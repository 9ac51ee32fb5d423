"""Rdata in presentation form and wire form; the native side is in ``zonefile/rdata.pxd``."""

def parse(qtype: int, text: str, origin: bytes | None = None) -> bytes:
    """Converts rdata to wire form with uncompressed names. ``origin`` (wire form) completes relative names; without it they are taken as absolute.

    Raises ValueError with the error text of CoreDNS's parser (``bad MX Pref``).
    """

def valid(qtype: int, rdata: bytes) -> bool:
    """Whether these octets are rdata of this type with uncompressed names, in a zone: none are of a type that no zone has. Any are valid for unknown types."""

def lower(qtype: int, rdata: bytes) -> bytes:
    """Rdata with its names in lower case, for the types of DNSSEC's canonical form (RFC 4034 6.2), SVCB and HTTPS.

    Raises ValueError when the rdata is not valid.
    """
