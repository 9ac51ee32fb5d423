"""DNS wire format for Python code that runs rarely, and for tests; the native side is in ``_wire.pxd``."""

def name_text(wire: bytes) -> str:
    """Presentation form (RFC 1035 5.1, final dot) of an uncompressed name in wire form. Raises ValueError when the octets are not a name."""

def name_wire(text: str) -> bytes:
    """Wire form of a name in presentation form (RFC 1035 5.1). Case is kept; relative names are taken as absolute.

    Raises ValueError for an empty label, a label over 63 octets, a bad escape or a name over 255 octets.
    """

def accept(packet: bytes) -> tuple[int, int, str | None, int, int]:
    """`wire_accept` of a message: acceptance (the enum of ``_wire.pxd``), rcode, question name or None, type and class."""

def suffix_hashes(wire: bytes) -> list[int]:
    """32-bit hashes of all suffixes of a name in wire form, the whole name first; equal for names that differ in case only."""

def records(packet: bytes) -> list[tuple[int, bytes, int, int, int, bytes]]:
    """All records of a message: section, owner, type, class, TTL, rdata with names expanded. ValueError when it is malformed."""
