"""The report: as text, or as one JSON object."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastdns.migrate.differences import Difference
from fastdns.migrate.findings import ERROR, NOTE, WARNING, Finding
from fastdns.migrate.plan import Step
from fastdns.migrate.shell import plain
from fastdns.migrate.source import Unread

__all__ = ["Report"]

OK, CHANGE_FIRST, UNREADABLE = 0, 1, 2
VERDICTS = {
    OK: "nothing stands against the new image",
    CHANGE_FIRST: "something has to be changed first",
    UNREADABLE: "not everything could be read; of what was, nothing stands against the new image",
}


class Report(NamedTuple):
    namespace: str
    workload: str
    container: str
    #: The present image, and the one of the commands.
    image: str
    target: str
    #: What was found, by what it is.
    found: dict[str, list[str]]
    findings: list[Finding]
    unread: list[Unread]
    differences: list[Difference]
    steps: list[Step]

    @property
    def status(self) -> int:
        if any(found.severity == ERROR for found in self.findings):
            return CHANGE_FIRST
        return UNREADABLE if self.unread else OK

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.status == OK,
            "status": self.status,
            "namespace": self.namespace,
            "workload": self.workload,
            "container": self.container,
            "image": self.image,
            "new_image": self.target,
            "found": self.found,
            "unread": [{**row._asdict(), "text": str(row)} for row in self.unread],
            "findings": [found.as_json() for found in self.findings],
            "differences": [row._asdict() for row in self.differences],
            "plan": [{"title": step.title, "steps": [{"text": text, "command": line} for text, line in step.lines]} for step in self.steps],
        }

    def as_text(self) -> str:
        counts = {severity: sum(found.severity == severity for found in self.findings) for severity in (ERROR, WARNING, NOTE)}
        verdict = f"{VERDICTS[self.status]} ({', '.join(f'{severity}s: {count}' for severity, count in counts.items())})"
        lines = [
            f"{plain(self.workload)} in {plain(self.namespace)}, container {plain(self.container)}: {plain(self.image)} -> {plain(self.target)}",
            verdict,
            "",
        ]
        lines += [f"  {what:<20}{', '.join(map(plain, its))}" for what, its in self.found.items() if its]
        for title, severity in (("To be changed first", ERROR), ("May do harm", WARNING), ("To know", NOTE)):
            its = [found for found in self.findings if found.severity == severity]
            if its:
                lines += ["", f"{title}:", *(_indented(str(found)) for found in its)]
        if self.unread:
            lines += ["", "Not read:", *(f"  {plain(row)}" for row in self.unread)]
        lines += ["", *self._otherwise(), *self._plan()]
        return "\n".join([*lines, "", verdict, ""])

    def _otherwise(self) -> list[str]:
        if not self.differences:
            return []
        lines = ["What behaves otherwise with this Corefile, CoreDNS's way first (docs/differences.md):"]
        for row in self.differences:
            what = f"{row.about}: {row.what}" if row.what else row.about
            lines += [f"  {plain(what)}: {plain(row.coredns)}", f"    here: {plain(row.fastdns)} ({plain(row.why)})"]
        return [*lines, ""]

    def _plan(self) -> list[str]:
        lines = []
        for number, step in enumerate(self.steps, 1):
            lines.append(f"{number}. {step.title}")
            for text, command in step.lines:
                lines += [f"   # {plain(text)}"] * bool(text) + command.split("\n") * bool(command)
            lines.append("")
        return lines[:-1]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
