"""Clients of TLS; the native side is in ``tls/client.pxd``."""

from collections.abc import Sequence

from fastdns.tls.context import ClientContext

def client_files(files: Sequence[str]) -> tuple[str, str, str]:
    """Certificate, key and CA, "" for none, of the arguments of a plugin's directive ``tls``: CA, or certificate and key, or all three."""

def client_context(files: Sequence[str], alpn: Sequence[str] = (), only13: bool = False) -> ClientContext:
    """The context of such arguments; ``only13``: not TLS 1.2. OSError, TlsError."""
