"""TLS on a worker's connections; the native side is in ``_secure.pxd``."""

def find_library() -> None:
    """Look OpenSSL's functions up, once. LookupError where the `_ssl` module of this Python does not show them: workers can then do no TLS."""
