"""The kind of a reply and its lowest TTL; the native side is in ``typify.pxd``."""

def max_age(reply: bytes) -> int:
    """Seconds for which a reply in wire form may be cached (RFC 8484 5.1): its lowest TTL, at most 3,600.

    5 for malformed messages, errors, delegations and replies without records.
    """
