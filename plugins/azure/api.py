"""The REST interfaces of Azure DNS (public zones) and Azure Private DNS: record sets of a zone. Imports azure.identity."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from msgspec.json import Decoder

from fastdns.plugins.file.hosted import Row, row
from fastdns.plugins.file.hosted_rest import Rest, RestError
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.azure.settings import Place, Settings

__all__ = ["Api", "rows"]

log = Log("plugin/azure")
# What the library warns of is in its errors as well.
logging.getLogger("azure").addHandler(logging.NullHandler())

#: Of a zone's resource type: the last part of its URL, and the version of the interface.
PUBLIC = ("dnsZones", "recordsets", "2018-05-01")
PRIVATE = ("privateDnsZones", "ALL", "2020-06-01")

#: Octets of one string of a TXT record.
STRING_MOST = 255

#: JSON with its fields' names in lower case: those of the two interfaces differ in case.
Fields = dict[str, Any]

#: By field of a record set: its type and the presentation form of one record.
TYPES: dict[str, tuple[str, Callable[[Fields], str]]] = {
    "arecords": ("A", lambda one: one["ipv4address"]),
    "aaaarecords": ("AAAA", lambda one: one["ipv6address"]),
    "mxrecords": ("MX", lambda one: f"{one['preference']} {one['exchange']}"),
    "nsrecords": ("NS", lambda one: one["nsdname"]),
    "ptrrecords": ("PTR", lambda one: one["ptrdname"]),
    "srvrecords": ("SRV", lambda one: f"{one['priority']} {one['weight']} {one['port']} {one['target']}"),
    "caarecords": ("CAA", lambda one: f'{one["flags"]} {one["tag"]} "{_escaped(one["value"])}"'),
    "cnamerecord": ("CNAME", lambda one: one["cname"]),
    "soarecord": (
        "SOA",
        lambda one: " ".join(str(one[field]) for field in ("host", "email", "serialnumber", "refreshtime", "retrytime", "expiretime", "minimumttl")),
    ),
}


class RecordSet(msgspec.Struct):
    properties: dict[str, Any]


class Page(msgspec.Struct):
    value: list[RecordSet] = msgspec.field(default_factory=list)
    #: The URL of the next page.
    nextLink: str | None = None  # noqa: N815


PAGE = Decoder(Page)


class Credential:
    """The tokens of azure-identity's credentials."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._scope = f"{settings.environment.audience}/.default"
        self._credential = self._made()

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._credential.get_token(self._scope).token}"}

    def renew(self) -> None:
        """Credentials keep tokens until they expire; a new one has none."""
        self._credential = self._made()

    def _made(self) -> ClientSecretCredential | DefaultAzureCredential:
        settings = self._settings
        options: dict[str, Any] = {"authority": settings.environment.authority, "disable_instance_discovery": not settings.environment.known}
        if settings.tenant and settings.client and settings.secret:
            return ClientSecretCredential(settings.tenant, settings.client, settings.secret, **options)
        if settings.client:
            options["managed_identity_client_id"] = settings.client
        if settings.tenant:
            options["workload_identity_tenant_id"] = settings.tenant
        for others in ("broker", "developer_cli", "powershell", "shared_token_cache", "visual_studio_code"):
            options[f"exclude_{others}_credential"] = True
        return DefaultAzureCredential(**options)


class Api:
    """The client of a server block. Raises ValueError for settings that the library refuses."""

    def __init__(self, settings: Settings) -> None:
        self._manager = settings.environment.manager
        self._subscription = settings.subscription
        self._rest = Rest(Credential(settings))

    def records(self, place: Place) -> Iterator[Row]:
        """The records of a zone, page by page. Raises RestError and what azure-identity raises."""
        kind, last, version = PRIVATE if place.private else PUBLIC
        group, zone = quote(place.group, safe=""), quote(place.zone, safe="")
        url = f"{self._manager}/subscriptions/{quote(self._subscription, safe='')}/resourceGroups/{group}/providers/Microsoft.Network/{kind}/{zone}/{last}"
        page = self._rest.get(url, PAGE, {"api-version": version})
        seen: set[str] = set()
        while True:
            for record_set in page.value:
                yield from rows(record_set.properties)
            if not page.nextLink:
                return
            if page.nextLink in seen or not _same_server(page.nextLink, self._manager):
                raise RestError(f"the next page is not one of {self._manager}, or was read before")
            seen.add(page.nextLink)
            page = self._rest.get(page.nextLink, PAGE)


def _same_server(url: str, other: str) -> bool:
    """The token is for one server only."""

    def server(text: str) -> tuple[str, str | None, int | None]:
        parts = urlsplit(text)
        return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)

    try:
        return server(url) == server(other)
    except ValueError:
        return False


def rows(properties: dict[str, Any]) -> Iterator[Row]:
    """The records of a set. At one that cannot be served the rest is left out with a warning."""
    fields = _lower(properties)
    try:
        owner, ttl = fields["fqdn"], int(fields["ttl"])
        for name, found in fields.items():
            if name == "txtrecords":
                yield from (_text_row(owner, ttl, one["value"]) for one in found or ())
            elif name in TYPES:
                kind, present = TYPES[name]
                yield from (row(owner, kind, ttl, present(one)) for one in _list(found))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        log.warning(f"Failed to process resource record set: {error if isinstance(error, ValueError) else repr(error)}")


def _list(found: Any) -> Iterable[Fields]:
    """Of a set that may have one record alone."""
    return found if isinstance(found, list) else [found] if found else ()


def _lower(value: Any) -> Any:
    if isinstance(value, dict):
        return {name.lower(): _lower(one) for name, one in value.items()}
    return [_lower(one) for one in value] if isinstance(value, list) else value


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _text_row(owner: str, ttl: int, strings: list[str]) -> Row:
    """A TXT record of strings as they are, without escapes. What is too long for one string becomes several."""
    name, kind, ttl, _ = row(owner, "TXT", ttl, '""')
    rdata = bytearray()
    for text in strings:
        octets = text.encode()
        for start in range(0, len(octets) or 1, STRING_MOST):
            piece = octets[start : start + STRING_MOST]
            rdata += bytes([len(piece)]) + piece
    if not rdata or len(rdata) > 0xFFFF:
        raise ValueError(f"failed to parse resource record: a TXT record of {len(rdata)} octets")
    return name, kind, ttl, bytes(rdata)
