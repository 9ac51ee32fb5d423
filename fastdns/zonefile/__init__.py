"""Master files (RFC 1035 5): text to wire."""
