"""The TLVs of a PROXY header, for tests; the native side is in ``proxy/tlvs.pxd``."""

def keep(octets: bytes) -> bytes:
    """What is kept of the TLVs of a header: b"" where there are none, or they are malformed."""
