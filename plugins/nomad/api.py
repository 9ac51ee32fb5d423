"""The API of Nomad, as far as services go (https://developer.hashicorp.com/nomad/api-docs/services)."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import ssl
import threading
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from fastdns.control.budget import Budget, BudgetError, BudgetResponse, limited

__all__ = ["Api", "NomadError", "Service"]

ADDRESS = "http://127.0.0.1:4646"
#: Seconds for each step of a call.
TIMEOUT = 4.0
#: Seconds for a call to one address, in whatever pieces its reply comes.
CALL_SECONDS = 8.0
#: Octets of a reply.
REPLY_MAX = 16 << 20
FALSE = ("", "0", "f", "F", "false", "FALSE", "False")


class NomadError(Exception):
    """The API did not answer, or with an error."""


class Service(msgspec.Struct, rename="pascal"):
    """A registration."""

    address: str = ""
    port: int = 0


_decoder = msgspec.json.Decoder(list[Service])


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("127.0.0.1", timeout=TIMEOUT)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Api:
    """The servers, and how to ask them; any number of threads may. The environment is that of Nomad's own client."""

    def __init__(self, addresses: list[str], token: str, expression: str) -> None:
        """``expression`` filters registrations, "" for none. Raises ValueError, OSError (ssl.SSLError)."""
        environment = os.environ.get
        self.addresses = addresses or [environment("NOMAD_ADDR") or ADDRESS]
        for address in self.addresses:
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https", "unix") or not (parts.netloc or parts.path):
                raise ValueError(f"invalid address '{address}': want http://, https:// or unix://")
            _ = parts.port
        self.expression = expression
        self.region = environment("NOMAD_REGION") or ""
        self.fields = {"Accept": "application/json", "User-Agent": "fastdns"}
        if token or environment("NOMAD_TOKEN"):
            self.fields["X-Nomad-Token"] = token or environment("NOMAD_TOKEN", "")
        if environment("NOMAD_HTTP_AUTH"):
            self.fields["Authorization"] = "Basic " + base64.b64encode(environment("NOMAD_HTTP_AUTH", "").encode()).decode()
        self.context = tls_context() if any(address.startswith("https:") for address in self.addresses) else None
        #: The address that answered last.
        self.current = 0
        self._kept: dict[int, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def services(self, name: str, namespace: str) -> list[Service]:
        """The registrations of a service. Raises NomadError."""
        values = {"namespace": namespace}
        if self.region:
            values["region"] = self.region
        if self.expression:
            values["filter"] = self.expression
        body = self._ask(f"/v1/service/{quote(name, safe='')}?{urlencode(values)}")
        try:
            return _decoder.decode(body or b"[]")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NomadError(f"the API's answer is no list of services: {error}") from None

    def is_there(self) -> bool:
        """Whether some address answers."""
        try:
            self._ask("/v1/agent/self")
        except NomadError:
            return False
        return True

    def close(self) -> None:
        with self._lock:
            self._closed = True
            kept = [connection for connections in self._kept.values() for connection in connections]
            self._kept.clear()
        for connection in kept:
            connection.close()

    def _ask(self, target: str) -> bytes:
        """The body of the first address that answers, the last one that did before the others."""
        error: Exception | None = None
        for step in range(len(self.addresses)):
            index = (self.current + step) % len(self.addresses)
            try:
                with limited(Budget(CALL_SECONDS, 2 * REPLY_MAX)):
                    status, body = self._exchange(index, target)
            except (OSError, http.client.HTTPException, BudgetError) as failure:
                error = NomadError(f'Get "{self.addresses[index]}{target}": {failure}')
                continue
            self.current = index
            if status != 200:
                raise NomadError(f"Unexpected response code: {status} ({body[:200].decode('utf-8', 'replace').strip()})")
            return body
        if len(self.addresses) > 1:
            raise NomadError(f"no Nomad client available: {error}")
        raise error or NomadError("no Nomad client available")

    def _exchange(self, index: int, target: str) -> tuple[int, bytes]:
        """Over a kept connection, which may have ended meanwhile, or a new one."""
        kept = self._take(index)
        if kept is not None:
            try:
                return self._get(index, kept, target)
            except (ConnectionError, http.client.HTTPException):
                pass
        return self._get(index, self._connection(self.addresses[index]), target)

    def _get(self, index: int, connection: http.client.HTTPConnection, target: str) -> tuple[int, bytes]:
        done = False
        try:
            connection.request("GET", target, headers=self.fields)
            reply = connection.getresponse()
            body = reply.read(REPLY_MAX + 1)
            if len(body) > REPLY_MAX:
                raise http.client.HTTPException("the reply is too long")
            done = not reply.will_close
        finally:
            if done:
                self._give(index, connection)
            else:
                connection.close()
        return reply.status, body

    def _take(self, index: int) -> http.client.HTTPConnection | None:
        with self._lock:
            connections = self._kept.get(index)
            return connections.pop() if connections else None

    def _give(self, index: int, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed:
                self._kept.setdefault(index, []).append(connection)
                return
        connection.close()

    def _connection(self, address: str) -> http.client.HTTPConnection:
        parts = urlsplit(address)
        made: http.client.HTTPConnection
        if parts.scheme == "unix":
            made = UnixConnection(unquote(parts.netloc + parts.path))
        elif parts.scheme == "https":
            made = http.client.HTTPSConnection(parts.hostname or "", parts.port or 443, timeout=TIMEOUT, context=self.context)
        else:
            made = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=TIMEOUT)
        made.response_class = BudgetResponse
        return made


def tls_context() -> ssl.SSLContext:
    """What NOMAD_CACERT, NOMAD_CAPATH, NOMAD_CLIENT_CERT, NOMAD_CLIENT_KEY, NOMAD_TLS_SERVER_NAME and NOMAD_SKIP_VERIFY say."""
    environment = os.environ.get
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    file, folder = environment("NOMAD_CACERT"), environment("NOMAD_CAPATH")
    if file or folder:
        context.load_verify_locations(file or None, folder or None)
    else:
        context.load_default_certs()
    certificate = environment("NOMAD_CLIENT_CERT")
    if certificate:
        context.load_cert_chain(certificate, environment("NOMAD_CLIENT_KEY") or None)
    context.name = environment("NOMAD_TLS_SERVER_NAME") or ""
    if environment("NOMAD_SKIP_VERIFY", "") not in FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class _NamedContext(ssl.SSLContext):
    """Expects one name, wherever it connects to."""

    name = ""

    def wrap_socket(self, sock: socket.socket, *args: object, **options: object) -> ssl.SSLSocket:
        if self.name:
            options["server_hostname"] = self.name
        return super().wrap_socket(sock, *args, **options)  # type: ignore[arg-type]
