"""`kubeconfig FILE [CONTEXT]`: an API server and credentials from a kubeconfig, followed as they change and end."""

from __future__ import annotations

import base64
import os
import time
from typing import TYPE_CHECKING, Protocol

from fastdns.control import Signal, sleep
from fastdns.plugins.kubernetes.watch import auth_provider, exec_plugin
from fastdns.plugins.kubernetes.watch.address import Address
from fastdns.plugins.kubernetes.watch.clientcmd import Config, load
from fastdns.plugins.kubernetes.watch.connection import Api, Followed, TokenFile, make_context
from fastdns.plugins.kubernetes.watch.exec_plugin import Credential, bearer
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError
from fastdns.plugins.kubernetes.watch.proxy import Proxy
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

#: Credentials are renewed so many seconds before they end.
EARLY = 30.0
#: At least so many seconds from one try to get credentials to the next.
PAUSE = 5.0

log = Log("plugin/kubernetes")


class Credentials(Protocol):
    """Where a user's credential comes from."""

    @property
    def current(self) -> Credential: ...

    async def prepare(self) -> None:
        """Renew what has ended. OSError when there is no credential that could do."""

    async def refused(self) -> bool:
        """The server replied 401. True when there is another credential now. OSError."""


class Fixed:
    """What stands in the file itself."""

    def __init__(self, current: Credential) -> None:
        self.current = current

    async def prepare(self) -> None:
        pass

    async def refused(self) -> bool:
        return False


class FromFile:
    """`tokenFile`, read again when it changes; `token` while it was never readable."""

    def __init__(self, file: TokenFile) -> None:
        self.file = file
        self.current = Credential()

    async def prepare(self) -> None:
        self.current = Credential(bearer(self.file.read()))

    async def refused(self) -> bool:
        before = self.current
        self.file.forget()
        await self.prepare()
        return self.current != before


class Renewed:
    """What a program or an identity provider gives, until it ends or is refused."""

    def __init__(self, fetch: Callable[[], Awaitable[Credential]]) -> None:
        self.fetch = fetch
        self.credential: Credential | None = None
        #: What the last try failed with, "" when it did not.
        self.failure = ""
        #: When it ended; how many did.
        self.tried = float("-inf")
        self.tries = 0
        #: Wakes those who wait for the try that runs.
        self.running: Signal | None = None

    @property
    def current(self) -> Credential:
        return self.credential or Credential()

    async def prepare(self) -> None:
        known = self.credential
        now = time.time()
        if known is not None and (known.expires is None or now < known.expires - EARLY):
            return
        try:
            await self._renew()
        except OSError:
            if known is None or known.expires is None or known.expires <= now:
                raise

    async def refused(self) -> bool:
        before = self.credential
        if before is not None and not self.failure and time.monotonic() - self.tried < PAUSE:
            return True  # renewed while that request was on its way
        await self._renew()
        return self.credential != before

    async def _renew(self) -> None:
        """Try once, or take what the try gives that runs already or ended just now."""
        tries = self.tries
        while self.running is not None:
            await sleep(None, self.running)
        if self.tries == tries and time.monotonic() - self.tried >= PAUSE:
            self.running = Signal()
            try:
                self.credential = await self.fetch()
                self.failure = ""
                self._tried()
            except OSError as error:
                self.failure = f"getting credentials: {error}"
                self._tried()
            finally:
                self.running.wake()
                self.running = None
        if self.failure:
            raise OSError(self.failure)

    def _tried(self) -> None:
        self.tries += 1
        self.tried = time.monotonic()


def credentials(config: Config, folder: str) -> Credentials:
    """The first that a user has of: auth-provider, tokenFile and token, exec, username and password. ApiConfigError."""
    user, cluster = config.user, config.cluster
    if user.auth_provider and (user.auth_provider in ("gcp", "oidc") or not user.other_credentials):
        return Renewed(auth_provider.fetcher(user, folder))
    if user.token_file:
        return FromFile(TokenFile(user.token_file, user.token))
    if user.token:
        try:
            return Fixed(Credential(bearer(user.token)))
        except OSError as error:
            raise ApiConfigError(f'invalid configuration: token of user "{user.name}": {error}') from None
    if user.exec is not None:
        plugin = user.exec
        return Renewed(lambda: exec_plugin.credential(plugin, cluster))
    if user.username or user.password:
        return Fixed(Credential("Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode()))
    return Fixed(Credential())


class Kubeconfig(Api):
    """A context of a kubeconfig. It has its credentials with the first request: programs and identity providers are asked then."""

    def __init__(self, path: str, context: str = "") -> None:
        """ApiConfigError when the file is missing or will not do."""
        try:
            os.stat(path)
        except OSError as error:
            raise ApiConfigError(f"stat {path}: {(error.strerror or str(error)).lower()}") from None
        self.path, self.name = os.path.abspath(path), context
        self.key = ("kubeconfig", self.path, context)
        self.file = Followed()
        self.file.changed(self.path)
        self.material = Followed()
        self.made: ssl.SSLContext | None = None
        #: Certificate of the credential that ``made`` has.
        self.made_with = ""
        self._use(load(self.path, context))

    def _use(self, config: Config) -> None:
        self.address = Address.parse(config.cluster.server)
        self.proxy = Proxy.parse(config.cluster.proxy_url) if config.cluster.proxy_url else None
        self.credentials: Credentials = credentials(config, os.path.dirname(self.path))
        self.config = config
        self.made = None

    def _follow(self) -> None:
        """Read the file again if it has changed; while the new content is invalid the former one stays in use."""
        if not self.file.changed(self.path):
            return
        try:
            config = load(self.path, self.name)
            if config != self.config:
                self._use(config)
        except ApiConfigError as error:
            log.error(f"kubeconfig not read again: {error}")

    async def prepare(self) -> None:
        self._follow()
        try:
            await self.credentials.prepare()
        except OSError:
            if not self.config.user.certificate:
                raise

    async def refused(self) -> bool:
        return await self.credentials.refused()

    def authorization(self) -> str | None:
        return self.credentials.current.authorization or None

    def server_name(self) -> str:
        return self.config.cluster.tls_server_name or self.address.host

    def context(self) -> ssl.SSLContext | None:
        if not self.address.tls:
            return None
        user, certificate = self.config.user, self.credentials.current.certificate
        changed = self.material.changed(self.config.cluster.ca.path, user.certificate.path, user.key.path)
        if changed or self.made is None or certificate != self.made_with:
            try:
                self.made = self._make_context(certificate)
            except OSError:  # being replaced; the last ones may still do
                if self.made is None or certificate != self.made_with:
                    raise
            self.made_with = certificate
        return self.made

    def _make_context(self, certificate: str) -> ssl.SSLContext:
        """OSError that names the field."""
        user, cluster = self.config.user, self.config.cluster
        field = "certificate-authority"
        try:
            context = make_context(ca_data=cluster.ca.read() if cluster.verify else "", verify=cluster.verify)
            field = "client certificate"
            certificate = certificate or (f"{user.certificate.read()}\n{user.key.read()}" if user.certificate else "")
            if certificate:
                load_certificate(context, certificate)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise OSError(f"{field} of {self.path}: {error}") from None
        return context


def load_certificate(context: ssl.SSLContext, pem: str) -> None:
    """Give a context a client certificate with its key. It is on no disk: ssl reads from files only, so it gets one in memory. OSError."""
    fd = os.memfd_create("client", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=b"")  # an encrypted key is an error, not a prompt on the terminal
    finally:
        os.close(fd)
