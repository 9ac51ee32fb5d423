"""Where reports come from: the control socket of a server on this machine, or the console of one anywhere."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

__all__ = ["Console", "Credentials", "Local", "Source", "SourceError"]

#: Seconds for one report.
TIMEOUT = 10.0
#: Octets of a report.
MOST = 8 << 20
#: What the console wants beside the token: no page of another origin can send it.
MARK = ("X-Requested-With", "fastdns")


class SourceError(Exception):
    """No report, and why."""


class Credentials(NamedTuple):
    """Of a console: token, file of authorities, and certificate and key of the client; each may be empty."""

    token: str = ""
    authorities: str = ""
    certificate: str = ""
    key: str = ""


class Local:
    """A server on this machine."""

    def __init__(self, ask: Callable[[dict[str, Any], int], dict[str, Any]], pid: int) -> None:
        """``ask`` is that of the control socket; ``pid`` 0: the only server."""
        self.name = f"process {pid}" if pid else "this machine"
        self._ask = ask
        self._pid = pid

    def report(self, sections: list[str], request: Mapping[str, Any]) -> dict[str, Any]:
        """These sections. Raises SourceError."""
        try:
            return self._ask({**request, "sections": sections}, self._pid)
        except (OSError, ValueError) as error:
            raise SourceError(str(error)) from None


class Console:
    """A server by the address of its console: ``HOST:PORT``, or a URL."""

    def __init__(self, address: str, credentials: Credentials, name: str = "") -> None:
        """Raises ValueError for an address that is none, OSError for files that cannot be read."""
        url = urlsplit(address if "://" in address else f"{'https' if credentials.certificate or credentials.authorities else 'http'}://{address}")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"{address} is no address of a console: HOST:PORT, or http:// or https:// and that")
        self.name = name or url.netloc
        self._url = url
        self._credentials = credentials
        self._context: ssl.SSLContext | None = None
        if url.scheme == "https":
            self._context = ssl.create_default_context(cafile=credentials.authorities or None)
            if credentials.certificate:
                self._context.load_cert_chain(credentials.certificate, credentials.key or None)

    def report(self, sections: list[str], request: Mapping[str, Any]) -> dict[str, Any]:
        """These sections. Raises SourceError."""
        values = {**request, "sections": ",".join(sections)}
        path = "/api/status?" + "&".join(f"{quote(key)}={quote(str(value))}" for key, value in values.items())
        try:
            status, body = self._get(path)
            found: dict[str, Any] = json.loads(body) if status == 200 else {}
        except (OSError, http.client.HTTPException) as error:
            raise SourceError(str(error) or type(error).__name__) from None
        except ValueError:
            raise SourceError("what answers there is no console of fastdns") from None
        if status != 200:
            raise SourceError({401: "the token is missing or wrong"}.get(status, f"HTTP status {status}: {body[:200].decode('utf-8', 'replace').strip()}"))
        return found

    def _get(self, path: str) -> tuple[int, bytes]:
        host, port = self._url.hostname or "", self._url.port
        fields = dict([MARK])
        if self._credentials.token:
            fields["Authorization"] = f"Bearer {self._credentials.token}"
        connection: http.client.HTTPConnection
        if self._context is not None:
            connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=self._context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        try:
            connection.request("GET", path, headers=fields)
            reply = connection.getresponse()
            body = reply.read(MOST + 1)
        finally:
            connection.close()
        if len(body) > MOST:
            raise SourceError("the report is too large")
        return reply.status, body


Source = Local | Console
