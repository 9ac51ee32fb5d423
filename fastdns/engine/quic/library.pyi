"""BoringSSL's contexts and quiche's functions, for the other modules of the package; the native side is in ``engine/quic/quiche.pxd``."""

def handed() -> bytes:
    """The keys of session tickets, and the secret of stateless resets and of Retry tokens, for the process that takes over."""

def adopt(octets: bytes) -> None:
    """Take those of a former process, before there is a context or a connection. ValueError for what are none."""
