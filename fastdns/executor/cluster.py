"""What Python plugins may look up in a cluster's store; the plugin *kubernetes* implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

__all__ = ["Cluster", "Endpoint", "Pod", "Port", "Service"]


class Port(NamedTuple):
    """A port of a service or of an endpoint."""

    #: "" for a port without a name.
    name: str
    #: ``tcp``, ``udp`` or ``sctp``.
    protocol: str
    #: None: the object gives no number.
    number: int | None


class Service(NamedTuple):
    """A Service."""

    namespace: str
    name: str
    #: Cluster IPs; none for a headless service.
    addresses: Sequence[str]
    ports: Sequence[Port]
    headless: bool
    #: Target of a service of type ExternalName, else "".
    external_name: str
    #: Load balancers' and external addresses or host names.
    external: Sequence[str]


class Endpoint(NamedTuple):
    """A ready endpoint of a service."""

    #: An address, or a host name for slices of the address type FQDN.
    address: str
    ports: Sequence[Port]
    hostname: str
    #: Name of the pod behind it; "" if none is known.
    pod: str
    zone: str


class Pod(NamedTuple):
    """A pod."""

    namespace: str
    name: str
    #: Where the server block has *metadata*, or a rule of *acl* that reads labels; else they are not kept, and this is empty.
    labels: Mapping[str, str]


class Cluster(Protocol):
    """A read-only view of a cluster: of the namespaces that *kubernetes* of the server block exposes, as they are at each call."""

    def service(self, namespace: str, name: str) -> Service | None:
        """A Service; None where there is none. Raises ValueError for what is no name."""

    def endpoints(self, namespace: str, name: str) -> list[Endpoint]:
        """The endpoints of a service; empty where there are none. Raises ValueError for what is no name."""

    def pod(self, address: str | bytes) -> Pod | None:
        """The one pod that has an address (text, or 4 or 16 octets); needs ``pods verified``.

        None where there is none, where there are several, and where the address is the node's. Raises ValueError for what is no address.
        """
