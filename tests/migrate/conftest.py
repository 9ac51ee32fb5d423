"""`fastdns migrate` on objects in a file, and behind an API server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.migrate.api import FakeApi
from tests.migrate.clusters import Json
from tests.server import command
from tests.waiting import LIMIT


class Outcome(NamedTuple):
    """Of a run."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> Json:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    def findings(self, severity: str = "") -> list[Json]:
        return [row for row in self.report["findings"] if severity in ("", row["severity"])]

    def said(self, severity: str = "") -> str:
        """Findings as lines."""
        return "\n".join(f"{row['subject']}:{row['line']}: {row['message']}" for row in self.findings(severity))

    def commands(self, title: str = "") -> list[str]:
        """Of the plan, or one step of it."""
        return [row["command"] for step in self.report["plan"] if title in ("", step["title"]) for row in step["steps"] if row["command"]]


def run(*words: str, env: dict[str, str] | None = None) -> Outcome:
    environment = env if env is not None else {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
    done = subprocess.run([*command(), "migrate", *words], capture_output=True, text=True, timeout=LIMIT, env=environment)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def offline(tmp_path: Path) -> Callable[..., Outcome]:
    """``offline(objects, *words)``: the report of a file, as JSON."""

    def of(objects: list[Json], *words: str) -> Outcome:
        (tmp_path / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return run("-json", *words, "-f", str(tmp_path / "objects.json"))

    return of


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[..., tuple[FakeApi, list[str]]]]:
    """``fake(objects, refused=…)``: an API server, and the words of the command line that name it."""
    running: list[FakeApi] = []

    def of(objects: list[Json], **options: Any) -> tuple[FakeApi, list[str]]:
        running.append(FakeApi(objects, **options))
        return running[-1], ["-kubeconfig", str(running[-1].kubeconfig(tmp_path / "kubeconfig")), "-context", "here"]

    yield of
    for api in running:
        api.close()
