"""Regular expressions of the Corefile, by RE2 and on our own machine."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest

from fastdns.expression import regex
from fastdns.expression.matcher import Regex
from fastdns.expression.regex import RegexError

#: Expression, what every text must hold, where: 1 anywhere, 2 at its begin, 3 at its end.
LITERALS = [
    (r"(.*)-v1[.]example[.]org[.]$", b"-v1.example.org.", 3),
    (r"^ip-(?P<a>\d+)-", b"ip-", 2),
    (r"^(old|new)\.example\.org\.$", b".example.org.", 3),
    (r"(?<x>ab)(cd)", b"abcd", 1),
    (r"\Qa.b\E+", b"a.", 1),
    (".*", b"", 0),
    ("(?i)abc", b"", 0),
    ("(?i:abc)de", b"de", 1),
    ("(?m)^abc$", b"", 0),
    ("abc|xyz", b"", 0),
    ("(abc)?", b"", 0),
    ("(abc){2}", b"", 0),
    (r"\pLabc", b"", 0),
    ("é+", b"", 0),
]


@pytest.mark.parametrize(("expression", "literal", "place"), LITERALS)
def test_what_every_text_must_hold(expression: str, literal: bytes, place: int) -> None:
    assert regex.required(expression) == (literal, place)


def test_texts_without_the_literal_do_not_match() -> None:
    """With the literal looked for ahead and without: the same groups for texts made of an expression's letters."""
    choice = random.Random(7)
    for expression, literal, place in LITERALS:
        try:
            with_it = regex.compile(expression)
        except RegexError:
            continue  # no Unicode classes here
        program = regex.assemble(expression) if regex.engine() != "RE2" else None
        without = Regex(with_it.source, with_it.names, program)
        assert (with_it.literal, without.literal) == (literal, b"")
        texts = ["".join(choice.choice("abcdexy1-.ip") for _ in range(choice.randrange(12))) for _ in range(300)]
        texts += [ahead + literal.decode() + behind for ahead in ("", "x", "a1") for behind in ("", "x", "12-")]
        for text in texts:
            assert with_it.search(text) == without.search(text), (expression, text, place)


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


#: Expression, text, all groups of the first match.
GROUPS = [
    ("(a)|b", "b", ["b", None]),
    ("(.*)-(eu|us)\\.test", "ftp-eu.test.", ["ftp-eu.test", "ftp", "eu"]),
    ("(a|ab)(c|bcd)(d*)", "abcd", ["abcd", "a", "bcd", ""]),
    ("(a+?)(a*)", "aaa", ["aaa", "a", "aa"]),
    ("(?P<x>[0-9]+)(?<y>z)?", "a12", ["12", "12", None]),
    ("(a|b)+", "xabab", ["abab", "b"]),
    ("x*", "aaa", [""]),
    ("(x)?(y)?$", "xy", ["xy", "x", "y"]),
    ("b|ab|abc", "abc", ["ab"]),
    (r"\bfoo\b", "a foo.", ["foo"]),
    (r"\Boo", "foo", ["oo"]),
    ("(?i:A)b", "ab", ["ab"]),
    ("(?:a{2}){2,3}", "aaaaaaa", ["aaaaaa"]),
    (r"(\d+)-(\d+)", "ip-10-20", ["10-20", "10", "20"]),
]


def own(expression: str) -> Regex:
    program = regex.assemble(expression)
    return Regex(expression, program.names, program)


@pytest.fixture(params=[regex.compile, own], ids=["as built", "own"])
def compiled(request: pytest.FixtureRequest):
    return request.param


def test_re2_is_built_where_ci_wants_it() -> None:
    if not os.environ.get("FASTDNS_NO_SKIPS"):
        pytest.skip("elsewhere libre2 may be missing")
    assert regex.engine() == "RE2"


@pytest.mark.parametrize(("expression", "text", "found"), GOOD)
def test_good(compiled, expression: str, text: str, found: bool) -> None:
    assert (compiled(expression).search(text) is not None) is found


