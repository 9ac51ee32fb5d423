"""What the directive `tls` says: certificate, key, whom to trust, and the contexts that listening addresses make of it."""

from __future__ import annotations

from collections.abc import Sequence

from fastdns.tls.context import ServerContext

__all__ = ["Credentials"]


class Credentials:
    """The files of one `tls` directive."""

    def __init__(self, certificate: str, key: str, authority: str = "", client_auth: str = "nocert", keylog: str = "") -> None:
        """Paths; "" for none."""
        self.certificate = certificate
        self.key = key
        self.authority = authority
        self.client_auth = client_auth
        self.keylog = keylog
        self._servers: dict[tuple[tuple[str, ...], bool], ServerContext] = {}

    def server(self, alpn: Sequence[str] = (), strict: bool = True) -> ServerContext:
        """The context of addresses with these protocols (RFC 7301); ``strict``: clients that name others alone are refused. Made once. OSError, TlsError."""
        key = (tuple(alpn), strict)
        if key not in self._servers:
            self._servers[key] = ServerContext(self.certificate, self.key, self.authority, self.client_auth, key[0], strict, self.keylog)
        return self._servers[key]
