"""clouddns: its directive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.clouddns.settings import parse
from fastdns.setup import Controller
from tests.directives import directives

GOOD = """
clouddns
clouddns example.org:project:zone
clouddns example.org.:project:zone example.org:project:other { fallthrough }
clouddns example.org:project:zone { fallthrough in-addr.arpa ip6.arpa }
clouddns example.org:project:zone { upstream 1.2.3.4 }
clouddns example.org:project:zone { refresh 90; snapshot .; endpoint https://dns.example.net/ }
""".strip().splitlines()

BAD = {
    "clouddns :": 'invalid zone ":"',
    "clouddns ::": 'invalid zone "::"',
    "clouddns example.org:project:": 'invalid zone "example.org:project:"',
    "clouddns example.org:zone": 'invalid zone "example.org:zone"',
    "clouddns a.org:p:z a.org:p:z": 'conflict zone "a.org:p:z"',
    "clouddns a.org:p:z { wat }": 'unknown property "wat"',
    "clouddns a.org:p:z { credentials }": "Wrong argument count or unexpected line ending after 'credentials'",
    "clouddns a.org:p:z { credentials /nonexistent }": 'invalid credentials file "/nonexistent": open /nonexistent: no such file or directory',
    "clouddns a.org:p:z { endpoint x }": 'invalid endpoint "x"',
}


def controller(text: str) -> Controller:
    made = directives(text)
    made.next()
    return made


@pytest.mark.parametrize("text", GOOD)
def test_good(text: str) -> None:
    parse(controller(text))


@pytest.mark.parametrize("text", BAD)
def test_bad(text: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(controller(text))
    assert BAD[text] in str(caught.value)


def test_values() -> None:
    settings = parse(controller("clouddns Example.ORG:p:z:1 { refresh 90; endpoint https://dns.example.net/ }"))
    assert settings.zones == [("example.org.", "p", "z:1")]
    assert (settings.refresh, settings.endpoint) == (90, "https://dns.example.net")


FILES: dict[str, tuple[Any, str]] = {
    "no type": ({"private_key": "sesame"}, "missing `type` field in credential"),
    "another document": (["sesame"], "missing `type` field in credential"),
    "an unknown type": ({"type": "external_account_authorized_user", "private_key": "sesame"}, "unknown credential type: external_account_authorized_user"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_refused(what: str, tmp_path: Path) -> None:
    content, error = FILES[what]
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps(content))
    with pytest.raises(CorefileError) as caught:
        parse(controller(f"clouddns a.org:p:z {{ credentials {file} }}"))
    assert str(caught.value).endswith(f'invalid credentials file "{file}": {error}')
    assert "sesame" not in str(caught.value)
