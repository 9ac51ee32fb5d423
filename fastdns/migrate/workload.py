"""The Deployment or DaemonSet whose image is to be changed, and its container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from fastdns.migrate.fields import Json, labels, name, number, rows, table, text, words
from fastdns.migrate.source import DAEMON_SET, DEPLOYMENT, Kind, Source

__all__ = ["MigrateError", "Selects", "Workload", "choose"]

#: Container's own variables in arguments: $(NAME), and $$ for a dollar.
REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")
#: Names that an API server accepts: of objects, and those of containers.
NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


class MigrateError(Exception):
    """There is nothing to report on; the text says why."""


class Selects(Protocol):
    """A label selector."""

    def matches(self, labels: Mapping[str, str]) -> bool: ...


class Workload:
    """``kind`` is DEPLOYMENT or DAEMON_SET, ``container`` the one that serves DNS, at ``index`` of its pod's."""

    def __init__(self, kind: Kind, found: Json, namespace: str) -> None:
        """Raises MigrateError for names that no command may have."""
        self.kind, self.object, self.namespace, self.name = kind, found, namespace, name(found)
        self.pod = table(found, "spec", "template", "spec")
        self.containers = rows(self.pod, "containers")
        self.index = next((index for index, container in enumerate(self.containers) if _serves(container)), 0)
        self.container = self.containers[self.index] if self.containers else {}
        self.container_name = text(self.container, "name")
        self.image = text(self.container, "image")
        for word in (self.name, self.container_name, namespace):
            if not NAME.fullmatch(word):
                raise MigrateError(f"{kind.kind} {word!r}: no API server accepts such a name")

    @property
    def resource(self) -> str:
        """As kubectl takes it: ``deployment/coredns``."""
        return f"{self.kind.kind.lower()}/{self.name}"

    @property
    def title(self) -> str:
        return f"{self.kind.kind}/{self.name}"

    @property
    def pod_labels(self) -> dict[str, str]:
        return labels(self.object, "spec", "template", "metadata", "labels")

    @property
    def replicas(self) -> int:
        found = number(self.object, "spec", "replicas")
        return 1 if found is None else found

    @property
    def account(self) -> str:
        return text(self.pod, "serviceAccountName") or text(self.pod, "serviceAccount") or "default"

    @property
    def environment(self) -> dict[str, str]:
        """Variables with values; those from elsewhere are not read, for they may be secrets."""
        return {text(row, "name"): text(row, "value") for row in rows(self.container, "env") if text(row, "name") and "valueFrom" not in row}

    @property
    def arguments(self) -> list[str]:
        """The words behind the program, with the container's variables in them."""
        variables = self.environment
        given = [*words(self.container, "command")[1:], *words(self.container, "args")]
        return [REFERENCE.sub(lambda found: "$" if found[1] == "$" else variables.get(found[2], found[0]), word) for word in given]

    def port(self, given: object) -> int | None:
        """A port by its number or by its name among the container's."""
        if isinstance(given, int):
            return given
        return next((number(row, "containerPort") for row in rows(self.container, "ports") if text(row, "name") == given), None)


def choose(source: Source, namespace: str, wanted: str, selector: Selects, written: str) -> tuple[Workload, list[Json], list[Json]]:
    """The workload of a name ("": by its labels), and all Deployments and DaemonSets of the namespace. Raises MigrateError."""
    deployments = source.list(DEPLOYMENT, namespace)
    daemons = source.list(DAEMON_SET, namespace)
    everything = [*((DEPLOYMENT, found) for found in deployments), *((DAEMON_SET, found) for found in daemons)]
    if wanted:
        matching = [(kind, found) for kind, found in everything if name(found) == wanted]
        sought = f"is named {wanted}"
    else:
        matching = [(kind, found) for kind, found in everything if selector.matches(labels(found))]
        matching = [(kind, found) for kind, found in matching if any(_serves(row) for row in rows(found, "spec", "template", "spec", "containers"))] or matching
        sought = f"has the labels {written}"
    if not matching:
        like = [f"{name(found)}" for _, found in everything if any(_serves(row) for row in rows(found, "spec", "template", "spec", "containers"))]
        hint = f"; with -deployment it is one of {', '.join(like)}" if like else ""
        raise MigrateError("; ".join([*map(str, source.unread), f"no Deployment and no DaemonSet in the namespace {namespace} {sought}{hint}"]))
    if len(matching) > 1:
        raise MigrateError(f"several have the labels {written}: {', '.join(name(found) for _, found in matching)}; -deployment says which")
    return Workload(*matching[0], namespace), deployments, daemons


def _serves(container: Json) -> bool:
    """Whether a container looks like CoreDNS."""
    arguments = [*words(container, "command"), *words(container, "args")]
    return any(word.lstrip("-").partition("=")[0] == "conf" for word in arguments) or "coredns" in text(container, "image").partition("@")[0]
