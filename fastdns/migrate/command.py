"""``fastdns migrate``: reads its flags and the cluster, and prints the report."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fastdns import COREDNS_VERSION
from fastdns.migrate import around, corefile, differences, pod, rights
from fastdns.migrate.fields import name, rows, text
from fastdns.migrate.findings import ERROR, NOTE, WARNING, Finding
from fastdns.migrate.mounts import Layout
from fastdns.migrate.plan import plan
from fastdns.migrate.report import UNREADABLE, Report
from fastdns.migrate.shell import plain
from fastdns.migrate.source import ApiSource, FileSource, Get, Source
from fastdns.migrate.workload import NAME, MigrateError, Selects, Workload, choose

__all__ = ["Tools", "run"]

NAMESPACE, SELECTOR = "kube-system", "k8s-app=kube-dns"
#: What stands in the commands where no image is given.
IMAGE = f"REGISTRY/fastdns:v{COREDNS_VERSION}"
VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
SEVERITIES = (ERROR, WARNING, NOTE)


class Tools(NamedTuple):
    """What the command takes from packages that are not below this one."""

    #: Kubeconfig and its context ("": as kubectl finds them) to what reads the API server. Raises ValueError.
    connect: Callable[[str, str], Get]
    #: The documents of a file of manifests. Raises OSError, ValueError.
    documents: Callable[[str], list[object]]
    #: A label selector. Raises ValueError.
    selector: Callable[[str], Selects]
    inspect: corefile.Inspect
    #: The server's command line; raises where a word is no flag.
    flags: Callable[[list[str]], Any]
    #: Group and resource of each kind that *k8s_gateway* may name.
    gateway: Callable[[], Mapping[str, tuple[str, str]]]


def run(flags: Mapping[str, str], rest: list[str], tools: Tools) -> int:
    """Run the command. Returns the exit status."""
    namespace = flags.get("namespace", NAMESPACE)
    written = flags.get("selector", SELECTOR)
    try:
        selector = tools.selector(written)
        files = [*([flags["f"]] if flags.get("f") else []), *rest]
        source: Source
        if "f" in flags or files:
            source = FileSource([document for path in files for document in tools.documents(path)], namespace)
        else:
            source = ApiSource(tools.connect(flags.get("kubeconfig", ""), flags.get("context", "")))
        workload, deployments, daemons = choose(source, namespace, flags.get("deployment", ""), selector, written)
        report = examine(source, workload, around.Around(workload, source, deployments, daemons), flags.get("image", IMAGE), tools)
    except (MigrateError, OSError, ValueError) as error:
        sys.stderr.write(f"{plain(error)}\n")
        return UNREADABLE
    if "json" in flags:
        json.dump(report.as_json(), sys.stdout, indent=2)
        print()
    else:
        sys.stdout.write(report.as_text())
    return report.status


def examine(source: Source, workload: Workload, its: around.Around, image: str, tools: Tools) -> Report:
    """Raises MigrateError, OSError, ValueError."""
    change = pod.Change(workload)
    conf, port = _command_line(workload, tools)
    with tempfile.TemporaryDirectory(prefix="fastdns-migrate-") as folder:
        layout = Layout(workload, source, folder)
        findings, facts = corefile.examine(workload, layout, conf, port, image, tools.inspect)
    findings += [
        Finding(ERROR, f"ConfigMap/{wanted}", "it is mounted, not optional, and not there")
        for wanted, found in layout.maps.items()
        if found is None and wanted not in layout.optional and source.complete and not any(row.name == wanted for row in source.unread)
    ]
    findings += pod.check(workload, facts, tools.flags, change)
    findings += around.check(workload, its, facts, image, source.complete)
    roles: list[str] = []
    if facts is not None:
        needs = rights.needs(facts, tools.gateway() if "k8s_gateway" in facts.directives else {})
        if needs:
            given = rights.collect(source, workload, [*(namespace for need in needs for namespace in need.namespaces)])
            if given is None:
                findings.append(
                    Finding(
                        NOTE,
                        f"ServiceAccount/{workload.account}",
                        "its rights could not be checked",
                        "it needs to list and watch " + ", ".join(need.full for need in needs),
                    )
                )
            else:
                roles = rights.summary(given)
                findings += rights.check(needs, given, workload)
    findings.sort(key=lambda found: SEVERITIES.index(found.severity))
    version = VERSION.match(around.tag_of(workload.image))
    applying = differences.applying(facts, tuple(map(int, version.groups())) if version else ()) if facts is not None else []
    maps = [wanted for wanted in layout.names() if NAME.fullmatch(wanted)]
    console = facts is not None and "console" in facts.directives
    steps = plan(workload, its, maps, image, change, findings, console)
    found = _found(workload, its, layout, roles)
    return Report(workload.namespace, workload.title, workload.container_name, workload.image, image, found, findings, source.unread, applying, steps)


def _command_line(workload: Workload, tools: Tools) -> tuple[str, str]:
    """The path of the Corefile and the port of plain DNS."""
    kept, _ = pod.accepted(workload.arguments, tools.flags)
    try:
        flags = tools.flags(kept)
    except Exception as error:
        raise MigrateError(f"the arguments of the container cannot be read: {error}") from None
    return flags.conf or "Corefile", flags.port


def _found(workload: Workload, its: around.Around, layout: Layout, roles: list[str]) -> dict[str, list[str]]:
    return {
        "replicas": [str(workload.replicas)] if workload.kind.kind == "Deployment" else [],
        "volumes": [f"{mount.source} at {mount.path}" for mount in layout.mounts],
        "services": [f"{name(row)} {text(row, 'spec', 'clusterIP')} {_ports(row)}" for row in its.services],
        "service account": [workload.account],
        "roles": roles,
        "autoscalers": [name(row) for row in (*its.autoscalers, *(row for row, _, _ in its.proportional))],
        "budgets": [name(row) for row in its.budgets],
        "network policies": [name(row) for row in its.policies],
        "service monitors": [name(row) for row in its.monitors],
        "caches on nodes": [name(row) for row in its.node_caches],
    }


def _ports(row: dict[str, Any]) -> str:
    return " ".join(f"{port.get('port')}/{text(port, 'protocol') or 'TCP'}" for port in rows(row, "spec", "ports"))
