"""Where objects come from: an API server, or files with what ``kubectl get -o yaml`` has printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from fastdns.migrate.fields import Json, name, rows, text

__all__ = ["ApiSource", "FileSource", "Kind", "Source", "Unread", "title"]

#: Objects of one reply, so that it stays below what the client takes.
PAGE = 50
#: Replies that are asked for, whatever the server says.
PAGES = 2000

#: The reply to a GET: status and JSON. Raises ValueError where there is none.
Get = Callable[[str], tuple[int, Any]]


class Kind(NamedTuple):
    """A kind of objects: where the API has it."""

    kind: str
    root: str
    plural: str

    @property
    def resource(self) -> str:
        """As rights name it: ``deployments.apps``."""
        group = self.root.split("/")[2] if self.root.startswith("/apis/") else ""
        return f"{self.plural}.{group}" if group else self.plural

    def path(self, namespace: str = "", name: str = "") -> str:
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self.root}{inside}/{self.plural}{'/' if name else ''}{quote(name, safe='')}"


class Unread(NamedTuple):
    """What could not be read, and which right that takes."""

    verb: str
    resource: str
    namespace: str
    name: str
    status: int
    message: str

    def __str__(self) -> str:
        where = f" in the namespace {self.namespace}" if self.namespace else " in the cluster"
        what = f"{self.verb} {self.resource}{' ' if self.name else ''}{self.name}{where}"
        if self.status == 403:
            return f"the right to {what} is missing"
        return f"cannot {what}: {self.message}" + (f" (status {self.status})" if self.status else "")


class Source(Protocol):
    """Reads, and notes what cannot be read."""

    #: Whether what is not found is not there. Files may hold a part.
    complete: bool
    unread: list[Unread]

    def list(self, kind: Kind, namespace: str = "") -> list[Json]:
        """All objects of a kind, of one namespace or of the cluster; none of a kind that the cluster does not have."""

    def one(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """The object, or None."""


class ApiSource:
    """An API server. Its first request raises ValueError where nobody answers or the credentials are refused."""

    complete = True

    def __init__(self, get: Get) -> None:
        self._get = get
        self._answered = False
        self.unread: list[Unread] = []

    def list(self, kind: Kind, namespace: str = "") -> list[Json]:
        found: list[Json] = []
        token = ""
        for _ in range(PAGES):
            target = f"{kind.path(namespace)}?limit={PAGE}" + (f"&continue={quote(token, safe='')}" if token else "")
            page = self._read(target, Unread("list", kind.resource, namespace, "", 0, ""))
            found += rows(page, "items")
            token = text(page, "metadata", "continue")
            if not token:
                break
        return found

    def one(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self._read(kind.path(namespace, name), Unread("get", kind.resource, namespace, name, 0, ""))

    def _read(self, target: str, right: Unread) -> Json | None:
        try:
            status, found = self._get(target)
        except ValueError as error:
            if not self._answered:
                raise
            self.unread.append(right._replace(message=str(error)))
            return None
        message = text(found, "message")
        if status == 401:
            raise ValueError(f"the API server: {message or 'Unauthorized'} (status 401)")
        self._answered = True
        if status == 200 and isinstance(found, dict):
            return found
        if status != 404:
            self.unread.append(right._replace(status=status, message=message))
        return None


class FileSource:
    """Documents of files. What has no namespace is in ``namespace``, as kubectl would have it."""

    complete = False

    def __init__(self, documents: Iterable[object], namespace: str) -> None:
        self.unread: list[Unread] = []
        self._objects: list[Json] = []
        self._namespace = namespace
        for document in documents:
            if not isinstance(document, dict):
                continue
            kind = text(document, "kind")
            # Items of a `kind: List` have their kind, those of a DeploymentList may have none.
            inside = [{"kind": kind.removesuffix("List"), **item} for item in rows(document, "items")]
            self._objects += inside if kind.endswith("List") else [document]

    def list(self, kind: Kind, namespace: str = "") -> list[Json]:
        return [found for found in self._objects if text(found, "kind") == kind.kind and (not namespace or self._of(found) == namespace)]

    def one(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return next((found for found in self.list(kind, namespace) if text(found, "metadata", "name") == name), None)

    def _of(self, found: Json) -> str:
        return text(found, "metadata", "namespace") or self._namespace


DEPLOYMENT = Kind("Deployment", "/apis/apps/v1", "deployments")
DAEMON_SET = Kind("DaemonSet", "/apis/apps/v1", "daemonsets")
CONFIG_MAP = Kind("ConfigMap", "/api/v1", "configmaps")
SERVICE = Kind("Service", "/api/v1", "services")
DISRUPTION_BUDGET = Kind("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets")
AUTOSCALER = Kind("HorizontalPodAutoscaler", "/apis/autoscaling/v2", "horizontalpodautoscalers")
NETWORK_POLICY = Kind("NetworkPolicy", "/apis/networking.k8s.io/v1", "networkpolicies")
SERVICE_MONITOR = Kind("ServiceMonitor", "/apis/monitoring.coreos.com/v1", "servicemonitors")
ROLE = Kind("Role", "/apis/rbac.authorization.k8s.io/v1", "roles")
ROLE_BINDING = Kind("RoleBinding", "/apis/rbac.authorization.k8s.io/v1", "rolebindings")
CLUSTER_ROLE = Kind("ClusterRole", "/apis/rbac.authorization.k8s.io/v1", "clusterroles")
CLUSTER_ROLE_BINDING = Kind("ClusterRoleBinding", "/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings")


def title(kind: Kind, found: Json) -> str:
    """``Deployment/coredns``."""
    return f"{kind.kind}/{name(found)}"
