"""log: what the Corefile may say, and how formats are read."""

from __future__ import annotations

import re

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.log import COMBINED, COMMON, parse, setup
from fastdns.setup import Controller
from fastdns.walk.placeholders import PLACEHOLDERS, Format, compile_format


def rules(text: str) -> list[tuple[str, set[str], Format]]:
    controller = Controller.of(text)
    found = []
    while controller.next():
        found += parse(controller)
    return found


ALL = {"all"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("log", [(".", ALL, COMMON)]),
        ("log Example.ORG", [("example.org.", ALL, COMMON)]),
        ("log example.org a.test", [("example.org.", ALL, COMMON), ("a.test.", ALL, COMMON)]),
        ("log example.org {common}", [("example.org.", ALL, COMMON)]),
        ("log . {combined}", [(".", ALL, COMBINED)]),
        ('log . "a {common} b {combined}"', [(".", ALL, f"a {COMMON} b {COMBINED}")]),
        ('log example.org a.test "{name}"', [("example.org.", ALL, "{name}"), ("a.test.", ALL, "{name}")]),
        ("log 10.0.0.0/16", [("0.10.in-addr.arpa.", ALL, COMMON)]),
        ("log {\nclass denial\nclass error success\n}", [(".", {"denial", "error", "success"}, COMMON)]),
        ("log {\nclass all\n}", [(".", ALL, COMMON)]),
        ("log\nlog example.org {\nclass error\n}", [(".", ALL, COMMON), ("example.org.", {"error"}, COMMON)]),
        # One argument is always a name, and some are names that no query has.
        ('log "{remote} {name}"', [("{remote} {name}.", ALL, COMMON)]),
        (f'log "{"x" * 64}{{name}}"', []),
    ],
)
def test_good(text: str, wanted: list[tuple[str, set[str], str]]) -> None:
    assert [(zone, classes, form.text) for zone, classes, form in rules(text)] == wanted
    assert setup(Controller.of(text)).name == "log"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("log {\nclass\n}", r"Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'class'"),
        ("log {\nclass abracadabra\n}", r"^invalid Class: abracadabra$"),
        ("log {\nclass denial oops\n}", r"^invalid Class: oops$"),
        ("log {\nunknown\n}", r"Testfile:2 - Error during parsing: unknown property 'unknown'"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises(CorefileError, match=error):
        setup(Controller.of(text))


def kinds(form: str) -> str:
    """Operations as text: literals as they are, placeholders as <name>."""
    names = {number: name for name, number in PLACEHOLDERS.items()}
    return "".join(part.decode() if isinstance(part, bytes) else f"<{names.get(part, '-')}>" for part in compile_format(form))


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{type}{class}", "<type><class>"),
        ("a {name} b", "a <name> b"),
        ("{foo}", "{foo}"),
        ("{Name}", "{Name}"),
        ("{}", "{}"),
        ("}{", "}{"),
        ("{{remote}}", "{<remote>}"),
        ("{name", "{name"),
        ("{a{name}b}", "{a<name>b}"),
        ("{>id}{>ID}", "<>id>{>ID}"),
        ("{/log/type} {/} {x/y}", "<-> {/} {x/y}"),
        ("line\nbreak \x1b", "line\\010break \\027"),
        ("ünïcode\t{port}", "ünïcode\t<port>"),
    ],
)
def test_formats(form: str, wanted: str) -> None:
    assert kinds(form) == wanted


def test_every_placeholder_is_known() -> None:
    names = re.findall(r"\{([^}]+)\}", COMBINED)
    assert set(names) | {"local"} == set(PLACEHOLDERS)
