"""Where an API server is and how we authenticate there: in-cluster, or an endpoint with client certificates.

`kubeconfig.py` has the third way. Tokens and certificates are read again when their files change.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fastdns.plugins.kubernetes.watch.address import Address
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError

if TYPE_CHECKING:
    import ssl

    from fastdns.plugins.kubernetes.watch.proxy import Proxy

#: Where a pod finds its service account.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def stamps(*paths: str | os.PathLike[str] | None) -> tuple[object, ...]:
    """What changes when one of the files does; rotation by symbolic link included."""
    found: list[object] = []
    for path in paths:
        if not path:
            continue
        try:
            status = os.stat(path)
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


class Api:
    """An API server. Subclasses say how to authenticate; `key` tells servers and credentials apart, for sharing."""

    key: tuple[object, ...]

    @property
    def host(self) -> str:
        return self.address.netloc

    address: Address
    #: What connections go through, None for none.
    proxy: Proxy | None = None

    def authorization(self) -> str | None:
        """The Authorization header for the next request."""
        return None

    def context(self) -> ssl.SSLContext | None:
        """For the next TLS connection; None for plain HTTP. OSError or ssl.SSLError when files are not usable."""
        return None

    def server_name(self) -> str:
        """The name that the server's certificate must have."""
        return self.address.host

    async def prepare(self) -> None:
        """Before each request: renew what has expired. OSError when that fails."""

    async def refused(self) -> bool:
        """The server replied 401. True when there are other credentials to try now."""
        return False


def make_context(ca: str | None = None, ca_data: str | None = None, verify: bool = True) -> ssl.SSLContext:
    """A client's TLS context; without a CA the system's are used."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca or ca_data:
        context.load_verify_locations(cafile=ca or None, cadata=ca_data or None)
    else:
        context.load_default_certs()
    return context


class Followed:
    """A value made from files and made again when they change; while they are not readable the last one stays."""

    def __init__(self) -> None:
        self.seen: tuple[object, ...] | None = None

    def changed(self, *paths: str | os.PathLike[str] | None) -> bool:
        """Whether one of the files changed since the last call that returned True."""
        now = stamps(*paths)
        if now == self.seen:
            return False
        self.seen = now
        return True


class TokenFile:
    """A bearer token in a file, read again when the file changes."""

    def __init__(self, path: str | os.PathLike[str], token: str = "") -> None:
        """``token`` is used as long as the file was never readable."""
        self.path, self.token = path, token
        self.seen = Followed()

    def read(self) -> str:
        """The token; the last one while the file is not readable. OSError when there never was one."""
        if self.seen.changed(self.path):
            try:
                self.token = self._read()
            except OSError:
                if not self.token:
                    self.seen.seen = None
                    raise
        return self.token

    def _read(self) -> str:
        path = os.fspath(self.path)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                token = file.read().strip()
        except OSError as error:
            raise OSError(f"open {path}: {(error.strerror or str(error)).lower()}") from None
        if not token:
            raise OSError(f'read empty token from file "{path}"')
        return token

    def forget(self) -> None:
        """The token was refused: read the file the next time, changed or not."""
        self.seen.seen = None


class Endpoint(Api):
    """`endpoint URL`, with the files of `tls CERT KEY CA` where given."""

    def __init__(self, url: str, cert: str = "", key: str = "", ca: str = "") -> None:
        """ApiConfigError for what is no URL."""
        self.address = Address.parse(url, bool(cert or ca))
        self.cert, self.private, self.ca = cert, key, ca
        self.key = ("endpoint", self.address, cert, key, ca)
        self.files = Followed()
        self.made: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext | None:
        if not self.address.tls:
            return None
        if self.files.changed(self.cert, self.private, self.ca) or self.made is None:
            context = make_context(self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.private)
            self.made = context
        return self.made


class InCluster(Api):
    """The service account of the pod we run in; its token is followed as it rotates."""

    def __init__(self, folder: Path = SERVICE_ACCOUNT) -> None:
        """From the environment. ApiConfigError when this is no pod, or it has no token."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise ApiConfigError("unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined")
        self.address = Address.parse(f"https://{f'[{host}]' if ':' in host else host}:{port}")
        self.token_file, self.ca = TokenFile(folder / "token"), folder / "ca.crt"
        self.key = ("in-cluster", self.address, str(folder))
        self.files = Followed()
        self.made: ssl.SSLContext | None = None
        try:
            self.token_file.read()
        except OSError as error:
            raise ApiConfigError(str(error)) from None

    def authorization(self) -> str | None:
        return f"Bearer {self.token_file.read()}"

    async def refused(self) -> bool:
        before = self.token_file.token
        self.token_file.forget()
        return self.token_file.read() != before

    def context(self) -> ssl.SSLContext | None:
        if self.files.changed(self.ca) or self.made is None:
            self.made = make_context(str(self.ca) if self.ca.is_file() else None)
        return self.made
