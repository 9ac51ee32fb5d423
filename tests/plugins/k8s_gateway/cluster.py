"""A real API server with the kinds that k8s_gateway reads."""

from __future__ import annotations

from tests.apiserver.process import ApiServer
from tests.plugins.k8s_gateway.definitions import KINDS, definition
from tests.plugins.k8s_gateway.objects import Object
from tests.waiting import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROOTS = {"Service": "/api/v1", "Ingress": "/apis/networking.k8s.io/v1", "EndpointSlice": "/apis/discovery.k8s.io/v1"}
PLURALS = {"Service": "services", "Ingress": "ingresses", "EndpointSlice": "endpointslices"} | {kind: plural for plural, (_, kind, _, _) in KINDS.items()}


class Cluster:
    """An API server that objects are written to."""

    def __init__(self) -> None:
        self.server = ApiServer()

    def path(self, item: Object) -> str:
        root = ROOTS.get(item["kind"], f"/apis/{item['apiVersion']}")
        return f"{root}/namespaces/{item['metadata']['namespace']}/{PLURALS[item['kind']]}"

    def install(self, plural: str, *versions: str) -> None:
        """A kind; what was installed of it is taken away first."""
        group = KINDS[plural][0]
        self.server.ask("POST", DEFINITIONS, definition(plural, *versions))
        until(lambda: self._serves(f"/apis/{group}/{versions[0]}/{plural}"), f"{plural} in {versions[0]}")

    def _serves(self, path: str) -> bool:
        try:
            return bool(self.server.ask("GET", path))
        except AssertionError:
            return False

    def remove(self, plural: str) -> None:
        self.server.ask("DELETE", f"{DEFINITIONS}/{plural}.{KINDS[plural][0]}")

    def write(self, item: Object) -> None:
        """Create or replace, and its status where that is a subresource."""
        path, name = self.path(item), item["metadata"]["name"]
        try:
            version = self.server.ask("GET", f"{path}/{name}")["metadata"]["resourceVersion"]
        except AssertionError:
            written = self.server.ask("POST", path, item)
        else:
            written = self.server.ask("PUT", f"{path}/{name}", {**item, "metadata": {**item["metadata"], "resourceVersion": version}})
        if "status" in item and item["kind"] not in ROOTS:
            self.server.ask("PUT", f"{path}/{name}/status", {**written, "status": item["status"]})

    def delete(self, item: Object) -> None:
        self.server.ask("DELETE", f"{self.path(item)}/{item['metadata']['name']}")

    def stop(self) -> None:
        self.server.stop()
