"""Where an API server is."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from fastdns.plugins.kubernetes.watch.origin import ApiConfigError


class Address(NamedTuple):
    """Where to connect to, from a URL."""

    host: str
    port: int
    tls: bool
    #: Path in front of /api, without a slash at its end.
    prefix: str

    @classmethod
    def parse(cls, url: str, tls: bool = False) -> Address:
        """From a URL, or from HOST:PORT, which means https only where TLS is set up. ApiConfigError."""
        text = url if "://" in url else ("https://" if tls else "http://") + url
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise ApiConfigError(f"host must be a URL or a host:port pair: {url!r}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ApiConfigError(f"host must be a URL or a host:port pair: {url!r}")
        secure = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if secure else 80), secure, parts.path.rstrip("/"))

    @property
    def netloc(self) -> str:
        """HOST or HOST:PORT, for the Host header and metrics."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def dial(self) -> str:
        """HOST:PORT, as log lines have it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole as a URL."""
        return f"{'https' if self.tls else 'http'}://{self.netloc}{self.prefix}"
