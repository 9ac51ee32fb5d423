"""Cases as they stand in ``cases/PLUGIN/NAME.yaml``; README.md describes their format."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

__all__ = ["CASES", "CHECKS", "PLUGIN_CFG", "Case", "Step", "as_list", "directives", "find_cases", "load_yaml", "write_expected"]

CASES = Path(__file__).with_name("cases")
#: The names of all directives, in the format of CoreDNS's file of that name.
PLUGIN_CFG = Path(__file__).parents[2] / "plugin.cfg"

#: Steps whose answer is recorded.
RECORDED = frozenset({"q", "until", "spread", "burst", "xfr", "stream", "raw", "seen", "dialog", "conns", "metrics", "log_lines"})
#: Steps that pass or fail; all others only change something.
CHECKS = RECORDED | {"http", "log", "nolog", "count", "exits", "file_has", "alive"}

Step = dict[str, Any]


class Case:
    """One case. Raises yaml.YAMLError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plugin = path.parent.name
        self.name = f"{self.plugin}/{path.stem}"
        self.document: dict[str, Any] = load_yaml(path)
        self.expected_path = path.with_suffix(".expected.yaml")
        self.steps = [step for raw in self.document.get("steps") or [] for step in self._expand(raw)]
        #: How many results a complete run has.
        self.checks = sum(any(key in CHECKS for key in step) for step in self.steps) + ("refuse" in self.document)

    def _expand(self, raw: str | Step) -> list[Step]:
        """A step with the case's defaults and masks; several of them where its query has braces."""
        step = {**(self.document.get("defaults") or {}), **({"q": raw} if isinstance(raw, str) else raw)}
        step["mask"] = {**(self.document.get("mask") or {}), **(step.get("mask") or {})}
        kind = next((key for key in step if key in CHECKS), None)
        if kind in ("q", "seen") and isinstance(step[kind], str):
            return [{**step, kind: text} for text in expand_braces(step[kind])]
        return [step]

    def expected(self) -> dict[int, dict[str, Any]]:
        """The recorded answers by the number of the step."""
        return load_yaml(self.expected_path) if self.expected_path.exists() else {}


def expand_braces(text: str) -> list[str]:
    """``a{b,c}`` -> ``ab``, ``ac``. Braces without a comma stay as they are."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", text)
    if found is None:
        return [text]
    alternatives = (text[: found.start()] + part + text[found.end() :] for part in found[1].split(","))
    return list(itertools.chain.from_iterable(map(expand_braces, alternatives)))


def find_cases(paths: Iterable[Path], pattern: str = "") -> list[Case]:
    """The cases in files and folders whose PLUGIN/NAME matches the regular expression."""
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.yaml")))]
    cases = (Case(file) for file in files if not file.name.endswith(".expected.yaml"))
    return [case for case in cases if re.search(pattern, case.name)]


def directives(corefile: str) -> set[str]:
    """The directives of plugin.cfg that a Corefile uses: first words of lines at the first level of its blocks."""
    used: set[str] = set()
    depth = 0
    for line in corefile.splitlines():
        first = True
        for word in line.split("#")[0].split():
            if word == "{":
                depth, first = depth + 1, True
                continue
            if word == "}":
                depth -= 1
            elif first and depth == 1:
                used.add(word)
            first = False
    return used & set(re.findall(r"^(\w+):", PLUGIN_CFG.read_text(encoding="utf-8"), re.MULTILINE))


def write_expected(path: Path, recorded: dict[int, dict[str, Any]]) -> None:
    parts = (yaml.safe_dump({number: answer}, sort_keys=False, width=100_000, allow_unicode=True) for number, answer in recorded.items())
    path.write_text("# Recorded from CoreDNS 1.14.7 by python -m tests.conformance --record\n" + "".join(parts), encoding="utf-8")


def load_yaml(path: Path) -> Any:
    """What the file holds; an empty mapping if that is nothing. Raises yaml.YAMLError."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast, where PyYAML has it
    with path.open(encoding="utf-8") as file:
        return yaml.load(file, loader) or {}


def as_list(value: Any) -> list[Any]:
    """A list as it is, None as an empty one, anything else as its only item."""
    return [] if value is None else value if isinstance(value, list) else [value]
