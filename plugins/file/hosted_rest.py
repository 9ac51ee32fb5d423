"""REST interfaces of clouds (azure, clouddns): JSON documents by HTTP, with tokens of the cloud's library. Imports requests, which those libraries use."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeVar

import msgspec
import requests
import urllib3.connection
from msgspec.json import Decoder
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase

from fastdns.control.budget import BudgetResponse, current
from fastdns.plugins.file.hosted import one_line
from fastdns.plugins.file.hosted_round import READERS_MOST

__all__ = ["Rest", "RestError", "Tokens"]

#: Seconds to connect, and without an octet of the reply.
TIMEOUT = (10, 30)
#: Requests that fail because of the network, throttling or the server (5xx) are made again, after the delay that the server asks for or a growing one.
ATTEMPTS = 5
THROTTLED = (408, 429)
#: Seconds.
FIRST_DELAY = 0.5
DELAY_MOST = 60.0

Document = TypeVar("Document")

# Also for the tokens, which the clouds' libraries ask for by urllib3. Threads without a budget read as before.
urllib3.connection.HTTPConnection.response_class = BudgetResponse


class RestError(Exception):
    """The reply is an error, is no document, or there is none. ``str()`` is the text for the log."""


class Tokens(Protocol):
    """What authorizes requests, from any thread. Both functions raise what the cloud's library raises."""

    def headers(self) -> dict[str, str]:
        """The header fields of a request; a token that has expired is renewed."""

    def renew(self) -> None:
        """The token was refused: get another, although it has not expired."""


class Rest:
    """The client of one directive. Its functions may be called from any thread."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "fastdns"
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=READERS_MOST))

    def get(self, url: str, decoder: Decoder[Document], parameters: dict[str, str] | None = None) -> Document:
        """The document, made again as often as `ATTEMPTS` says. Raises RestError and whatever `Tokens` raises.

        The decoder has to be there before any thread: msgspec crashes where several at once are the first to decode a type.
        """
        delay = FIRST_DELAY
        renewed = False
        attempt = 1
        while True:
            wanted = 0.0
            try:
                response = self._session.get(url, params=parameters, auth=_Authorization(self._tokens), timeout=TIMEOUT, allow_redirects=False)
            except requests.RequestException as failure:
                error = RestError(one_line(failure))
            else:
                if response.status_code == requests.codes.ok:
                    return _decoded(response.content, decoder)
                error = RestError(_text(response))
                if response.status_code == requests.codes.unauthorized and not renewed:
                    self._tokens.renew()
                    renewed = True
                    continue
                if response.status_code < 500 and response.status_code not in THROTTLED:
                    raise error
                wanted = _retry_after(response.headers.get("Retry-After", ""))
            if attempt == ATTEMPTS:
                raise error
            _sleep(min(wanted or delay, DELAY_MOST))
            delay *= 2
            attempt += 1


def _sleep(seconds: float) -> None:
    """Raises BudgetError where the thread has less time left."""
    budget = current()
    if budget is not None:
        budget.sleep(seconds)
    else:
        time.sleep(seconds)


class _Authorization(AuthBase):
    """As an object of this class, so that requests does not look for another one in ``~/.netrc``."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(self._tokens.headers())
        return request


def _decoded(body: bytes, decoder: Decoder[Document]) -> Document:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RestError(f"cannot decode the reply: {error}") from error


class _Error(msgspec.Struct):
    #: Azure's are words, Google's are the HTTP status, whose word is in ``status``.
    code: str | int = ""
    message: str = ""
    status: str = ""


class _Refusal(msgspec.Struct):
    error: _Error


REFUSAL = Decoder(_Refusal)


def _text(response: requests.Response) -> str:
    """``HTTP status 404 ResourceNotFound: TEXT``, as far as the body says it."""
    head = f"HTTP status {response.status_code}"
    try:
        error = REFUSAL.decode(response.content).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"{head} {response.reason}".rstrip()
    word = error.status or (error.code if isinstance(error.code, str) else "")
    return f"{head} {word}: {error.message}" if word else f"{head}: {error.message}"


def _retry_after(value: str) -> float:
    """Seconds of a ``Retry-After`` field, which has a number or a date; 0: it says nothing."""
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
