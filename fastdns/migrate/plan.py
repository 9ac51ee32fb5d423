"""The plan: what to keep, how to try, how to change, how to watch and how to go back, each with its commands."""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple

from fastdns.migrate.around import Around
from fastdns.migrate.fields import Json, at, labels, name, number, rows, table, text
from fastdns.migrate.findings import ERROR, Finding
from fastdns.migrate.pod import Change
from fastdns.migrate.shell import command, compact, document
from fastdns.migrate.workload import Workload

__all__ = ["Step", "plan"]

#: The label of the trial's pods.
TRIAL = "fastdns-trial"
#: Of docs/operating.md: with it no query of clients that keep their port is lost.
READINESS = {"periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 1}
#: Names of variables whose values are not printed.
SECRET = re.compile(r"SECRET|TOKEN|PASSW|KEY|CREDENTIAL", re.I)
MASKED = "(not printed)"
#: Annotations of a pod that belong to its past.
PAST = ("kubectl.kubernetes.io/restartedAt",)


class Step(NamedTuple):
    """A part of the plan: sentences, and the commands that go with them."""

    title: str
    lines: list[tuple[str, str]]


def plan(workload: Workload, around: Around, maps: list[str], image: str, change: Change, findings: list[Finding], console: bool) -> list[Step]:
    """``maps``: the ConfigMaps that the container has. ``console``: the Corefile has one."""
    return [
        _before(workload, maps, findings),
        _trial(workload, around, image, change),
        _switch(workload, image, change),
        _watch(workload, console),
        _back(workload, maps, image, change),
    ]


def _kubectl(workload: Workload, *words: str) -> str:
    return command("kubectl", "-n", workload.namespace, *words)


def _before(workload: Workload, maps: list[str], findings: list[Finding]) -> Step:
    wrong = [found for found in findings if found.severity == ERROR]
    lines = [(f"change first: {found.subject}{f':{found.line}' if found.line else ''}: {found.message}", found.command) for found in wrong]
    lines.append(("keep what is there", _kubectl(workload, "get", workload.resource, "-o", "yaml") + f" > {command(f'{workload.name}-before.yaml')}"))
    lines += [("", _saved(workload, wanted)[0]) for wanted in maps]
    readiness = table(workload.container, "readinessProbe")
    if readiness and any(readiness.get(key) != value for key, value in READINESS.items() if key != "timeoutSeconds"):
        probe = {"name": workload.container_name, "readinessProbe": READINESS}
        patch = compact({"spec": {"template": {"spec": {"containers": [probe]}}}})
        told = "so that no query is lost by this update and later ones (docs/operating.md); it is an update itself, of CoreDNS, so it may be left out"
        lines.append((told, _kubectl(workload, "patch", workload.resource, "--patch", patch)))
    return Step("Before", lines)


def trial_name(workload: Workload) -> str:
    return f"{workload.name[:54].rstrip('.-')}-fastdns"


def _manifest(workload: Workload, image: str, change: Change) -> Json:
    """One replica with the new image beside the others, which no Service has yet."""
    template = copy.deepcopy(table(workload.object, "spec", "template"))
    title, mark = trial_name(workload), {TRIAL: workload.name[:63].rstrip(".-")}
    annotations = {key: value for key, value in labels(template, "metadata", "annotations").items() if key not in PAST}
    template["metadata"] = {"labels": mark, **({"annotations": annotations} if annotations else {})}
    for container in rows(template, "spec", "containers"):
        for row in rows(container, "env"):
            if SECRET.search(text(row, "name")) and "value" in row:
                row["value"] = MASKED
    for operation in change.operations(workload, image)[1:]:
        *path, last = operation["path"].split("/")[3:]
        place: Any = template
        for key in path:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[last] = operation["value"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": title, "namespace": workload.namespace, "labels": mark},
        "spec": {"replicas": 1, "selector": {"matchLabels": mark}, "template": template},
    }


def _trial(workload: Workload, around: Around, image: str, change: Change) -> Step:
    title = trial_name(workload)
    manifest = _manifest(workload, image, change)
    mark = next(f"{key}={value}" for key, value in labels(manifest).items())
    lines = [
        ("one pod beside the others, which nobody asks", document(_kubectl(workload, "create", "-f", "-"), manifest)),
        ("", _kubectl(workload, "rollout", "status", f"deployment/{title}", "--timeout=5m")),
        ("its address", "TRIAL=$(" + _kubectl(workload, "get", "pods", "-l", mark, "-o", "jsonpath={.items[0].status.podIP}") + ")"),
        (
            "on a node with a pod of CoreDNS: some minutes of its answers, and what the trial says to the same questions",
            "tcpdump -w coredns.pcap -i any udp port 53",
        ),
        ("", 'fastdns shadow -against "$TRIAL" coredns.pcap'),
    ]
    if MASKED in str(manifest):
        lines.insert(0, (f"put the values of secrets in place of {MASKED}", ""))
    if at(workload.pod, "hostNetwork") is True or any(number(row, "hostPort") for row in rows(workload.container, "ports")):
        lines.insert(0, ("the pods take ports of their nodes, so the trial needs a node without one of them", ""))
    selector = next((labels(row, "spec", "selector") for row in around.services), {})
    if selector:
        share = f"one in {workload.replicas + 1}" if workload.kind.kind == "Deployment" else "a share"
        patch = compact({"spec": {"template": {"metadata": {"labels": selector}}}})
        told = f"have {share} of the clients ask it: its pods get the labels that the Service {name(around.services[0])} selects"
        lines.append((told, _kubectl(workload, "patch", f"deployment/{title}", "--type", "merge", "-p", patch)))
    lines.append(("when it has shown enough, or at once if it does harm", _kubectl(workload, "delete", f"deployment/{title}")))
    return Step("Try it", lines)


def _switch(workload: Workload, image: str, change: Change) -> Step:
    if change.there:
        patch = compact(change.operations(workload, image))
        lines = [("the image, with what has to change along with it", _kubectl(workload, "patch", workload.resource, "--type", "json", "-p", patch))]
    else:
        lines = [("the image; nothing else", _kubectl(workload, "set", "image", workload.resource, f"{workload.container_name}={image}"))]
    lines.append(("", _kubectl(workload, "rollout", "status", workload.resource, "--timeout=10m")))
    return Step("Change", lines)


def _watch(workload: Workload, console: bool) -> Step:
    selector = ",".join(f"{key}={value}" for key, value in labels(workload.object, "spec", "selector", "matchLabels").items())
    lines = [("what one pod does", _kubectl(workload, "exec", workload.resource, "-c", workload.container_name, "--", "/coredns", "top", "-once", "-json"))]
    if console and selector:
        lines.append(("all of them, by their consoles", command("fastdns", "top", "-namespace", workload.namespace, "-selector", selector)))
    if selector:
        lines.append(("their logs", _kubectl(workload, "logs", "-l", selector, "--prefix", "--tail=200")))
    return Step("Watch", lines)


def _back(workload: Workload, maps: list[str], image: str, change: Change) -> Step:
    if change.there:
        lines = [
            (
                "the former image, and what was changed along with it",
                _kubectl(workload, "patch", workload.resource, "--type", "json", "-p", compact(change.inverse(workload))),
            )
        ]
    else:
        lines = [("the former image", _kubectl(workload, "set", "image", workload.resource, f"{workload.container_name}={workload.image}"))]
    lines.append(("", _kubectl(workload, "rollout", "status", workload.resource, "--timeout=10m")))
    lines += [("only if the Corefile was changed: what was kept", _saved(workload, wanted)[1]) for wanted in maps]
    return Step("Go back", lines)


def _saved(workload: Workload, wanted: str) -> list[str]:
    """Commands that keep a ConfigMap's data in a file, and that put it back."""
    file = f"{wanted}-data.json"
    keep = _kubectl(workload, "get", "configmap", wanted, "-o", "jsonpath={.data}")
    back = _kubectl(workload, "patch", "configmap", wanted, "--type", "merge", "-p")
    return [f"{keep} > {command(file)}", f'{back} "{{\\"data\\":$(cat {command(file)})}}"']
