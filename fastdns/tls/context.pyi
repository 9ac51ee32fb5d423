"""Contexts of TLS servers and clients; the native side is in ``tls/context.pxd``."""

from collections.abc import Sequence

from fastdns.tls.renewal import State

#: Words of ``client_auth``.
CLIENT_AUTH: tuple[str, ...]

class TlsError(ValueError):
    """Files that cannot be used."""

class MismatchError(TlsError):
    """The key is not that of the certificate."""

class AuthorityError(TlsError):
    """There is no CA certificate in its file."""

class Context:
    """What both kinds have. Paths are "" for none."""

    @property
    def certificate(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def authority(self) -> str: ...
    @property
    def alpn(self) -> tuple[str, ...]: ...
    @property
    def files(self) -> list[str]:
        """Certificate, key and CA certificates, as far as they are given."""
    @property
    def states(self) -> list[State]:
        """Of the files before they were first read, for `fastdns.tls.renewal.Renewal`."""
    def renew(self) -> None:
        """Read the files again; connections from now on use what they have. OSError, TlsError: then everything stays."""

class ServerContext(Context):
    """Of a listening address. TLS 1.2 and later, without renegotiation, compression and early data.

    ``client_auth``: ``nocert`` requests no certificate of the client, ``request`` and ``require`` look at no signature of what they get,
    ``verify_if_given`` and ``require_and_verify`` do. ``authority`` has the CAs of clients; "": the system's. With ``strict`` a client whose ALPN has
    none of ``alpn`` gets the alert no_application_protocol; without it any protocol is taken. ``keylog`` is a file to which secrets are appended.
    ``awaited``: where certificate and key cannot be used yet, all handshakes fail until `renew` finds some that can.
    """

    def __init__(
        self,
        certificate: str,
        key: str,
        authority: str = "",
        client_auth: str = "nocert",
        alpn: Sequence[str] = (),
        strict: bool = True,
        keylog: str = "",
        awaited: bool = False,
    ) -> None:
        """OSError, TlsError; KeyError for an unknown ``client_auth``."""
    @property
    def client_auth(self) -> str: ...
    @property
    def keylog(self) -> str: ...
    @property
    def strict(self) -> bool: ...
    @property
    def validity(self) -> tuple[int, int] | None:
        """From when to when the certificate is valid, in seconds since 1970; None: there is none yet."""

class ClientContext(Context):
    """Of connections to servers. TLS 1.2 and later, with ``only13`` 1.3 alone. ``authority`` has the CAs of servers; "": the system's."""

    def __init__(self, certificate: str = "", key: str = "", authority: str = "", alpn: Sequence[str] = (), verify: bool = True, only13: bool = False) -> None:
        """OSError, TlsError."""
    @property
    def verify(self) -> bool: ...
    @property
    def only13(self) -> bool: ...

def library_version() -> str:
    """Of the libssl in use, such as ``OpenSSL 3.0.15 3 Sep 2024``."""
