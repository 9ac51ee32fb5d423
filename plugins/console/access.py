"""Who may see the console: the names that it goes by, the token, and requests of other origins."""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from fastdns.httpd.message import Reply, Request
from fastdns.tls.renewal import Renewal, states_of

__all__ = ["TOKEN_LEAST", "Access", "Token"]

#: Characters of a token: 16 random ones cannot be guessed.
TOKEN_LEAST = 16
#: Requests for data carry this field, which no page of another origin can send without asking first (and there is no answer to that).
MARK, MARK_VALUE = "x-requested-with", "fastdns"


class Token:
    """A secret that clients send. It is in no log line and no error."""

    def __init__(self, text: str) -> None:
        self.octets = text.strip().encode()
        self._path = ""
        self._states = states_of([])
        self._renewal: Renewal | None = None

    @classmethod
    def of_file(cls, path: str) -> Token:
        """The first line's text of a file. Raises OSError, ValueError."""
        states = states_of([path])
        token = cls(_read(path))
        token._path, token._states = path, states
        return token

    def renew(self) -> None:
        """Read the file again. OSError, ValueError: everything stays."""
        octets = _read(self._path).strip().encode()
        if len(octets) < TOKEN_LEAST:
            raise ValueError(f"a token has at least {TOKEN_LEAST} characters")
        self.octets = octets

    def keep_renewed(self) -> None:
        """From now on read the file again whenever it changes."""
        if self._path:
            self._renewal = Renewal(self, [self._path], self._states, "plugin/console")

    def matches(self, given: str) -> bool:
        """Whether a client has the token; the time that this takes says nothing about how much of it is right."""
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.octets)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read(4096)


class Access:
    """What a request must have."""

    def __init__(self, token: Token | None, hosts: tuple[str, ...] = ()) -> None:
        """``hosts``: names beside ``localhost`` and addresses."""
        self.token = token
        self.hosts = frozenset((*hosts, "localhost"))

    def refusal(self, request: Request, data: bool) -> Reply | None:
        """The reply to a request that gets nothing; None where it may go on. ``data``: it is for more than the empty page."""
        if request.method not in ("GET", "HEAD"):
            return Reply(405, b"405 this page is read only\n", fields=(("Allow", "GET, HEAD"),))
        host = request.fields.get("host", "")
        if not self._is_ours(host):
            # The name of an attacker's that resolves to this address (DNS rebinding).
            return Reply(421, b"421 the console does not go by this name: see its property host\n")
        if not data:
            return None
        if request.fields.get(MARK) != MARK_VALUE or not self._same_origin(request, host):
            return Reply(403, b"403 not from another page\n")
        if self.token is None:
            return None
        scheme, _, given = request.fields.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self.token.matches(given.strip()):
            return Reply(401, b"401 the token is missing or wrong\n", fields=(("WWW-Authenticate", "Bearer"),))
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return name.rstrip(".") in self.hosts
        return True

    @staticmethod
    def _same_origin(request: Request, host: str) -> bool:
        origin = request.fields.get("origin")
        try:
            if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
                return False
        except ValueError:
            return False
        return request.fields.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
