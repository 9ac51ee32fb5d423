"""The Corefile of the cluster, checked as `fastdns check` does, with the files and variables that the container has."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from fastdns.corefile import CorefileError, parse
from fastdns.migrate.facts import Facts
from fastdns.migrate.fields import rows, text
from fastdns.migrate.findings import ERROR, NOTE, WARNING, Finding
from fastdns.migrate.mounts import Layout
from fastdns.migrate.workload import Workload

__all__ = ["Problem", "examine"]

#: What a pod's own fields are while nothing is served.
FIELDS = {
    "status.podIP": "127.0.0.1",
    "status.podIPs": "127.0.0.1",
    "status.hostIP": "127.0.0.1",
    "status.hostIPs": "127.0.0.1",
    "metadata.name": "pod",
    "metadata.uid": "uid",
    "spec.nodeName": "node",
}
#: Directives, and a word of theirs, that need a library which only the image's tag -clouds has.
CLOUDS = {"azure": "", "clouddns": "", "route53": "", "dnssec": "aws_secretsmanager", "trace": "otlp"}
#: The directive whose set-up runs a file.
CODE = "plugin"
EXTERNAL = re.compile(r"Unknown directive '([^']*)'")
CLOUDS_TAG = "-clouds"


class Problem(Protocol):
    """Of an inspection."""

    @property
    def severity(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def message(self) -> str: ...
    @property
    def hint(self) -> str: ...


#: Path of a Corefile and the port of plain DNS to its problems.
Inspect = Callable[[str, str], Sequence[Problem]]


def examine(workload: Workload, layout: Layout, conf: str, port: str, image: str, inspect: Inspect) -> tuple[list[Finding], Facts | None]:
    """What is wrong with the Corefile ``conf`` for ``image``, and what it says; None where it cannot be read."""
    folder = posixpath.join("/", text(workload.container, "workingDir"))
    path = posixpath.normpath(posixpath.join(folder, conf))
    if layout.read(path) is None:
        mount = layout.mount_of(path)
        if mount is not None and mount.files is None:
            return [Finding(WARNING, path, f"the Corefile is not checked: {mount.source}, which has it, was not read", "run `fastdns check` on it")], None
        where = f"{mount.source} has no such file" if mount else "no volume has it"
        return [Finding(ERROR, path, f"the Corefile is not there: {where}", "the image has none")], None
    findings = list(_away(workload))
    with _as_in_the_pod(workload, layout.inside(folder)):
        facts = _facts(layout.inside(path), port)
        code = facts.place(CODE) if facts is not None else None
        if code is not None:
            message = f"{CODE} names a Python file: what a cluster says is not run here, so the Corefile is not checked"
            return [
                *findings,
                Finding(ERROR, layout.shown(code.file), message, "CoreDNS has no such directive; run `fastdns check` in the pod", line=code.line),
            ], facts
        for problem in inspect(layout.inside(path), port):
            found = _finding(problem, layout)
            if found is not None and found not in findings:
                findings.append(found)
    if facts is None:
        return findings, None
    return _with_clouds(findings, facts, layout, image), facts


def _facts(path: str, port: str) -> Facts | None:
    """None where it does not parse, which the inspection tells."""
    try:
        with open(path, "rb") as file:
            return Facts(parse(file.read(), path, lambda name: True, None, {}), port)
    except (CorefileError, OSError):
        return None


def _finding(problem: Problem, layout: Layout) -> Finding | None:
    if "in-cluster configuration" in problem.message:
        return None  # the pod has an account
    file, message, hint = (layout.shown(word) for word in (problem.file, problem.message, problem.hint))
    mount = layout.unknown(problem.message)
    if mount is not None:
        return Finding(WARNING, file, f"not checked further, for {mount.source} was not read: {message}", line=problem.line)
    if EXTERNAL.search(message):
        hint = f"the present image has a plugin of that name and this one has not: remove it, or write it in Python (docs/writing-plugins.md); {hint}"
    return Finding(ERROR if problem.severity == "error" else WARNING, file, message, hint, line=problem.line)


def _with_clouds(findings: list[Finding], facts: Facts, layout: Layout, image: str) -> list[Finding]:
    """The findings for an image that has the libraries of clouds, or has not, whatever this machine has."""
    findings = [found for found in findings if "in its tag -clouds" not in found.message]
    if image.partition("@")[0].endswith(CLOUDS_TAG):
        return findings
    for directive, word in CLOUDS.items():
        place = facts.place(directive)
        if place is not None and (not word or word in facts.words(directive)):
            message = f"{f'{directive} with {word}' if word else directive} needs a library that only the image's tag {CLOUDS_TAG} has"
            findings.append(
                Finding(ERROR, layout.shown(place.file), message, f"-image {image}{CLOUDS_TAG}, or another image built with `--target clouds`", line=place.line)
            )
    return findings


def _away(workload: Workload) -> Iterator[Finding]:
    """Variables whose values are elsewhere."""
    for row in rows(workload.container, "env"):
        source = next(iter(row.get("valueFrom") or {}), "") if isinstance(row.get("valueFrom"), dict) else ""
        if source in ("secretKeyRef", "configMapKeyRef"):
            message = f"the variable {text(row, 'name')} comes from a {source.removesuffix('KeyRef')}, which was not read: it is empty in this check"
            yield Finding(NOTE, workload.title, message)
    if rows(workload.container, "envFrom"):
        yield Finding(NOTE, workload.title, "variables of envFrom were not read: they are empty in this check")


@contextmanager
def _as_in_the_pod(workload: Workload, folder: str) -> Iterator[None]:
    """The container's variables and working directory."""
    environment, here = dict(os.environ), os.getcwd()
    variables = workload.environment
    for row in rows(workload.container, "env"):
        field = text(row, "valueFrom", "fieldRef", "fieldPath")
        if field:
            variables[text(row, "name")] = FIELDS.get(field, workload.namespace if field == "metadata.namespace" else "")
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    try:
        os.environ.clear()
        os.environ.update({name: value for name, value in variables.items() if name and "=" not in name and "\0" not in name + value})
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(here)
