"""TLS on a worker's connections; the native side is in ``engine/io/tls.pxd``."""

import ssl

def find_library() -> None:
    """Look OpenSSL's functions up, once. LookupError where the `_ssl` module of this Python does not show them: workers can then do no TLS."""

def trust_anybody(context: ssl.SSLContext) -> None:
    """Have handshakes take any certificate of a client without a look at who signed it, which Python's `ssl` has no word for. LookupError as above."""
