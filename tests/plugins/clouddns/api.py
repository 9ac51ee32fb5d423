"""Google Cloud DNS's REST interface (version 1) as far as fastdns uses it: record sets in pages, and what gives tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs

from tests.cloud import Cloud, Request, Response

JSON = {"Content-Type": "application/json"}


def refusal(status: int, word: str, message: str, headers: dict[str, str] | None = None) -> Response:
    error = {"code": status, "message": message, "status": word, "errors": [{"message": message, "domain": "global", "reason": "x"}]}
    return Response(status, json.dumps({"error": error}).encode(), JSON | (headers or {}))


THROTTLED = refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded", {"Retry-After": "1"})
BROKEN = refusal(503, "UNAVAILABLE", "x")
DENIED = refusal(403, "PERMISSION_DENIED", "not you")

RecordSet = dict[str, Any]


def record_set(name: str, kind: str, ttl: int, *values: str) -> RecordSet:
    return {"kind": "dns#resourceRecordSet", "name": name, "type": kind, "ttl": ttl, "rrdatas": list(values)}


def apex(origin: str) -> list[RecordSet]:
    soa = "ns-cloud-a1.googledomains.com. cloud-dns-hostmaster.google.com. 1 21600 3600 259200 300"
    return [record_set(origin, "NS", 21600, "ns-cloud-a1.googledomains.com."), record_set(origin, "SOA", 21600, soa)]


class Google(Cloud):
    """Managed zones by project and name. It gives tokens, and takes those that it gave."""

    def __init__(self, zones: dict[str, Iterable[RecordSet]]) -> None:
        super().__init__(self.find)
        self.zones = {name: list(sets) for name, sets in zones.items()}
        self.tokens: set[str] = set()
        #: Of the tokens that are given next, in seconds.
        self.lifetime = 3600
        #: Ways by which tokens were given.
        self.ways: list[str] = []

    def find(self, request: Request) -> Response:
        if request.path == "/token":
            return self._token(parse_qs(request.body.decode())["grant_type"][0].rpartition(":")[2])
        if request.path == "/sts":
            assert b"subject_token=of-kubernetes&" in request.body + b"&"
            return self._token("sts", issued_token_type="urn:ietf:params:oauth:token-type:access_token")
        if request.path.startswith("/computeMetadata/v1/") or request.path == "/":
            return self._instance(request)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return refusal(401, "UNAUTHENTICATED", "Invalid Credentials")
        return self._page(request)

    def _token(self, way: str, **fields: str) -> Response:
        self.ways.append(way)
        token = f"token-that-is-secret-{len(self.ways)}"
        self.tokens.add(token)
        return document({"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"} | fields)

    def _instance(self, request: Request) -> Response:
        """The metadata server of an instance."""
        path = request.path.removeprefix("/computeMetadata/v1/")
        if path.endswith("/token"):
            return self._token("metadata")
        if path.startswith("instance/service-accounts/"):
            return document({"email": "x@example.org", "scopes": ["x"], "aliases": ["default"]}, {"Metadata-Flavor": "Google"})
        if path in ("universe/universe-domain", "universe/universe_domain"):
            return Response(404, b"", {"Metadata-Flavor": "Google"})
        return Response(200, b"project", {"Metadata-Flavor": "Google", "Content-Type": "text/plain"})

    def _page(self, request: Request) -> Response:
        _, dns, version, projects, project, managed, zone, *rest = request.path.split("/")
        assert (dns, version, projects, managed) == ("dns", "v1", "projects", "managedZones")
        sets = self.zones.get(f"{project}/{zone}")
        if sets is None:
            return refusal(404, "NOT_FOUND", f"The 'parameters.managedZone' resource named '{zone}' does not exist.")
        if not rest:
            return document({"kind": "dns#managedZone", "name": zone})
        start = int(request.arguments.get("pageToken", "0"))
        page: dict[str, Any] = {"kind": "dns#resourceRecordSetsListResponse", "rrsets": sets[start : start + 1000]}
        if start + 1000 < len(sets):
            page["nextPageToken"] = str(start + 1000)
        return document(page)


def document(value: object, headers: dict[str, str] | None = None) -> Response:
    return Response(200, json.dumps(value).encode(), JSON | (headers or {}))
