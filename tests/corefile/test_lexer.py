"""Words, quotes and comments: spec section 1."""

from __future__ import annotations

import pytest

from fastdns.corefile.lexer import tokens

CASES = [
    ("", []),
    ("  \n\t\n", []),
    ("a b\nc", [(1, "a"), (1, "b"), (2, "c")]),
    ("\ufeffa", [(1, "a")]),
    ("a\r\nb\r\n", [(1, "a"), (2, "b")]),
    ("a\rb", [(1, "ab")]),
    ("a\u2003b\u0085c\xa0d", [(1, "a"), (1, "b"), (1, "c"), (1, "d")]),
    ("a\x1cb", [(1, "a\x1cb")]),
    ("# x y\na", [(2, "a")]),
    ("a # x y\nb", [(1, "a"), (2, "b")]),
    ("whoami#x\nlog", [(1, "whoami"), (2, "log")]),
    ("whoami#x y\nlog", [(1, "whoami"), (1, "y"), (2, "log")]),
    ("whoami#x #y z\nlog", [(1, "whoami"), (2, "log")]),
    ("a{ }b", [(1, "a{"), (1, "}b")]),
    ("a \\\nb", [(1, "a"), (1, "\\"), (2, "b")]),
    ('"a b" c', [(1, "a b"), (1, "c")]),
    ('"a"b', [(1, "a"), (1, "b")]),
    ('a"b c"', [(1, 'a"b'), (1, 'c"')]),
    ('"a \\"b\\" \\n \\\\"', [(1, 'a "b" \\n \\\\')]),
    ('"a # b"', [(1, "a # b")]),
    ('"a\nb" c\nd', [(1, "a\nb"), (2, "c"), (3, "d")]),
    ('"a\\\nb" c', [(1, "a\\\nb"), (2, "c")]),
    ('""', [(1, "")]),
    ('"', []),
    ('"a b', [(1, "a b")]),
    ('"a\\', [(1, "a")]),
    ('"a\\\\', [(1, "a\\\\")]),
    ('"{"', [(1, "{")]),
    ("ä ö", [(1, "ä"), (1, "ö")]),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_tokens(text: str, expected: list[tuple[int, str]]) -> None:
    assert [(token.line, token.text) for token in tokens(text, "Corefile")] == expected
