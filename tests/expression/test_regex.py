"""Regular expressions of the Corefile, beside Go's own package."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

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
    (r"\pLabc", b"abc", 1),
    (r"\p{Greek}abc", b"abc", 1),
    ("é+", b"", 0),
    ("ébc", b"bc", 1),
    (r"a\dbcd*", b"bc", 1),
    (r"\x41bc", b"bc", 1),
    (r"\101bc", b"bc", 1),
    (r"\x{41}bc$", b"bc", 3),
    ("ab[[:alpha:]]c", b"ab", 1),
    ("[^a]bc", b"bc", 1),
    (r"[\]]bc", b"bc", 1),
    (r"[\d]bc", b"bc", 1),
    ("[a]bc", b"bc", 1),
    ("a{2}bc", b"bc", 1),
    ("a{,2}", b"a{,2}", 1),
    ("(?s)a.bc", b"bc", 1),
    ("(?s:ab)cd", b"cd", 1),
    ("(?:ab)cd", b"abcd", 1),
    ("ab(?i)cd", b"", 0),
    (r"(^ab)|cd", b"", 0),
    (r"\Aabc\z", b"abc", 3),
    (r"\babc", b"abc", 1),
]


@pytest.mark.parametrize(("expression", "literal", "place"), LITERALS)
def test_what_every_text_must_hold(expression: str, literal: bytes, place: int) -> None:
    assert regex.required(expression) == (literal, place)
    assert regex.compile(expression).literal == literal


def test_texts_without_the_literal_do_not_match() -> None:
    """With the literal looked for ahead and without: the same groups for texts made of an expression's letters."""
    choice = random.Random(7)
    for expression, literal, place in LITERALS:
        compiled = regex.compile(expression)
        without = Regex(compiled.source.replace("(?<", "(?P<"))
        assert (compiled.literal, without.literal) == (literal, b"")
        texts = ["".join(choice.choice("abcdexyAB]{,2}1-.ip") for _ in range(choice.randrange(12))) for _ in range(300)]
        texts += [ahead + literal.decode() + behind for ahead in ("", "x", "a1") for behind in ("", "x", "12-")]
        for text in texts:
            assert compiled.search(text) == without.search(text), (expression, text, place)


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


@pytest.mark.parametrize(("expression", "text", "found"), GOOD)
def test_good(expression: str, text: str, found: bool) -> None:
    assert (regex.compile(expression).search(text) is not None) is found


@pytest.mark.parametrize(("expression", "text", "groups"), GROUPS)
def test_groups(expression: str, text: str, groups: list[str | None]) -> None:
    pattern = regex.compile(expression)
    assert pattern.search(text) == groups
    assert pattern.groups == len(groups) - 1


def test_names_of_groups() -> None:
    assert regex.compile(r"(a)\((?P<b>[(]\Q(\E)(?:c)(?<d>)[()]()").names == {"b": 2, "d": 3}
    assert regex.compile("(?<a>x)(?P<a>y)").names == {"a": 2}


def test_the_source_is_that_of_the_corefile() -> None:
    assert regex.compile("(?<a>x)").source == "(?<a>x)"


#: Expression, Go's reason and the part that Go names.
BAD = [
    ("(", "missing closing )", "("),
    ("a(?<n>b", "missing closing )", "a(?<n>b"),
    ("a)", "unexpected )", "a)"),
    ("[)](a", "missing closing )", "[)](a"),
    ("[a", "missing closing ]", "[a"),
    ("x[(?<n>", "missing closing ]", "[(?<n>"),
    ("*", "missing argument to repetition operator", "*"),
    ("*)", "missing argument to repetition operator", "*"),
    ("a**b**", "invalid nested repetition operator", "**"),
    ("a++", "invalid nested repetition operator", "++"),
    ("a{2,1}", "invalid repeat count", "{2,1}"),
    ("a{1001}?", "invalid repeat count", "{1001}"),
    ("((a{100}){100}){10}", "invalid repeat count", "{100}"),
    (r"\8", "invalid escape sequence", r"\8"),
    (r"(a)\1", "invalid escape sequence", r"\1"),
    (r"a\C(", "invalid escape sequence", r"\C"),
    (r"(\C", "invalid escape sequence", r"\C"),
    ("a\\", "trailing backslash at end of expression", ""),
    ("[[:nope:]]", "invalid character class range", "[:nope:]"),
    ("[z-a]", "invalid character class range", "z-a"),
    (r"\p{Nope}", "invalid character class range", r"\p{Nope}"),
    ("(?=a)", "invalid or unsupported Perl syntax", "(?="),
    ("(?!a)", "invalid or unsupported Perl syntax", "(?!"),
    ("(?>a)", "invalid or unsupported Perl syntax", "(?>"),
    ("(?<", "invalid or unsupported Perl syntax", "(?<"),
    ("(?<=a)b", "invalid named capture", "(?<=a)b"),
    ("(?P<1é>a)", "invalid named capture", "(?P<1é>"),
    ("(?<>a)", "invalid named capture", "(?<>"),
]


