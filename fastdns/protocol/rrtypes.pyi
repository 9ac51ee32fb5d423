"""Resource record types; the native side is in ``rrtypes.pxd``."""

#: Mnemonics by number, as the Go library behind CoreDNS prints them.
TYPES: dict[int, str]

def layout(number: int) -> tuple[int | str, ...]:
    """Blocks of the type's rdata: a number of octets, ``compressible``, ``decompressible`` or ``name`` for names, ``string``, ``remainder``."""

def flags(number: int) -> set[str]:
    """The type's flags: ``meta``, ``qtype``, ``reserved``, ``canonical``, ``zone lower``, ``additional``, ``received`` (see ``rrtypes.pxd``)."""

def names(number: int, rdata: bytes) -> tuple[int, int]:
    """Offsets at which the names of uncompressed rdata begin and end; the end is 0 when the type has none, -1 when the rdata does not fit the layout."""

def number(mnemonic: bytes) -> int:
    """The number of a mnemonic in any case, -1 when there is none."""