@pytest.mark.parametrize(("expression", "text", "groups"), GROUPS)
def test_groups(compiled, expression: str, text: str, groups: list[str | None]) -> None:
    pattern = compiled(expression)
    assert pattern.search(text) == groups
    assert pattern.groups == len(groups) - 1


def test_names_of_groups(compiled) -> None:
    assert compiled(r"(a)\((?P<b>[(]\Q(\E)(?:c)(?<d>)[]()]").names == {"b": 2, "d": 3}


@pytest.mark.parametrize("expression", BAD)
def test_bad(expression: str) -> None:
    with pytest.raises(RegexError):
        own(expression)


@pytest.mark.parametrize("expression", [expression for expression in BAD if expression not in ("a++", "a**b**")])
def test_bad_as_built(expression: str) -> None:
    with pytest.raises(RegexError, match="error parsing regexp: "):
        regex.compile(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        (r"\8", r"invalid escape sequence: `\8`"),
    ],
)
def test_reasons_are_those_of_go(expression: str, message: str) -> None:
    if regex.engine() != "RE2":
        pytest.skip("Python's parser words them otherwise")
    with pytest.raises(RegexError) as caught:
        regex.compile(expression)
    assert str(caught.value) == "error parsing regexp: " + message


@pytest.mark.parametrize("expression", ["(a+)+$", "(a*)*b", "((a|b)+c?)*d", "(.*a)*x", r"(\w+|a)+!", "(a?){50}a{50}!"])
def test_the_worst_expressions_take_a_millisecond(compiled, expression: str) -> None:
    """The bound is the property: a name of 255 octets at a backtracker's worst."""
    pattern = compiled(expression)
    name = "a" * 254 + "."
    best = 1.0
    for _ in range(50):
        began = time.perf_counter()
        pattern.search(name)
        best = min(best, time.perf_counter() - began)
    assert best < 0.001 * (4 if "{50}" in expression else 1)


def test_both_machines_agree() -> None:
    """Random expressions over a small alphabet, on random texts."""
    if regex.engine() != "RE2":
        pytest.skip("RE2 is not built in")
    source = random.Random(7)

    def expression(depth: int) -> str:
        kind = source.randrange(9 if depth else 3)
        if kind < 3:
            return source.choice(["a", "b", ".", "[ab]", "[^a]", "\\.", "^", "$", "c"])
        if kind == 3:
            return f"({expression(depth - 1)})"
        if kind == 4:
            return f"(?:{expression(depth - 1)}|{expression(depth - 1)})"
        if kind == 5:
            return f"(?:{expression(depth - 1)}{source.choice(['x', 'b'])}){source.choice(['*', '+', '?', '*?', '{1,3}'])}"
        return expression(depth - 1) + expression(depth - 1)

    matches = 0
    for _ in range(600):
        text = expression(4)
        two = regex.compile(text), own(text)
        for _ in range(8):
            name = "".join(source.choice("abcx.") for _ in range(source.randrange(12)))
            found = [pattern.search(name) for pattern in two]
            assert found[0] == found[1], (text, name)
            matches += found[0] is not None
    assert matches > 500


def test_without_re2_the_own_machine_matches() -> None:
    code = "import sys; sys.modules['fastdns.expression.re2'] = None\nfrom fastdns.expression import regex\nprint(regex.engine(), regex.compile('(a)(b)?').search('xa'))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "NFA ['a', 'a', None]\n"


@pytest.mark.parametrize("expression", [r"\pL", "[äö]"])
def test_characters_beyond_ascii_need_re2(expression: str) -> None:
    with pytest.raises(RegexError, match=r"libre2"):
        own(expression)


def test_an_expression_may_be_too_large_for_the_own_machine() -> None:
    with pytest.raises(RegexError, match="too large"):
        own("((a{100}){100}){10}")