@pytest.mark.parametrize(("expression", "reason", "part"), BAD)
def test_reasons_are_those_of_go(expression: str, reason: str, part: str) -> None:
    with pytest.raises(RegexError) as caught:
        regex.compile(expression)
    assert str(caught.value) == f"error parsing regexp: {reason}: `{part}`"


def test_memory_is_bounded() -> None:
    """RE2 would take 30 MB for this one."""
    with pytest.raises(RegexError, match="error parsing regexp: expression too large: "):
        regex.compile(r"\pL{1000}")


@pytest.mark.parametrize("expression", ["(a+)+$", "(a*)*b", "((a|b)+c?)*d", "(.*a)*x", r"(\w+|a)+!", "(a?){50}a{50}!"])
def test_the_worst_expressions_take_a_millisecond(expression: str) -> None:
    """The bound is the property: a name of 255 octets at a backtracker's worst."""
    pattern = regex.compile(expression)
    name = "a" * 254 + "."
    best = 1.0
    for _ in range(50):
        began = time.perf_counter()
        pattern.search(name)
        best = min(best, time.perf_counter() - began)
    assert best < 0.001 * (4 if "{50}" in expression else 1)


# ---- beside Go ----

#: Pieces of expressions, sound ones and others.
PIECES = [
    "a", "b", "é", "(", ")", "[", "]", "*", "+", "?", "|", "^", "$", ".", "-", "{", "}", ">", "*?", "**", "++", "{2}", "{1,3}", "{3,1}", "{1001}", "{02}",
    "{,2}", "\\", r"\d", r"\8", r"\pL", r"\p{Greek}", r"\p{Nope}", r"\pX", r"\Q", r"\E", r"\z", r"\Z", r"\C", r"\b", r"\x41", r"\x4", r"\x{41}", r"\07",
    r"\1", r"\é", "(?i)", "(?s)", "(?:", "(?i-s:", "(?i", "(?", "(?z)", "(?-i)", "(?=", "(?!", "(?<=", "(?>", "(?#", "(?P<n>", "(?<n>", "(?P<n", "(?<n", "(?P<",
    "(?<", "(?P<1é>", "(?P=n)", "(?<>a)", "(?P<n>a)", "(?<m>b)", "[^", "[[:alpha:]]", "[:alpha:]", "[[:nope:]]", "[z-a]", r"[a-\d]", "[a-", "[^]a]",
]  # fmt: skip


@pytest.fixture(scope="module")
def judge(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that answers lines of {expression, texts} with {error, names, indexes} of Go's package."""
    program = tmp_path_factory.mktemp("go") / "regexp"
    subprocess.run([go, "build", "-o", program, Path(__file__).with_name("regexp.go")], check=True)
    return program


def test_go_agrees(judge: Path) -> None:
    """Error texts, names and groups, of random expressions on a few texts."""
    choice = random.Random(11)
    texts = ["", "a", "ab", "aab", "ba", "[a", "AB.b", "n-a", "é", "a\nb", "aaabbb-"]
    expressions = [*PIECES, *("".join(choice.choices(PIECES, k=choice.randrange(1, 7))) for _ in range(5000))]
    lines = "".join(json.dumps({"expression": expression, "texts": texts}) + "\n" for expression in expressions)
    answers = subprocess.run([judge], input=lines.encode(), capture_output=True, check=True).stdout.decode().splitlines()
    sound = refused = 0
    for expression, line in zip(expressions, answers, strict=True):
        answer = json.loads(line)
        if answer["error"]:
            with pytest.raises(RegexError) as caught:
                regex.compile(expression)
            assert str(caught.value) == answer["error"], expression
            refused += 1
            continue
        pattern = regex.compile(expression)
        assert pattern.names == {name: number for number, name in enumerate(answer["names"]) if name}, expression
        sound += 1
        for text, places in zip(texts, answer["indexes"], strict=True):
            octets = text.encode()
            groups = places and [None if start < 0 else octets[start:end].decode() for start, end in zip(places[::2], places[1::2], strict=True)]
            assert pattern.search(text) == groups, (expression, text)
    assert min(sound, refused) > 500
