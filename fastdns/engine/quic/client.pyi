"""What QUIC connections to servers share; the native side is in ``engine/quic/client.pxd``."""

from fastdns.tls.context import ClientContext

class QuicContext(ClientContext):
    """A `ClientContext` whose connections are QUIC, for one protocol."""

    def __init__(self, certificate: str, key: str, authority: str, protocol: str, idle_timeout: float) -> None:
        """``protocol``: of ALPN. ``idle_timeout``: seconds. OSError, TlsError; ValueError where this build has no QUIC."""
