"""TLS contexts of client connections."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

__all__ = ["client_context"]


def client_context(files: Sequence[str], alpn: Sequence[str] = ()) -> ssl.SSLContext:
    """A context for TLS 1.2 or later that verifies certificates.

    ``files`` are the arguments of a directive ``tls``: CA, or certificate and key, or all three. Raises OSError (ssl.SSLError).
    """
    context = ssl.create_default_context(cafile=files[-1] if len(files) in (1, 3) else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if len(files) >= 2:
        context.load_cert_chain(files[0], files[1])
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context
