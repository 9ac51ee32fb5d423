"""QUIC on the workers: DNS over QUIC (RFC 9250) and DNS over HTTP/3 (RFC 8484, RFC 9114), and connections to servers."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether this build has QUIC: the module ``library``, which is linked with what ``make quic`` makes, fills the table of functions."""
    try:
        from fastdns.engine.quic import library  # noqa: F401
    except ImportError:
        return False
    return True
