"""Keys of session tickets; the native side is in ``tls/tickets.pxd``."""

def handed() -> bytes:
    """The keys, for a successor process; b"" where there are no random numbers."""

def adopt(keys: bytes) -> None:
    """Take the keys of a former process, before there is a ticket of this one. ValueError for what is no such text."""
