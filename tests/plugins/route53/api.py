"""Route 53's REST interface (version 2013-04-01) as far as fastdns uses it: zones of record sets, in pages."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

from tests.cloud import Cloud, Request, Response

#: Name, type, TTL, values; an alias has no TTL.
RecordSet = tuple[str, str, int | None, list[str]]

SOA = "ns-1.awsdns-01.org. awsdns-hostmaster.amazon.com. 1 7200 900 1209600 86400"
NAMESPACE = 'xmlns="https://route53.amazonaws.com/doc/2013-04-01/"'

THROTTLED = Response(
    400, f"<ErrorResponse {NAMESPACE}><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>".encode()
)
BROKEN = Response(
    500, f"<ErrorResponse {NAMESPACE}><Error><Type>Server</Type><Code>InternalFailure</Code><Message>x</Message></Error></ErrorResponse>".encode()
)
DENIED = Response(
    403, f"<ErrorResponse {NAMESPACE}><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>".encode()
)


def apex(origin: str) -> list[RecordSet]:
    return [(origin, "NS", 172800, ["ns-1.awsdns-01.org.", "ns-2.awsdns-02.com."]), (origin, "SOA", 900, [SOA])]


class Route53(Cloud):
    """Hosted zones by ID."""

    def __init__(self, **zones: Iterable[RecordSet]) -> None:
        super().__init__(self.find)
        self.zones = {number: list(sets) for number, sets in zones.items()}
        #: Record sets of a page, at most.
        self.page = 1000

    def find(self, request: Request) -> Response:
        if request.path == "/2013-04-01/hostedzonesbyname":
            return _response("ListHostedZonesByNameResponse", "<HostedZones/><IsTruncated>false</IsTruncated><MaxItems>100</MaxItems>")
        _, _, number, _ = request.path.removeprefix("/").split("/")
        sets = self.zones.get(number)
        if sets is None:
            text = f"<Error><Type>Sender</Type><Code>NoSuchHostedZone</Code><Message>No hosted zone found with ID: {number}</Message></Error>"
            return Response(404, f"<ErrorResponse {NAMESPACE}>{text}</ErrorResponse>".encode())
        return self._page(sets, request.arguments)

    def _page(self, sets: list[RecordSet], arguments: dict[str, str]) -> Response:
        """The identifier of a set with weight is its place."""
        start = 0
        if "name" in arguments:
            wanted = arguments["name"], arguments["type"], arguments["identifier"]
            start = next(at for at, one in enumerate(sets) if (one[0], one[1], str(at)) == wanted)
        size = min(self.page, int(arguments["maxitems"]))
        body = "".join(_record_set(at, one) for at, one in enumerate(sets[start : start + size], start))
        end = start + size
        more = ""
        if end < len(sets):
            name, kind, *_ = sets[end]
            more = f"<NextRecordName>{escape(name)}</NextRecordName><NextRecordType>{kind}</NextRecordType><NextRecordIdentifier>{end}</NextRecordIdentifier>"
        body = f"<ResourceRecordSets>{body}</ResourceRecordSets><IsTruncated>{str(end < len(sets)).lower()}</IsTruncated>{more}<MaxItems>{size}</MaxItems>"
        return _response("ListResourceRecordSetsResponse", body)


def _record_set(at: int, record_set: RecordSet) -> str:
    name, kind, ttl, values = record_set
    head = f"<Name>{escape(name)}</Name><Type>{kind}</Type><SetIdentifier>{at}</SetIdentifier><Weight>{at % 255}</Weight>"
    if ttl is None:
        target = f"<HostedZoneId>Z9</HostedZoneId><DNSName>{values[0]}</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth>"
        return f"<ResourceRecordSet>{head}<AliasTarget>{target}</AliasTarget></ResourceRecordSet>"
    records = "".join(f"<ResourceRecord><Value>{escape(value)}</Value></ResourceRecord>" for value in values)
    return f"<ResourceRecordSet>{head}<TTL>{ttl}</TTL><ResourceRecords>{records}</ResourceRecords></ResourceRecordSet>"


def _response(name: str, body: str) -> Response:
    return Response(200, f'<?xml version="1.0"?><{name} {NAMESPACE}>{body}</{name}>'.encode(), {"Content-Type": "text/xml"})
