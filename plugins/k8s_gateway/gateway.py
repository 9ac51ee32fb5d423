"""From objects to names and addresses.

A route has the addresses of its Gateways, and a Service may have those of its EndpointSlices. Routes of the same Gateways share one claim: a change of a
Gateway makes the records of its claims anew, and not those of each route. A Service is looked at anew when one of its slices changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from fastdns._wire import name_wire
from fastdns.plugins.k8s_gateway.kinds import DNS_ENDPOINT, GATEWAY, GROUP, INGRESS, NODE, RESOURCES, ROUTES, SERVICE, SLICE, Balancer, Parent
from fastdns.plugins.k8s_gateway.settings import Settings
from fastdns.plugins.kubernetes.objects import KubernetesObject, ObjectZones, Watched
from fastdns.plugins.kubernetes.objects.claims import TYPE_CNAME, Row, SharedClaim
from fastdns.plugins.kubernetes.objects.names import HOSTNAME, address_row, shared_most
from fastdns.protocol.parameters import TYPE_TXT, type_number
from fastdns.zonefile.rdata import parse

__all__ = ["Gateway"]

#: The types of records that a DNSEndpoint may have: those of external-dns.
TYPES = {name: type_number(name) for name in ("A", "AAAA", "CNAME", "TXT", "SRV", "NS", "PTR", "MX", "NAPTR")}
#: Octets of a TXT record's text.
TEXT_MOST = 65_000

#: Namespace and name of an object.
Reference = tuple[str, str]
#: Routes that share their records: kind, Gateways, and how many records each name may have.
Alike = tuple[Watched, tuple[Reference, ...], int]


class Gateway(ObjectZones):
    """The zones of one directive."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.settings = settings
        self.resources = [RESOURCES[resource] for resource in settings.resources]
        kinds: list[Watched] = []
        for kind in self.resources:
            kinds += [Watched(kind, selector) for selector in settings.selectors] if kind == SERVICE and settings.selectors else [Watched(kind)]
        if any(kind in ROUTES for kind in self.resources):
            kinds.append(Watched(GATEWAY))
        for server in (settings.apex, settings.secondary):
            if server and not HOSTNAME.fullmatch(server.lower()):
                raise ValueError(f"no host name: '{server}'")
        servers = [server.rstrip(".") for server in (settings.apex, settings.secondary) if server]
        super().__init__(name, settings.zones, kinds, settings, servers=servers, ttl=settings.ttl, fall=settings.fall)
        #: Gateways, and the EndpointSlices of a service.
        self.gateways: dict[Reference, KubernetesObject] = {}
        self.slices: dict[Reference, dict[Reference, KubernetesObject]] = defaultdict(dict)
        #: Claims of routes, and which of them take the addresses of a Gateway.
        self.claims: dict[Alike, SharedClaim] = {}
        self.takers: dict[Reference, set[Alike]] = defaultdict(set)
        #: Services that take the addresses of their slices, by their watches.
        self.resolved: dict[Reference, dict[Watched, KubernetesObject]] = defaultdict(dict)
        self.gateway, self.slice = Watched(GATEWAY), Watched(SLICE)
        #: EndpointSlices are watched once a service wants them.
        self.watches_slices = False

    # ---- what belongs together ----

    def changed(self, watched: Watched, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        found = after or before
        assert found is not None  # noqa: S101 - an object is there before or after
        here = (found.namespace, found.name)
        if watched == self.gateway:
            if after is None:
                self.gateways.pop(here, None)
            else:
                self.gateways[here] = after
            for alike in self.takers.get(here, ()):
                self.renew(self.claims[alike])
        elif watched == self.slice:
            for service in {reference for one in (before, after) if one is not None and (reference := service_of(one)) is not None}:
                self._keep_slice(service, here, after if after is not None and service_of(after) == service else None)
                for taker, its in self.resolved.get(service, {}).items():
                    self.claim(taker, *service, its)
        elif watched.kind in ROUTES:
            self._claim_route(watched, here, before, after)
        else:
            if watched.kind == SERVICE:
                self._note_service(watched, here, after)
            self.claim(watched, *here, after)

    def _keep_slice(self, service: Reference, here: Reference, found: KubernetesObject | None) -> None:
        if found is not None:
            self.slices[service][here] = found
            return
        self.slices[service].pop(here, None)
        if not self.slices[service]:
            del self.slices[service]

    def _note_service(self, watched: Watched, here: Reference, found: KubernetesObject | None) -> None:
        """Remember whether it takes the addresses of its slices."""
        if found is not None and resolves_endpoints(found):
            if not self.watches_slices:
                self.watches_slices = True
                self.watch(self.slice)
            self.resolved[here][watched] = found
        elif here in self.resolved:
            self.resolved[here].pop(watched, None)
            if not self.resolved[here]:
                del self.resolved[here]

    # ---- routes ----

    def _claim_route(self, watched: Watched, here: Reference, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        found = alike_of(watched, after) if after is not None else None
        if after is None or found is None:
            self.claim(watched, *here, None)
        else:
            claim = self.claims.get(found) or self._begin(found)
            self.share(watched, *here, claim, after["hostnames"])
        left = alike_of(watched, before) if before is not None else None
        for alike in {left, found} - {None}:
            if alike in self.claims and not self.claims[alike].owners:
                self._end(alike)

    def _begin(self, alike: Alike) -> SharedClaim:
        watched, gateways, most = alike
        claim = self.claims[alike] = self.shared(watched, most, partial(self._gateway_rows, gateways), "routes of " + ", ".join(map("/".join, gateways)))
        for gateway in gateways:
            self.takers[gateway].add(alike)
        return claim

    def _end(self, alike: Alike) -> None:
        """No route has them any more."""
        del self.claims[alike]
        for gateway in alike[1]:
            self.takers[gateway].discard(alike)
            if not self.takers[gateway]:
                del self.takers[gateway]

    # ---- names and addresses ----

    def rows(self, watched: Watched, found: KubernetesObject) -> Iterator[tuple[str, Row]]:
        kind = watched.kind
        if is_ignored(found):
            return iter(())
        if kind == DNS_ENDPOINT:
            return self._endpoint_rows(found)
        hostnames: Iterable[str]
        if kind == SERVICE:
            hostnames, rows = service_names(found), self._service_rows(found)
        elif kind == INGRESS:
            hostnames, rows = ingress_names(found), self._ingress_rows(found)
        else:
            assert kind == NODE  # noqa: S101 - there are no others
            hostnames, rows = addresses_of(found, "Hostname"), self._address_rows(addresses_of(found, self.settings.node_address))
        kept = list(dict.fromkeys(rows))
        return ((hostname, row) for hostname in dict.fromkeys(hostnames) for row in kept)

    def _address_rows(self, texts: Iterable[str]) -> Iterator[Row]:
        return (row for text in texts if (row := address_row(text, self.ttl)) is not None)

    def _alias_rows(self, hostnames: Iterable[str]) -> Iterator[Row]:
        """CNAME records to host names of load balancers; they stand back where there are addresses."""
        for hostname in hostnames:
            if HOSTNAME.fullmatch(hostname.lower()) and not hostname.startswith("*"):
                try:
                    yield TYPE_CNAME, self.ttl, name_wire(hostname.lower().rstrip(".") + ".")
                except ValueError:
                    continue

    def _balancer_rows(self, balancers: Iterable[Balancer] | None) -> Iterator[Row]:
        found = tuple(balancers or ())
        yield from self._address_rows(one.ip for one in found if one.ip and not one.hostname)
        yield from self._alias_rows(one.hostname for one in found if one.hostname)

    def _service_rows(self, found: KubernetesObject) -> Iterator[Row]:
        if resolves_endpoints(found):
            slices = self.slices.get((found.namespace, found.name), {})
            points = chain.from_iterable(one["endpoints"] or () for _, one in sorted(slices.items()))
            ready = (point for point in points if point.conditions is None or point.conditions.ready is not False)
            return self._address_rows(chain.from_iterable(point.addresses or () for point in ready))
        if found["external_ips"]:
            return self._address_rows(found["external_ips"])
        return self._balancer_rows(found["balancers"])

    def _ingress_rows(self, found: KubernetesObject) -> Iterator[Row]:
        if self.settings.ingress_classes and found["class"] not in self.settings.ingress_classes:
            return iter(())
        return self._balancer_rows(found["balancers"])

    def _gateway_rows(self, references: Iterable[Reference]) -> Iterator[Row]:
        for reference in references:
            gateway = self.gateways.get(reference)
            if gateway is None or (self.settings.gateway_classes and gateway["class"] not in self.settings.gateway_classes):
                continue
            addresses = gateway["addresses"] or ()
            yield from self._address_rows(one.value for one in addresses if one.value and one.type in (None, "IPAddress"))
            yield from self._alias_rows(one.value for one in addresses if one.value and one.type == "Hostname")

    def _endpoint_rows(self, found: KubernetesObject) -> Iterator[tuple[str, Row]]:
        for record in found["endpoints"] or ():
            kind = TYPES.get(record.type or "")
            if not record.name or kind is None:
                continue
            ttl = record.ttl if record.ttl is not None and 0 < record.ttl < 1 << 31 else self.ttl
            for target in record.targets or ():
                row = target_row(kind, ttl, target)
                if row is None:
                    self.leave_out(f"{found!r}: {record.name}: no {record.type} record: {target[:200]!r}")
                else:
                    yield record.name, row


def is_ignored(found: KubernetesObject) -> bool:
    return found["labels"] is not None and found["labels"].ignore == "true"


def alike_of(watched: Watched, route: KubernetesObject) -> Alike | None:
    """What a route shares with others; None: it has no names."""
    hostnames, gateways = route["hostnames"], gateways_of(route)
    if not hostnames or not gateways or is_ignored(route):
        return None
    return watched, tuple(gateways), shared_most(len(hostnames))


def gateways_of(route: KubernetesObject) -> list[Reference]:
    """The Gateways that a route refers to, in its order."""
    parents: list[Parent] = [parent for parent in route["parents"] or () if parent.kind in (None, "Gateway") and parent.group in (None, GROUP)]
    return list(dict.fromkeys((parent.namespace or route.namespace, parent.name) for parent in parents if parent.name))


def service_of(found: KubernetesObject) -> Reference | None:
    """The service of an EndpointSlice."""
    labels = found["labels"]
    return (found.namespace, labels.service) if labels is not None and labels.service else None


def resolves_endpoints(service: KubernetesObject) -> bool:
    annotations = service["annotations"]
    return annotations is not None and annotations.resolve_endpoints == "true"


def service_names(service: KubernetesObject) -> list[str]:
    """Of its annotation, else of itself."""
    if service["type"] != "LoadBalancer" and not resolves_endpoints(service):
        return []
    annotations = service["annotations"]
    for text in (annotations.hostname, annotations.external_hostname) if annotations is not None else ():
        if text is not None:
            return [hostname for hostname in text.replace(" ", "").split(",") if hostname]
    return [f"{service.name}.{service.namespace}"]


def ingress_names(ingress: KubernetesObject) -> list[str]:
    return [rule.host for rule in ingress["rules"] or () if rule.host]


def addresses_of(node: KubernetesObject, kind: str) -> list[str]:
    return [one.address for one in node["addresses"] or () if one.type == kind and one.address]


def target_row(kind: int, ttl: int, target: str) -> Row | None:
    """The record of a DNSEndpoint's target; a TXT record's is its text."""
    if kind == TYPE_TXT:
        octets = target.encode()
        if len(octets) >= 2 and octets[:1] == octets[-1:] == b'"':
            octets = octets[1:-1]
        if len(octets) > TEXT_MOST:
            return None
        pieces = [octets[at : at + 255] for at in range(0, len(octets), 255)] or [b""]
        return kind, ttl, b"".join(b"%c%b" % (len(piece), piece) for piece in pieces)
    if kind in (TYPES["A"], TYPES["AAAA"]):
        row = address_row(target, ttl)
        return row if row is not None and row[0] == kind else None
    try:
        return kind, ttl, parse(kind, target)
    except ValueError:
        return None
