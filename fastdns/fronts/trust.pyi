"""Whom handshakes of Python's `ssl` trust."""

import ssl

def trust_anybody(context: ssl.SSLContext) -> None:
    """Have handshakes take any certificate of a client without a look at who signed it, which Python's `ssl` has no word for. LookupError where the
    `_ssl` module of this Python does not show OpenSSL's functions."""
