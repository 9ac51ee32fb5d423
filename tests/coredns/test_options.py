"""Flags, directives, options and metrics of the latest CoreDNS (`options.json`) beside ours.

What `docs/coredns-1.15.md` lists under "Not there" is missing, and nothing else is. After a release of CoreDNS the list is made anew
(`tools/coredns_options.py`); each row that fails then is an option to be implemented, or to be listed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fastdns.corefile.errors import CorefileError
from fastdns.server import flags
from fastdns.setup import Controller, registry

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "coredns-1.15.md"
LIST: dict[str, Any] = json.loads((Path(__file__).parent / "options.json").read_text())
OPTIONS = [(directive, option) for directive, options in LIST["directives"].items() for option in options]

#: What a directive wants before its block.
ARGUMENTS = {
    "bind": "127.0.0.1",
    "clouddns": "example.org:project:zone",
    "dnstap": "tcp://127.0.0.1:6000 full",
    "file": "db example.org",
    "forward": ". 127.0.0.1",
    "grpc": ". 127.0.0.1",
    "loadbalance": "weighted weights",
    "route53": "example.org:Z1",
    "secondary": "example.org",
    "sign": "db example.org",
    "template": "IN A",
    "tls": "cert key",
    "trace": "zipkin 127.0.0.1",
    "view": "name",
}
#: The same for single options.
OTHERS = {
    ("loadbalance", "prefer"): "round_robin",
    **{("tls", option): "" for option in ("acme", "ca", "ca_root", "email", "resolver", "storage")},  # without certificate and key
}
#: A metric where it is made: name and HELP text.
METRIC = re.compile(r'"(coredns_\w+)",\s*"((?:[^"\\]|\\.)*)"')
#: Numbers of arguments that an option is tried with, and an option that no directive has.
SHAPES = ("", " 1", " a b", " a b c")
UNKNOWN = "nonsense"


def missing() -> set[str]:
    """What the page says is not there: ``DIRECTIVE``, or ``DIRECTIVE OPTION``."""
    table = PAGE.read_text().partition("\n## Not there\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([\w -]+)` \|", table, re.M))


def refusal(directive: str, line: str, arguments: str) -> str:
    """What setting up a directive with one option says; "" where it says nothing."""
    try:
        registry.load(directive)(Controller.of(f"{directive} {arguments} {{\n {line}\n}}\n", ["example.org"]))
    except (CorefileError, OSError, ValueError) as error:
        return str(error)
    return ""


def known(directive: str, option: str) -> bool:
    """An option is known if something else is wrong with it than with one that no directive has, for some number of arguments."""
    arguments = OTHERS.get((directive, option), ARGUMENTS.get(directive, ""))
    return any(refusal(directive, option + shape, arguments) != refusal(directive, UNKNOWN + shape, arguments).replace(UNKNOWN, option) for shape in SHAPES)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").write_text("")


@pytest.mark.parametrize(("directive", "option"), OPTIONS, ids=[f"{directive} {option}" for directive, option in OPTIONS])
def test_option(directive: str, option: str) -> None:
    if directive in missing():
        assert directive not in registry.built()
    elif directive == "hosts" and refusal(directive, UNKNOWN, "") == "":  # a line of its block may be an entry of the file
        assert refusal(directive, f"{option} {UNKNOWN}{UNKNOWN}", "") or option in ("fallthrough", "no_reverse")
    else:
        assert known(directive, option) == (f"{directive} {option}" not in missing())


def test_directives_have_coredns_order() -> None:
    """Those that both have follow each other as they do there."""
    ours = re.findall(r"^(\w+):\w+$", (ROOT / "plugin.cfg").read_text(), re.M)
    theirs = [directive for directive in LIST["directives"] if directive not in missing()]
    assert [directive for directive in ours if directive in LIST["directives"]] == theirs


@pytest.mark.parametrize("flag", LIST["flags"])
def test_flag(flag: str) -> None:
    assert f"  -{flag}" in flags.USAGE


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """Names and HELP texts in our source."""
    found: dict[str, set[str]] = {}
    for folder in ("fastdns", "plugins"):
        for source in [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.pyx")]:
            for name, text in METRIC.findall(source.read_text()):
                found.setdefault(name, set()).add(json.loads(f'"{text}"'))
    return found


@pytest.mark.parametrize("metric", LIST["metrics"])
def test_metric(metric: str, metrics: dict[str, set[str]]) -> None:
    """A metric has CoreDNS's name and HELP text."""
    assert metrics.get(metric, set()) == (set() if metric in missing() else {LIST["metrics"][metric]})


def test_what_is_not_there_is_coredns_own() -> None:
    """A row for something that CoreDNS does not have, any more or yet, is a mistake."""
    theirs = {*LIST["directives"], *(f"{directive} {option}" for directive, option in OPTIONS), *LIST["flags"], *LIST["metrics"]}
    assert missing() <= theirs
    assert LIST["version"] in PAGE.read_text()
