"""What the directive `tls` says, as the front ends in Python need it: contexts of Python's `ssl`, and the certificates themselves for QUIC."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastdns.tls import credentials

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

__all__ = ["Credentials"]

#: Words of ``client_auth``, and what a handshake asks of the client then. `require` and `request` look at no signature: see `Credentials.context`.
CLIENT_AUTH = {
    "nocert": ssl.CERT_NONE,
    "request": ssl.CERT_OPTIONAL,
    "require": ssl.CERT_REQUIRED,
    "verify_if_given": ssl.CERT_OPTIONAL,
    "require_and_verify": ssl.CERT_REQUIRED,
}

#: A key's file may begin with parameters of its curve.
_KEY = re.compile(rb"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?-----END \1-----\n?", re.DOTALL)


class Credentials(credentials.Credentials):
    """The files of one `tls` directive, and contexts made of them."""

    def __init__(self, certificate: str, key: str, authority: str = "", client_auth: str = "nocert", keylog: str = "") -> None:
        super().__init__(certificate, key, authority, client_auth, keylog)
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._chain: tuple[list[x509.Certificate], PrivateKeyTypes] | None = None

    def context(self, alpn: Sequence[str] = ()) -> ssl.SSLContext:
        """The context of a transport with these protocols (RFC 7301), read from the files once: a renewed certificate is a reload's. OSError (with
        `ssl.SSLError`), ValueError."""
        key = tuple(alpn)
        if key not in self._contexts:
            self._contexts[key] = self._made(key)
        return self._contexts[key]

    def chain(self) -> tuple[list[x509.Certificate], PrivateKeyTypes]:
        """The certificates, the server's first, and the key, for transports that OpenSSL does not speak; read once like `context`. OSError, ValueError."""
        if self._chain is None:
            from cryptography import x509
            from cryptography.hazmat.primitives.serialization import load_pem_private_key

            with open(self.certificate, "rb") as certificates, open(self.key, "rb") as key:
                found = _KEY.search(key.read())
                if found is None:
                    raise ValueError("there is no private key")
                self._chain = x509.load_pem_x509_certificates(certificates.read()), load_pem_private_key(found[0], None)
        return self._chain

    def _made(self, alpn: tuple[str, ...]) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.load_cert_chain(self.certificate, self.key, password=_no_password)
        if self.authority:
            context.load_verify_locations(self.authority)
        elif CLIENT_AUTH[self.client_auth] != ssl.CERT_NONE:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = CLIENT_AUTH[self.client_auth]
        if self.client_auth in ("request", "require"):
            from fastdns.fronts.trust import trust_anybody

            try:
                trust_anybody(context)
            except LookupError:
                raise ValueError(f"client_auth {self.client_auth} cannot be had: the OpenSSL of this Python is out of reach") from None
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if self.keylog:
            descriptor = os.open(self.keylog, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.close(descriptor)
            context.keylog_filename = self.keylog
        return context


def _no_password() -> str:
    """A key that wants one cannot be used: the terminal is not asked."""
    raise ValueError("the key is encrypted")
