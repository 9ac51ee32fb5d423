"""Server blocks, snippets, imports and their errors: spec sections 2 to 4."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError, ServerBlock, parse

KNOWN = frozenset(["whoami", "log", "errors", "cache", "hosts", "template", "kubernetes", "forward", "import"])
Blocks = list[tuple[list[str], dict[str, list[str]]]]


def known(name: str) -> bool:
    return name in KNOWN


def texts(blocks: list[ServerBlock]) -> Blocks:
    return [(block.keys, {name: [token.text for token in words] for name, words in block.tokens.items()}) for block in blocks]


GOOD: list[tuple[str, Blocks]] = [
    ("", []),
    ("# nothing", []),
    ("(a) {\n log\n}\n", []),
    (".", [(["."], {})]),
    (". {\n}", [(["."], {})]),
    (".:53 {\n whoami\n log\n}", [([".:53"], {"whoami": ["whoami"], "log": ["log"]})]),
    ("a.org b.org\nwhoami\nlog", [(["a.org", "b.org"], {"whoami": ["whoami"], "log": ["log"]})]),
    ("a.org\n{\n whoami\n}", [(["a.org"], {"whoami": ["whoami"]})]),
    ("a.org,\nb.org, c.org {\n whoami\n}", [(["a.org", "b.org", "c.org"], {"whoami": ["whoami"]})]),
    ('"" a.org {\n}', [(["a.org"], {})]),
    ("a.org {\n whoami\n}\nb.org {\n log\n}", [(["a.org"], {"whoami": ["whoami"]}), (["b.org"], {"log": ["log"]})]),
    ("a.org {\n whoami\n}\n}", [(["a.org"], {"whoami": ["whoami"]}), (["}"], {})]),
    ("a.org:53{\nwhoami", [(["a.org:53{"], {"whoami": ["whoami"]})]),
    (". {\n cache 3 {\n  success 5\n }\n log\n}", [(["."], {"cache": ["cache", "3", "{", "success", "5", "}"], "log": ["log"]})]),
    (". {\n cache 3\n log\n cache 4\n}", [(["."], {"cache": ["cache", "3", "cache", "4"], "log": ["log"]})]),
    (". {\n cache 3\n {\n success\n }\n}", [(["."], {"cache": ["cache", "3", "{", "success", "}"]})]),
    (". {\n errors {\n a {\n  b\n }\n }\n}", [(["."], {"errors": ["errors", "{", "a", "{", "b", "}", "}"]})]),
    ("(s) {\n log\n}\n. {\n import s\n}", [(["."], {"log": ["log"]})]),
    ("(s) {\n log\n}\n(t) {\n import s\n errors\n}\n. {\n import t\n}", [(["."], {"log": ["log"], "errors": ["errors"]})]),
    ("(s) {\n success 3\n}\n. {\n cache {\n  import s\n }\n}", [(["."], {"cache": ["cache", "{", "success", "3", "}"]})]),
    ("(a b) {\n log\n}", [(["(a", "b)"], {"log": ["log"]})]),
    ("(k) {\n a.org {\n whoami\n }\n}\nimport k", [(["a.org"], {"whoami": ["whoami"]})]),
    ('. {\n "whoami"\n}', [(["."], {"whoami": ["whoami"]})]),
]


@pytest.mark.parametrize(("text", "expected"), GOOD)
def test_blocks(text: str, expected: Blocks) -> None:
    assert texts(parse(text, "Corefile", known)) == expected


BAD = [
    (". {\n nosuch\n}", "Corefile:2 - Error during parsing: Unknown directive 'nosuch'"),
    (". {\n WHOAMI\n}", "Corefile:2 - Error during parsing: Unknown directive 'WHOAMI'"),
    (". {\n whoami}\n}", "Corefile:2 - Error during parsing: Unknown directive 'whoami}'"),
    ("a.org, {\n}", "Corefile:1 - Error during parsing: Expected another address but had '{' - check for extra comma"),
    ("a.org,", "Corefile:1 - Error during parsing: Unexpected EOF"),
    (". {\n cache {\n", "Corefile:2 - Error during parsing: Unexpected EOF"),
    (". {\n whoami\n", "Corefile:2 - Syntax error: Unexpected token 'whoami', expecting '}'"),
    ("(s)\nlog", "Corefile:2 - Syntax error: Unexpected token 'log', expecting '{'"),
    ("(s) {\n log", "Corefile:2 - Syntax error: Unexpected token 'log', expecting '}'"),
    (". {\n log }\n}", "Corefile:2 - Error during parsing: Unexpected '}' because no matching opening brace"),
    (". {\n import\n}", "Corefile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'import'"),
    ('. {\n import ""\n}', "Corefile:2 - Error during parsing: Import requires a non-empty filepath"),
    (". {\n import a b\n}", "Corefile:2 - Error during parsing: Import takes only one argument (glob pattern or file)"),
    (". {\n import /nowhere/file\n}", "Corefile:2 - Error during parsing: File to import not found: /nowhere/file"),
    (". {\n import /tmp\n}", "Corefile:2 - Error during parsing: Could not import /tmp: is a directory"),
    (". {\n import /a/*/*\n}", "Glob pattern may only contain one wildcard (*), but has others: /a/*/*"),
    (". {\n import /a/??\n}", "Glob pattern may only contain one wildcard (*), but has others: /a/??"),
    (". {\n import /a/[x]\n}", "Glob pattern may only contain one wildcard (*), but has others: /a/[x]"),
    (". {\n import /a/[x\n}", "Failed to use import pattern /a/[x: syntax error in pattern"),
    ("(s) {\n log\n}\n(s) {\n log\n}", "Corefile:4 - Error during parsing: redeclaration of previously declared snippet s"),
    ("(a) {\n import a\n}\n. {\n import a\n}", "maximum snippet import depth (10000) exceeded"),
    ("(a) {\n import b\n}\n(b) {\n import a\n}\n. {\n import a\n}", "maximum snippet import depth (10000) exceeded"),
]


@pytest.mark.parametrize(("text", "expected"), BAD)
def test_refused(text: str, expected: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(text, "Corefile", known)
    if expected.startswith("Corefile:"):
        assert str(caught.value) == expected
        assert caught.value.line == int(expected.split(":")[1].split()[0])
    else:
        assert str(caught.value).endswith(expected)


def test_imported_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b.conf").write_text("b.org {\n import inner\n}\n")
    (tmp_path / "conf.d" / "a.conf").write_text("a.org {\n log\n}\n")
    (tmp_path / "conf.d" / ".hidden.conf").write_text("h.org {\n log\n}\n")
    (tmp_path / "conf.d" / "inner").write_text("whoami\ncache 5\n")
    (tmp_path / "conf.d" / "wrong").write_text("whoami\n\nnosuch\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOLDER", "conf.d")
    warnings: list[str] = []
    blocks = parse("import {$FOLDER}/*.conf\nimport conf.d/*.none\n. {\n import conf.d/?nner\n}", "Corefile", known, lambda text, _: warnings.append(text))
    whoami = {"whoami": ["whoami"], "cache": ["cache", "5"]}
    assert texts(blocks) == [(["h.org"], {"log": ["log"]}), (["a.org"], {"log": ["log"]}), (["b.org"], whoami), (["."], whoami)]
    assert warnings == ["No files matching import glob pattern: conf.d/*.none"]
    assert blocks[2].tokens["cache"][1].file == str(tmp_path / "conf.d" / "inner")
    with pytest.raises(CorefileError, match=r"conf\.d/wrong:3 - Error during parsing: Unknown directive 'nosuch'"):
        parse(". {\n import conf.d/wrong\n}", "Corefile", known)


def test_broken_files_that_are_left_out(tmp_path: Path) -> None:
    """Each alone, where the import says so; what they hold does not run over into the rest."""
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "a.conf").write_text("(shared) {\n log\n}\na.org b.org {\n import shared\n}\nc.org {\n import inner* skip_broken\n}\n")
    (folder / "inner1").write_text("cache 5 {\n success 3\n}\nwhoami\n")
    (folder / "inner2").write_text("log\n}\nd.org {\n")
    (folder / "unknown.conf").write_text("e.org {\n nosuch\n}\n")
    (folder / "open.conf").write_text("f.org {\n whoami\n")
    (folder / "missing.conf").write_text("g.org {\n import /nowhere/file\n}\n")
    (folder / "folder.conf").mkdir()
    left_out: dict[str, CorefileError] = {}
    corefile = f"import {folder}/*.conf skip_broken\n. {{\n import shared\n import {folder}/inner1 skip_broken\n cache 6\n}}\n"
    blocks = parse(corefile, "Corefile", known, None, left_out)
    inner = {"cache": ["cache", "5", "{", "success", "3", "}"], "whoami": ["whoami"]}
    assert texts(blocks) == [
        (["a.org", "b.org"], {"log": ["log"]}),
        (["c.org"], inner),
        (["."], {"log": ["log"], "cache": [*inner["cache"], "cache", "6"], "whoami": ["whoami"]}),
    ]
    assert [block.origin for block in blocks] == [str(folder / "a.conf")] * 2 + [""]
    assert [word.origin for word in blocks[2].tokens["cache"]] == [str(folder / "inner1")] * 6 + [""] * 2
    assert {Path(path).name: str(error) for path, error in left_out.items()} == {
        "folder.conf": f"Corefile:1 - Error during parsing: Could not import {folder}/folder.conf: is a directory",
        "inner2": f"{folder}/inner2:2 - Error during parsing: Unexpected '}}' because no matching opening brace",
        "missing.conf": f"{folder}/missing.conf:2 - Error during parsing: File to import not found: /nowhere/file",
        "open.conf": f"{folder}/open.conf:2 - Syntax error: Unexpected token 'whoami', expecting '}}'",
        "unknown.conf": f"{folder}/unknown.conf:2 - Error during parsing: Unknown directive 'nosuch'",
    }
    # What is named beforehand is not looked at.
    left_out[str(folder / "inner1")] = CorefileError("no good")
    assert texts(parse(corefile, "Corefile", known, None, left_out))[1:] == [(["c.org"], {}), (["."], {"log": ["log"], "cache": ["cache", "6"]})]
    with pytest.raises(CorefileError):
        parse(corefile.replace(" skip_broken", ""), "Corefile", known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (". {\n import a skip_broken b\n}", "Import takes only one argument (glob pattern or file)"),
        (". {\n import /nowhere/file skip_broken\n}", "File to import not found: /nowhere/file"),
        (". {\n cache {\n  import x* skip_broken\n }\n}", "skip_broken is for files with whole server blocks or whole directives"),
        ("(s) {\n log\n}\n. {\n import s skip_broken\n}", "skip_broken is for files with whole server blocks or whole directives"),
        ("a.org,\nimport x* skip_broken\n{\n}", "skip_broken is for files with whole server blocks or whole directives"),
    ],
)
def test_errors_of_the_corefile_itself(text: str, expected: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(text, "Corefile", known)
    assert str(caught.value).endswith(expected)
    assert caught.value.origin == ""


ENVIRONMENT = [
    ("{$A}", "one"),
    ("{%A%}", "one"),
    ("x{$A}{$B}y", "xone1 2y"),
    ("{$UNSET_HERE}", ""),
    ("{$}", "{$}"),
    ("{$}{$A}", "{$}{$A}"),
    ("{%%}x", "{%%}x"),
    ("{$A", "{$A"),
    ("{$REFERENCE}", "one"),
    ("{%PERCENT%}", "one"),
    ("{$A B}", ""),
]


@pytest.mark.parametrize(("text", "expected"), ENVIRONMENT)
def test_environment(text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"A": "one", "B": "1 2", "REFERENCE": "{$A}", "PERCENT": "{$A}", "LOOP": "x{$LOOP}"}.items():
        monkeypatch.setenv(name, value)
    blocks = parse(f'. {{\n cache "{text}" {{\n  ttl "{text}"\n }}\n}}', "Corefile", known)
    assert texts(blocks)[0][1]["cache"] == ["cache", expected, "{", "ttl", expected, "}"]


def test_environment_in_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE", "a.org")
    monkeypatch.setenv("DIRECTIVE", "cache")
    assert texts(parse("{$ZONE}:{%PORT_UNSET%}53 {\n {$DIRECTIVE} 3\n}", "Corefile", known)) == [(["a.org:53"], {"cache": ["cache", "3"]})]


def test_environment_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("{$LOOP}", "x{$LOOP}", "{$LOOP}{$LOOP}"):
        monkeypatch.setenv("LOOP", value)
        with pytest.raises(CorefileError, match="without end"):
            parse(". {\n cache {$LOOP}\n}", "Corefile", known)


def test_meaning_is_not_layout() -> None:
    base = parse(". {\n cache 3 {\n  success 5\n }\n}", "Corefile", known)[0].meaning()
    same = parse("# above\n\n.   {\n cache 3   { # beside\n\n  success 5\n }\n}\n# below", "Other", known)[0].meaning()
    other = parse(". {\n cache 3 {\n  success\n 5\n }\n}", "Corefile", known)[0].meaning()
    assert base == same
    assert base != other


def test_doubling_snippets_end() -> None:
    doubled = "".join(f"(s{n}) {{\n import s{n - 1}\n import s{n - 1}\n}}\n" for n in range(1, 40))
    text = f"(s0) {{\n log\n}}\n{doubled}. {{\n import s39\n}}"
    with pytest.raises(CorefileError, match="maximum snippet import depth"):
        parse(text, "Corefile", known)


def test_file_importing_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "Corefile"
    path.write_text(". {\n import Corefile\n}\n")
    with pytest.raises(CorefileError):
        parse(path.read_bytes(), str(path), known)


def test_any_bytes_parse_or_are_refused() -> None:
    """Pieces of the grammar and arbitrary octets in any order give blocks or a CorefileError."""
    source = random.Random(7)
    words = ["import", "(a)", "(b)", "a", "b", ".", "whoami", "cache", "{$X}", "{%X%}", "\ufeff"]
    encoded = [piece.encode() for piece in [*'{}\n "\\#,\r*', *words]] + [b"\xff", b"\xc3", b"\0"]
    for _ in range(3000):
        data = b"".join(source.choice(encoded) for _ in range(source.randrange(60)))
        try:
            parse(data, "Corefile", known)
        except CorefileError as error:
            assert str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "data",
    [
        b"\\\\\\\\\xc3\xa4\\\\.:53 {\n whoami",
        b".:53 {\n \xff\xfe\xfd\n}",
        b".:53 {\n kubernetes {\n  endpoint http://\xff\xfe\n",
    ],
)
def test_malformed_input_is_refused(data: bytes) -> None:
    with pytest.raises(CorefileError):
        parse(data, "Corefile", known)
