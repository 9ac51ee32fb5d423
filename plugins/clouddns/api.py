"""The REST interface of Google Cloud DNS: record sets of a managed zone. Imports google.auth."""

from __future__ import annotations

import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import google.auth
import google.auth.transport.requests
import msgspec
from google.auth import aws, environment_vars, identity_pool, pluggable
from msgspec.json import Decoder

from fastdns.plugins.file.hosted import Row, row
from fastdns.plugins.file.hosted_rest import Rest, RestError
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.clouddns.settings import Settings

__all__ = ["Api", "RecordSet", "rows"]

log = Log("plugin/clouddns")
# What the library warns of is in its errors as well.
logging.getLogger("google").addHandler(logging.NullHandler())

SCOPES = ["https://www.googleapis.com/auth/ndev.clouddns.readonly"]


class RecordSet(msgspec.Struct):
    name: str
    type: str
    ttl: int = 0
    #: In presentation form; of a set with a routing policy there are none.
    rrdatas: list[str] = msgspec.field(default_factory=list)


class Page(msgspec.Struct):
    rrsets: list[RecordSet] = msgspec.field(default_factory=list)
    nextPageToken: str = ""  # noqa: N815


class ManagedZone(msgspec.Struct):
    name: str = ""


PAGE, MANAGED_ZONE = Decoder(Page), Decoder(ManagedZone)


class Credential:
    """The tokens of google-auth's credentials, which are looked for when the first one is wanted: that may ask the instance's metadata server."""

    def __init__(self, file: str) -> None:
        self._file = file or os.environ.get(environment_vars.CREDENTIALS, "")
        self._request = google.auth.transport.requests.Request()
        self._credentials: Any = None
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        with self._lock:
            self._found().before_request(self._request, "GET", "", headers)
        return headers

    def renew(self) -> None:
        with self._lock:
            self._found().refresh(self._request)

    def domain(self) -> str:
        """Of Google's cloud or another one of its making. Raises what google-auth raises."""
        with self._lock:
            return str(getattr(self._found(), "universe_domain", "") or "googleapis.com")

    def _found(self) -> Any:
        if self._credentials is None:
            with warnings.catch_warnings():  # that a file of unknown origin is dangerous, and that users' quota may be small
                warnings.simplefilter("ignore")
                self._credentials = _load(self._file) if self._file else google.auth.default(SCOPES)[0]
        return self._credentials


def _load(path: str) -> Any:
    """The credentials of a file. Raises what google-auth raises."""
    with open(path, "rb") as file:
        found = json.load(file)
    if found.get("type") != "external_account":
        return google.auth.load_credentials_from_dict(found, SCOPES)[0]  # type: ignore[no-untyped-call]
    # The function above would also ask for the name of the project, by an API that needs not be enabled.
    source: type[Any] = identity_pool.Credentials
    if found.get("subject_token_type") == "urn:ietf:params:aws:token-type:aws4_request":
        source = aws.Credentials
    elif "executable" in found.get("credential_source", {}):
        source = pluggable.Credentials
    return source.from_info(found, scopes=SCOPES)


class Api:
    """The client of one directive. Its functions raise RestError, and what google-auth raises."""

    def __init__(self, settings: Settings) -> None:
        self._endpoint = settings.endpoint
        self._credential = Credential(settings.file)
        self._rest = Rest(self._credential)

    def verify(self, project: str, zone: str) -> None:
        """Raises an error if the managed zone cannot be asked for."""
        self._rest.get(self._url(project, zone), MANAGED_ZONE)

    def records(self, project: str, zone: str) -> Iterator[Row]:
        """The records of a managed zone, page by page."""
        url = f"{self._url(project, zone)}/rrsets"
        token = ""
        seen: set[str] = set()
        while True:
            page = self._rest.get(url, PAGE, {"pageToken": token} if token else None)
            for record_set in page.rrsets:
                yield from rows(record_set)
            token = page.nextPageToken
            if not token:
                return
            if token in seen:
                raise RestError("the next page was read before")
            seen.add(token)

    def _url(self, project: str, zone: str) -> str:
        endpoint = self._endpoint or f"https://dns.{self._credential.domain()}"
        return f"{endpoint}/dns/v1/projects/{quote(project, safe='')}/managedZones/{quote(zone, safe='')}"


def rows(record_set: RecordSet) -> Iterator[Row]:
    """The records of a set; none of an alias. At one that cannot be served the rest is left out with a warning."""
    if record_set.type == "ALIAS":
        return
    try:
        for value in record_set.rrdatas:
            yield row(record_set.name, record_set.type, record_set.ttl, value)
    except ValueError as error:
        log.warning(f"Failed to process resource record set: {error}")
