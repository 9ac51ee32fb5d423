"""What a tsig directive and its key files may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.tsig import parse
from fastdns.plugins.tsig.keys import decoded, parse_keys
from fastdns.setup import Controller

SECRET = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="


@pytest.mark.parametrize(
    ("text", "zones", "secrets", "types", "opcodes", "everything"),
    [
        ("tsig", ["example.org."], {}, set(), set(), (False, False)),
        ("tsig a.org B.org", ["a.org.", "b.org."], {}, set(), set(), (False, False)),
        (f"tsig {{\n secret Key.A {SECRET}\n secret b. x\n}}", ["example.org."], {"key.a.": SECRET, "b.": "x"}, set(), set(), (False, False)),
        ("tsig {\n require A TXT\n}", ["example.org."], {}, {1, 16}, set(), (False, False)),
        ("tsig {\n require A\n require AXFR\n}", ["example.org."], {}, {252}, set(), (False, False)),
        ("tsig {\n require A\n require none\n}", ["example.org."], {}, set(), set(), (False, False)),
        ("tsig {\n require all\n}", ["example.org."], {}, set(), set(), (True, False)),
        ("tsig {\n require_opcode QUERY NOTIFY\n}", ["example.org."], {}, set(), {0, 4}, (False, False)),
        ("tsig {\n require_opcode all\n}", ["example.org."], {}, set(), set(), (False, True)),
    ],
)
def test_properties(text: str, zones: list[str], secrets: dict[str, str], types: set[int], opcodes: set[int], everything: tuple[bool, bool]) -> None:
    settings = parse(Controller.of(text, ["example.org"]))
    assert (settings.zones, settings.secrets, settings.types, settings.opcodes) == (zones, secrets, types, opcodes)
    assert (settings.all_types, settings.all_opcodes) == everything


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tsig\ntsig", "this plugin can only be used once per Server Block"),
        ("tsig {\n secret key\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'key'"),
        ("tsig {\n secret a b c\n}", "Wrong argument count"),
        ("tsig {\n secret a x\n secret A. y\n}", '^key "a." redefined$'),
        ("tsig {\n secrets\n}", "Wrong argument count"),
        ("tsig {\n secrets /nonexist\n}", "^open /nonexist: no such file or directory$"),
        ("tsig {\n require\n}", "Wrong argument count"),
        ("tsig {\n require a\n}", "Testfile:2 - Error during parsing: unknown query type 'a'"),
        ("tsig {\n require A all\n}", "unknown query type 'all'"),
        ("tsig {\n require_opcode\n}", "Wrong argument count"),
        ("tsig {\n require_opcode FOO\n}", "unknown opcode 'FOO'"),
        ("tsig {\n foo\n}", "unknown property 'foo'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError, match=message):
        parse(Controller.of(text))


def test_a_key_of_corefile_and_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f'key "a." {{\n secret "{SECRET}";\n}};\n')
    assert parse(Controller.of(f"tsig {{\n secrets {tmp_path}/keys\n secret b x\n}}")).secrets == {"a.": SECRET, "b.": "x"}
    with pytest.raises(CorefileError, match=r'key "a\." redefined'):
        parse(Controller.of(f"tsig {{\n secret a x\n secrets {tmp_path}/keys\n}}"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {}),
        ('key "Name" {\n  algorithm hmac-sha256;\n  secret "abc";\n};\n', {"name.": "abc"}),
        ('\nkey name {\n\n secret "abc"; \n}\nkey "other." {\n secret def\n};', {"name.": "abc", "other.": "def"}),
        ('key "a"\n{\n', 'unexpected token "{"'),
        ("foo", 'unexpected token "foo"'),
        ("key", 'expected key name "key"'),
        ('key "" {', r'expected key name "key \\"\\" {"'),
        ('key "a" {\n secret "x";\n};\nkey a. {\n secret "y";\n};', r'key "a\." redefined'),
        ('key "a" {\n secret\n};', 'expected secret key " secret"'),
        ('key "a" {\n secret "";\n};', r'expected secret key " secret \\"\\";"'),
        ('key "a" {\n foo\n};', 'unexpected token "foo"'),
        ('key "a" {\n};', r'expected secret for key "a\."'),
        ('key "a" {', r'expected secret for key "a\."'),
    ],
)
def test_key_files(text: str, wanted: dict[str, str] | str) -> None:
    if isinstance(wanted, dict):
        assert parse_keys(text) == wanted
    else:
        with pytest.raises(CorefileError, match=wanted):
            parse_keys(text)


@pytest.mark.parametrize(("secret", "octets"), [("YWJj", b"abc"), ("", b""), ("YWJ", None), ("a b=", None), ("test-key", None)])
def test_secrets(secret: str, octets: bytes | None) -> None:
    assert decoded(secret) == octets
