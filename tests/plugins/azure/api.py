"""Azure's REST interfaces as far as fastdns uses them: zones of record sets in pages, the tokens of Microsoft Entra ID and those of managed identities."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.cloud import Cloud, Request, Response

SUBSCRIPTION = "5ab5c0de-0000-4000-8000-000000000001"
TENANT = "7e7a47ff-0000-4000-8000-000000000002"
CLIENT = "c11e7777-0000-4000-8000-000000000003"
SECRET = "ju5t~a.Secret-of_an_application"

JSON = {"Content-Type": "application/json"}

THROTTLED = Response(429, b'{"error": {"code": "TooManyRequests", "message": "slow down"}}', {"Retry-After": "1"})
BROKEN = Response(500, b'{"error": {"code": "InternalServerError", "message": "x"}}')
DENIED = Response(403, b'{"error": {"code": "AuthorizationFailed", "message": "not you"}}')

RecordSet = dict[str, Any]


def public(name: str, ttl: int, **fields: Any) -> RecordSet:
    """A record set in the public interface's spelling."""
    return {"id": "x", "name": name.split(".")[0], "type": "Microsoft.Network/dnszones/X", "etag": "e", "properties": {"fqdn": name, "TTL": ttl} | fields}


def private(name: str, ttl: int, **fields: Any) -> RecordSet:
    """A record set in the private interface's spelling."""
    return {"id": "x", "type": "Microsoft.Network/privateDnsZones/X", "properties": {"fqdn": name, "ttl": ttl, "isAutoRegistered": False} | fields}


def soa(minimum: str) -> dict[str, Any]:
    """``minimum``: how the interface spells the last field."""
    times = {"refreshTime": 3600, "retryTime": 300, "expireTime": 2419200, minimum: 300}
    return {"host": "ns1-01.azure-dns.com.", "email": "azuredns-hostmaster.microsoft.com", "serialNumber": 1} | times


class Azure(Cloud):
    """Zones by resource type, group and name. It gives tokens, and takes those that it gave."""

    def __init__(self, folder: Path, zones: dict[str, Iterable[RecordSet]]) -> None:
        """``folder`` has the certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        super().__init__(self.find, context)
        self.zones = {name: list(sets) for name, sets in zones.items()}
        #: Record sets of a page, at most.
        self.page = 100
        #: Where the next page is said to be; "": here.
        self.elsewhere = ""
        self.tokens: set[str] = set()
        #: Of the tokens that are given next, in seconds.
        self.lifetime = 3600
        #: Number of tokens.
        self.given = 0

    def find(self, request: Request) -> Response:
        if request.path.endswith("/.well-known/openid-configuration"):
            base = f"{self.url}/{TENANT}"
            entra = f"{base}/oauth2/v2.0"
            return document({"issuer": f"{base}/v2.0", "token_endpoint": f"{entra}/token", "authorization_endpoint": f"{entra}/authorize"})
        if request.path == f"/{TENANT}/oauth2/v2.0/token":
            return self._entra(parse_qs(request.body.decode()))
        if request.path == "/msi/token":
            return self._identity(request)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return Response(401, b'{"error": {"code": "InvalidAuthenticationToken", "message": "The access token is invalid."}}')
        return self._page(request)

    def _token(self) -> str:
        self.given += 1
        token = f"token-that-is-secret-{self.given}"
        self.tokens.add(token)
        return token

    def _entra(self, form: dict[str, list[str]]) -> Response:
        known = form.get("client_secret") == [SECRET] or form.get("client_assertion") == ["of-kubernetes"]
        if not known or form["client_id"] != [CLIENT] or f"{self.url}/.default" not in form["scope"][0].split():
            return Response(401, b'{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}', JSON)
        return document({"token_type": "Bearer", "expires_in": self.lifetime, "access_token": self._token()})

    def _identity(self, request: Request) -> Response:
        if request.headers["X-IDENTITY-HEADER"] != SECRET or request.arguments.get("client_id") != CLIENT or request.arguments["resource"] != self.url:
            return Response(400, b'{"error": {"code": "bad_request"}}', JSON)
        return document({"access_token": self._token(), "expires_on": str(int(time.time()) + self.lifetime), "resource": self.url, "token_type": "Bearer"})

    def _page(self, request: Request) -> Response:
        _, subscriptions, subscription, _, group, _, _, kind, zone, last = request.path.split("/")
        wanted = {"dnsZones": ("recordsets", "2018-05-01"), "privateDnsZones": ("ALL", "2020-06-01")}[kind]
        assert (subscriptions, subscription, last, request.arguments["api-version"]) == ("subscriptions", SUBSCRIPTION, *wanted)
        sets = self.zones.get(f"{kind}/{group}/{zone}")
        if sets is None:
            return Response(404, json.dumps({"error": {"code": "ResourceNotFound", "message": f"The Resource '{zone}' was not found."}}).encode())
        start = int(request.arguments.get("$skipToken", "0"))
        end = start + self.page
        page: dict[str, Any] = {"value": sets[start:end]}
        if end < len(sets):
            page["nextLink"] = f"{self.elsewhere or self.url}{request.path}?api-version={wanted[1]}&$skipToken={end}"
        return document(page)


def document(value: object) -> Response:
    return Response(200, json.dumps(value).encode(), JSON)
