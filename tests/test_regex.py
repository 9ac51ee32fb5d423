"""Regular expressions of the Corefile, with and without RE2."""

from __future__ import annotations

import pytest

from fastdns import regex
from fastdns.regex import RegexError

GOOD = [
    ("", "any", True),
    ("b+", "abc", True),
    ("^b", "abc", False),
    ("timeout$", "i/o timeout", True),
    ("timeout$", "i/o timeout\n", False),
    (r"^a\z", "a", True),
    (r"^a\z", "a\n", False),
    ("(?i)TIMEOUT", "i/o timeout", True),
    ("a.b", "a\nb", False),
    ("(?s)a.b", "a\nb", True),
    ("(?P<name>x)", "x", True),
    (r"\Qa.b*\Ec", "a.b*c", True),
    (r"\Qa.b*\Ec", "axb*c", False),
    ("[[:digit:]]+x", "12x", True),
    ("[^[:alpha:]_]", "ab_", False),
    ("[]a]+", "]", True),
    ("[^]]", "]", False),
    (r"[\]]", "]", True),
    ("[[]", "[", True),
    ("[$]", "$", True),
    (r"\$", "$", True),
    (r"\d", "٣", False),
    (r"\w", "ä", False),
    ("(a|b)*c", "ababc", True),
    ("(ab{2,3})?c", "abbc", True),
    ("(?m)^b$", "a\nb\nc", True),
]

BAD = ["(", "[a", "*", "a**b**", "(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "a++", "(?>a)", "[[:nope:]]", "a{2,1}", r"\8"]


@pytest.mark.parametrize(("expression", "text", "found"), GOOD)
def test_good(expression: str, text: str, found: bool) -> None:
    assert bool(regex.compile(expression).search(text)) is found


@pytest.mark.parametrize(("expression", "text", "found"), GOOD)
def test_good_in_python(expression: str, text: str, found: bool) -> None:
    """The fall-back, where RE2 is installed too."""
    assert bool(regex._python(expression).search(text)) is found


@pytest.mark.parametrize("expression", BAD)
def test_bad(expression: str) -> None:
    with pytest.raises(RegexError):
        regex._python(expression)


@pytest.mark.parametrize("expression", ["(a+)+b", "(a*)*", "((a|b)+c?)*d", "(.*,)*x", r"(\d+|x)+y", "(a{1,100}){1,100}b"])
def test_what_could_take_for_ever_is_refused_without_re2(expression: str) -> None:
    with pytest.raises(RegexError, match=r"google-re2"):
        regex._python(expression)


def test_unicode_classes_need_re2() -> None:
    with pytest.raises(RegexError, match=r"google-re2"):
        regex._python(r"\pL")
