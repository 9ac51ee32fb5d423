"""Writes the list of CoreDNS's flags, directives, options and metrics that `tests/coredns` compares with ours, from a tree of CoreDNS's source.

``go mod download -json github.com/coredns/coredns@v1.15.0`` prints the folder of a version (``Dir``):

    python tools/coredns_options.py DIR > tests/coredns/options.json
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["read"]

VERSION = re.compile(r'CoreVersion\s*=\s*"([^"]+)"')
FLAG = re.compile(r'flag\.\w+Var\(&[\w.]+, "([\w.-]+)"')
DIRECTIVE = re.compile(r"^(\w+):(\w+)$", re.M)
#: Set-up: where a block is read, and the words that its lines are compared with.
BLOCK = re.compile(r"\.NextBlock\(\)")
CASE = re.compile(r'^(\t+)case ((?:"[\w-]+"(?:,\s*)?)+):', re.M)
WORD = re.compile(r'"([\w-]+)"')
#: A plugin's page: its sections, the blocks of its syntax, the words that their lines begin with.
SECTION = re.compile(r"^## (\w+)[^\n]*\n(.*?)(?=^## |\Z)", re.M | re.S)
FENCE = re.compile(r"^~~~.*?\n(.*?)^~~~", re.M | re.S)
OPTION = re.compile(r"^\s+\[?([a-z][\w-]*(?:\|[a-z][\w-]*)*)", re.M)
#: A metric where it is made: subsystem (a string or a constant), name and HELP text.
METRIC = re.compile(
    r'Namespace:\s*plugin\.Namespace,(?:\s*Subsystem:\s*([\w".]+),)?\s*Name:\s*"(\w+)",(?:\s*[A-Z]\w+:\s*[^"\n]*,)*?\s*Help:\s*"((?:[^"\\]|\\.)*)"'
)
CONSTANT = re.compile(r'(\w+)\s*=\s*"(\w+)"')


def read(tree: Path) -> dict[str, Any]:
    """Version, names of flags, options by directive (in the order of the chain), HELP texts of metrics by name.

    OSError if the folder is not CoreDNS's source.
    """
    directives = {name: tree / "plugin" / folder for name, folder in DIRECTIVE.findall((tree / "plugin.cfg").read_text())}
    return {
        "version": "".join(VERSION.findall((tree / "coremain" / "version.go").read_text())),
        "flags": sorted(FLAG.findall((tree / "coremain" / "run.go").read_text())),
        "directives": {name: options(name, folder) for name, folder in directives.items() if folder.is_dir()},
        "metrics": dict(sorted(item for folder in (tree / "plugin").rglob("*/") for item in metrics(folder))),
    }


def metrics(folder: Path) -> list[tuple[str, str]]:
    """Names and HELP texts of the metrics of a package of Go."""
    source = "".join(path.read_text() for path in sorted(folder.glob("*.go")) if not path.name.endswith("_test.go"))
    constants = dict(CONSTANT.findall(source))
    found = []
    for subsystem, name, text in METRIC.findall(source):
        subsystem = subsystem.strip('"') if '"' in subsystem else constants.get(subsystem, subsystem)
        found.append(("_".join(filter(None, ("coredns", subsystem, name))), json.loads(f'"{text}"')))
    return found


def options(directive: str, folder: Path) -> list[str]:
    """The words that lines of a directive's block begin with: those of the syntax in its page, and those that its set-up compares with."""
    found = set()
    block = re.compile(rf"^{directive}\b[^\n]*\{{\n(.*?)^\}}", re.M | re.S)
    for text in FENCE.findall(dict(SECTION.findall((folder / "README.md").read_text())).get("Syntax", "")):
        for lines in block.findall(text):
            for alternatives in OPTION.findall(lines):
                found.update(alternatives.split("|"))
    for source in folder.glob("*.go"):
        if not source.name.endswith("_test.go"):
            for function in source.read_text().split("\n}\n"):
                found.update(compared(function))
    return sorted(found)


def compared(function: str) -> set[str]:
    """The words that a function compares the words of a block with: those of its outermost switch."""
    begin = BLOCK.search(function)
    cases = CASE.findall(function[begin.end() :]) if begin else []
    outermost = min((len(indent) for indent, _ in cases), default=0)
    return {word for indent, words in cases if len(indent) == outermost for word in WORD.findall(words)}


if __name__ == "__main__":
    json.dump(read(Path(sys.argv[1])), sys.stdout, indent=1)
    sys.stdout.write("\n")
