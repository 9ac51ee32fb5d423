"""DNS wire format: the Python side, for tests and for what asks rarely. The native one is in ``_wire.pxd``."""

def name_text(wire: bytes) -> str:
    """Presentation form of an uncompressed wire-form name. ValueError when it is not one."""

def name_wire(text: str) -> bytes:
    """Wire form of a presentation-form name (RFC 1035 5.1); case kept, relative names are taken as absolute.

    ValueError for an empty label, a label over 63 octets, a bad escape or a name over 255 octets.
    """

def accept(packet: bytes) -> tuple[int, int, str | None, int, int]:
    """What the server makes of a message: acceptance (as in ``_wire.pxd``), rcode, question name, type and class."""

def suffix_hashes(wire: bytes) -> list[int]:
    """The hashes of all suffixes of a name, the whole name first; equal for names that differ in case only."""

def records(packet: bytes) -> list[tuple[int, bytes, int, int, int, bytes]]:
    """All records of a message: section, owner, type, class, TTL, rdata with names expanded. ValueError when it is malformed."""
