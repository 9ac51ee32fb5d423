"""The field ``date`` of HTTP responses (RFC 9110 6.6.1); the native side is in ``date.pxd``."""

def date() -> str:
    """The time of now, such as ``Mon, 23 Nov 2026 14:13:11 GMT``."""
