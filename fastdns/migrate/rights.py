"""What the server's account may read of the API, beside what its Corefile needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fastdns.migrate.facts import Facts
from fastdns.migrate.fields import Json, rows, text, words
from fastdns.migrate.findings import ERROR, NOTE, WARNING, Finding
from fastdns.migrate.shell import command
from fastdns.migrate.source import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Source
from fastdns.migrate.workload import Workload

__all__ = ["Need", "Rules", "check", "collect", "needs", "summary"]

VERBS = ("list", "watch")
#: Resources of CoreDNS's usual roles that fastdns reads with a property of *kubernetes* or not at all.
SPARE = {("", "endpoints"), ("", "pods"), ("", "nodes")}
#: Groups of what a client asks about itself: `create` of these stores nothing, and everybody may.
REVIEWS = {"authentication.k8s.io", "authorization.k8s.io"}


class Need(NamedTuple):
    """A resource that is listed and watched, in ``namespaces`` or, with none, in the whole cluster."""

    group: str
    resource: str
    namespaces: tuple[str, ...]
    why: str

    @property
    def full(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class Rules(NamedTuple):
    """Rules of one role that is bound to the account, in a namespace or, with "", in the whole cluster."""

    title: str
    namespace: str
    rules: list[Json]


def needs(facts: Facts, gateway: Mapping[str, tuple[str, str]]) -> list[Need]:
    """By the directives that ask the cluster they run in. ``gateway``: group and resource of what *k8s_gateway* may name."""
    found: list[Need] = []
    for lines in facts.lines("kubernetes"):
        properties: dict[str, list[str]] = {}
        for line in lines[1:]:
            properties.setdefault(line[0], []).extend(line[1:])
        if {"endpoint", "kubeconfig", "manifests", "replica"} & properties.keys():
            continue
        some = tuple(properties.get("namespaces", []))
        found.append(Need("", "services", some, "kubernetes"))
        if not some:
            found.append(Need("", "namespaces", (), "kubernetes"))
        if "noendpoints" not in properties:
            found.append(Need("discovery.k8s.io", "endpointslices", some, "kubernetes"))
        if "verified" in properties.get("pods", []):
            found.append(Need("", "pods", some, "kubernetes with `pods verified`"))
        if properties.get("multicluster"):
            found.append(Need("multicluster.x-k8s.io", "serviceimports", (), "kubernetes with `multicluster`"))
    for lines in facts.lines("k8s_gateway"):
        resources = [word for line in lines[1:] if line[0] == "resources" for word in line[1:]] or ["Ingress", "Service"]
        kinds = [gateway[word] for word in resources if word in gateway]
        routes = {group for group, _ in kinds if group.startswith("gateway.")}
        kinds += [(group, "gateways") for group in sorted(routes)]
        found += [Need(group, resource, (), "k8s_gateway") for group, resource in kinds]
    return list(dict.fromkeys(found))


def collect(source: Source, workload: Workload, namespaces: Iterable[str]) -> list[Rules] | None:
    """What is bound to the account of rules about objects, cluster wide and in namespaces; None where the bindings cannot be read."""
    before = len(source.unread)
    bindings = [("", binding) for binding in source.list(CLUSTER_ROLE_BINDING)]
    for namespace in dict.fromkeys(namespaces):
        bindings += [(namespace, binding) for binding in source.list(ROLE_BINDING, namespace)]
    if len(source.unread) > before or (not bindings and not source.complete):
        return None
    found = []
    for namespace, binding in bindings:
        if not any(_is_subject(subject, workload, namespace) for subject in rows(binding, "subjects")):
            continue
        kind = ROLE if text(binding, "roleRef", "kind") == "Role" else CLUSTER_ROLE
        role = text(binding, "roleRef", "name")
        got = source.one(kind, namespace if kind is ROLE else "", role)
        if got is not None:
            # Without those that every account has by its groups, which are about paths and reviews.
            its = [rule for rule in rows(got, "rules") if set(words(rule, "apiGroups")) - REVIEWS]
            if its:
                found.append(Rules(f"{kind.kind}/{role}", namespace, its))
        elif len(source.unread) > before:
            return None
    return found


def check(wanted: list[Need], given: list[Rules], workload: Workload) -> Iterator[Finding]:
    """What is missing, with the commands that add it, and what nothing reads any more."""
    account = f"ServiceAccount/{workload.account}"
    for need in wanted:
        where = [namespace for namespace in need.namespaces or ("",) if not _granted(need, given, namespace)]
        if not where:
            continue
        place = f" in {', '.join(where)}" if need.namespaces else ""
        message = f"no role lets it list and watch {need.full}{place}, which {need.why} needs"
        yield Finding(ERROR, account, message, "the role is new, so that nothing that is there changes", _grant(need, workload, where))
    resources = {(need.group, need.resource) for need in wanted}
    for rules in given:
        spare = sorted({resource for group, resource in _named(rules.rules) if (group, resource) in SPARE - resources})
        if spare:
            message = f"nothing reads {', '.join(spare)} any more"
            yield Finding(NOTE, rules.title, message, "leave the rule as long as you may go back to CoreDNS")
        if any("*" in words(rule, "verbs") or {"create", "update", "patch", "delete"} & set(words(rule, "verbs")) for rule in rules.rules):
            yield Finding(WARNING, rules.title, "it lets the server write, which neither CoreDNS nor fastdns does")


def _granted(need: Need, given: list[Rules], namespace: str) -> bool:
    """Whether both verbs are, each by any rule."""
    its = [rule for rules in given if rules.namespace in ("", namespace) for rule in rules.rules]
    return all(any(_covers(rule, need, verb) for rule in its) for verb in VERBS)


def _covers(rule: Json, need: Need, verb: str) -> bool:
    groups, resources, verbs = words(rule, "apiGroups"), words(rule, "resources"), words(rule, "verbs")
    # A rule for objects by their names lists nothing.
    if words(rule, "resourceNames"):
        return False
    return bool({need.group, "*"} & set(groups)) and bool({need.resource, "*"} & set(resources)) and bool({verb, "*"} & set(verbs))


def _named(rules: list[Json]) -> set[tuple[str, str]]:
    return {(group, resource) for rule in rules for group in words(rule, "apiGroups") for resource in words(rule, "resources")}


def _is_subject(subject: Json, workload: Workload, namespace: str) -> bool:
    kind, its = text(subject, "kind"), text(subject, "name")
    if kind == "ServiceAccount":
        return its == workload.account and (text(subject, "namespace") or namespace) == workload.namespace
    if kind == "User":
        return its == f"system:serviceaccount:{workload.namespace}:{workload.account}"
    return kind == "Group" and its in ("system:serviceaccounts", f"system:serviceaccounts:{workload.namespace}", "system:authenticated")


def _grant(need: Need, workload: Workload, where: list[str]) -> str:
    title = f"{workload.name}-fastdns-{need.resource}"
    account = f"--serviceaccount={workload.namespace}:{workload.account}"
    may = [f"--verb={','.join(VERBS)}", f"--resource={need.full}"]
    if not need.namespaces:
        lines = [command("kubectl", "create", "clusterrole", title, *may)]
        return " && ".join([*lines, command("kubectl", "create", "clusterrolebinding", title, f"--clusterrole={title}", account)])
    lines = []
    for namespace in where:
        lines.append(command("kubectl", "-n", namespace, "create", "role", title, *may))
        lines.append(command("kubectl", "-n", namespace, "create", "rolebinding", title, f"--role={title}", account))
    return " && ".join(lines)


def summary(given: list[Rules]) -> list[str]:
    """The roles, as the report lists them."""
    return [f"{rules.title}{f' in {rules.namespace}' if rules.namespace else ''}" for rules in given]
