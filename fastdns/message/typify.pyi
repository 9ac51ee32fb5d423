"""What kind of reply a message is, and for how long it holds."""

def max_age(reply: bytes) -> int:
    """Seconds for which a reply may be cached (RFC 8484 5.1): its shortest TTL, at most 3,600; 5 for errors, delegations and what has no records."""
