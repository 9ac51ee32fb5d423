"""What is listed and watched for each kind of _objects.pxd."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from fastdns.plugins.kubernetes.watch.selectors import Selector

SERVICE_NAME = "multicluster.kubernetes.io/service-name"
EVERYTHING = Selector()
ACTIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown"


class Kind(IntEnum):
    """As in _objects.pxd."""

    NAMESPACE = 0
    SERVICE = 1
    SLICE = 2
    POD = 3
    IMPORT = 4
    IMPORT_SLICE = 5


class Selectors(NamedTuple):
    """The properties `labels` and `namespace_labels`."""

    labels: Selector = EVERYTHING
    namespace_labels: Selector = EVERYTHING

    def of(self, kind: Kind) -> Selector:
        """The label selector of a kind; imports go by namespace_labels, as in CoreDNS."""
        if kind in (Kind.NAMESPACE, Kind.IMPORT):
            return self.namespace_labels
        return self.labels.and_exists(SERVICE_NAME) if kind is Kind.IMPORT_SLICE else self.labels


class Resource(NamedTuple):
    """Where a kind is in the API, and how log lines call it."""

    path: str
    #: client-go's name of the type.
    type: str
    fields: str = ""
    #: Content types that are understood; "": protobuf and JSON.
    accept: str = ""

    @property
    def plural(self) -> str:
        return self.path.rpartition("/")[2]

    def within(self, namespace: str) -> Resource:
        """The resource of one namespace."""
        from urllib.parse import quote

        group, _, plural = self.path.rpartition("/")
        return self._replace(path=f"{group}/namespaces/{quote(namespace, safe='')}/{plural}")


SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
IMPORTS = "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports"

RESOURCES = {
    Kind.NAMESPACE: Resource("/api/v1/namespaces", "*v1.Namespace"),
    Kind.SERVICE: Resource("/api/v1/services", "*v1.Service"),
    Kind.SLICE: Resource(SLICES, "*v1.EndpointSlice"),
    Kind.POD: Resource("/api/v1/pods", "*v1.Pod", ACTIVE_PODS),
    Kind.IMPORT: Resource(IMPORTS, "*v1alpha1.ServiceImport"),
    Kind.IMPORT_SLICE: Resource(SLICES, "*v1.EndpointSlice"),
}


#: Labels of metrics.
KINDS = {
    Kind.NAMESPACE: "namespaces",
    Kind.SERVICE: "services",
    Kind.SLICE: "endpointslices",
    Kind.POD: "pods",
    Kind.IMPORT: "serviceimports",
    Kind.IMPORT_SLICE: "importslices",
}


def kinds(endpoints: bool = True, pods: bool = False, multicluster: bool = False) -> frozenset[Kind]:
    """What a server block needs: `noendpoints` takes the slices away, `pods verified` and `multicluster` add theirs."""
    wanted: Iterable[Kind] = [Kind.NAMESPACE, Kind.SERVICE]
    wanted = [*wanted, *([Kind.SLICE] * endpoints), *([Kind.POD] * pods)]
    return frozenset([*wanted, *([Kind.IMPORT, Kind.IMPORT_SLICE] if multicluster else [])])
