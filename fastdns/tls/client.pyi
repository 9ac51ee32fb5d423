"""Clients of TLS; the native side is in ``tls/client.pxd``."""

from collections.abc import Sequence

from fastdns.tls.context import ClientContext

def client_context(files: Sequence[str], alpn: Sequence[str] = ()) -> ClientContext:
    """The context of the arguments of a plugin's directive ``tls``: CA, or certificate and key, or all three. OSError, TlsError."""
