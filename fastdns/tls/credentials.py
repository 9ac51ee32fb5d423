"""What the directive `tls` says: certificate, key, whom to trust, and the contexts that listening addresses make of it."""

from __future__ import annotations

from collections.abc import Sequence

from fastdns.tls.context import ServerContext
from fastdns.tls.renewal import Renewable, Renewal, State, states_of

__all__ = ["Credentials"]


class Credentials:
    """The files of one `tls` directive."""

    def __init__(self, certificate: str, key: str, authority: str = "", client_auth: str = "nocert", keylog: str = "", awaited: bool = False) -> None:
        """Paths; "" for none. ``awaited``: certificate and key may come later, and handshakes fail until then."""
        self.certificate = certificate
        self.key = key
        self.authority = authority
        self.client_auth = client_auth
        self.keylog = keylog
        self.awaited = awaited
        self._servers: dict[tuple[tuple[str, ...], bool], ServerContext] = {}
        self._followers: list[Renewable] = []
        self._states: list[State] = []
        self._renewal: Renewal | None = None

    @property
    def files(self) -> list[str]:
        """Certificate, key and CA certificates, as far as they are given, each file once."""
        return [path for path in dict.fromkeys((self.certificate, self.key, self.authority)) if path]

    def server(self, alpn: Sequence[str] = (), strict: bool = True) -> ServerContext:
        """The context of addresses with these protocols (RFC 7301); ``strict``: clients that name others alone are refused. Made once. OSError, TlsError."""
        key = (tuple(alpn), strict)
        if key not in self._servers:
            self._states = self._states or states_of(self.files)
            self._servers[key] = ServerContext(self.certificate, self.key, self.authority, self.client_auth, key[0], strict, self.keylog, self.awaited)
        return self._servers[key]

    def follow(self, follower: Renewable) -> None:
        """Have something else that was made of the files, such as a context of another library, renewed together with the contexts."""
        self._states = self._states or states_of(self.files)
        self._followers.append(follower)

    def renew(self) -> None:
        """Read the files again, for connections from now on. OSError, ValueError: everything stays."""
        if self.awaited:
            ServerContext(self.certificate, self.key)  # what follows would take files that cannot be used for ones that are still to come
        for context in (*self._servers.values(), *self._followers):
            context.renew()

    def keep_renewed(self) -> None:
        """From now on renew whenever the files change."""
        if self._renewal is None:
            self._renewal = Renewal(self, self.files, self._states or states_of(self.files), "plugin/tls")

    def stop_renewing(self) -> None:
        """Another configuration serves."""
        if self._renewal is not None:
            self._renewal.end()
