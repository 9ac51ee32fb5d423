"""cookies' handler."""

from collections.abc import Sequence

from fastdns._mux import NativeHandler

class CookiesHandler(NativeHandler):
    """Answers queries that have a cookie with one of this server. ValueError for no secrets, or secrets of another length."""

    def __init__(self, name: str, secrets: Sequence[bytes], require: bool) -> None: ...
    def use(self, secrets: Sequence[bytes]) -> None:
        """Put secrets in place of the last ones, while workers serve: the first makes cookies, all are accepted. ValueError, MemoryError."""

def server_cookie(secret: bytes, cookie: bytes, address: bytes) -> bytes:
    """The server cookie of 16 octets for a client's cookie, followed by version, reserved octets and time (RFC 9018 4.4). ValueError."""
