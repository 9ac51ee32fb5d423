"""Regular expressions in the Corefile: RE2's syntax, as Go has it.

Where the package `re2` (google-re2) is installed it does the matching, in linear time. Otherwise Python's `re` does, for which the syntax is
translated; what could make it backtrack without end (a repetition within a repetition) or has no translation is refused, with a hint at `re2`.
Never for the workers: both hold the GIL.
"""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any, Protocol

__all__ = ["Pattern", "RegexError", "compile"]


class Pattern(Protocol):
    """What both libraries offer."""

    def search(self, string: str) -> Any: ...


class RegexError(ValueError):
    """The expression cannot be used; says why in Go's words where they are known."""


#: Go's POSIX classes, for use within brackets.
POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip

#: What RE2 refuses although Python has it: look-around, back references, conditions, atomic groups, possessive repetition.
FOREIGN = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[=!>(#]|<[=!]|P=)|\\[1-9]|[*+?}]\+)")


def compile(expression: str) -> Pattern:  # noqa: A001
    """A pattern whose ``search`` is unanchored. Raises RegexError."""
    try:
        re2: Any = importlib.import_module("re2")
    except ImportError:
        return _python(expression)
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(expression, options)
    except re2.error as error:
        raise RegexError(f"error parsing regexp: {error}: `{expression}`") from None
    return pattern


def _python(expression: str) -> Pattern:
    found = FOREIGN.search(expression)
    if found:
        raise RegexError(f"error parsing regexp: invalid or unsupported Perl syntax: `{found[0]}`")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            pattern = re.compile(translate(expression), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise RegexError(f"error parsing regexp: {error}: `{expression}`") from None
    if _explodes(pattern.pattern):
        raise RegexError(f"regexp `{expression}` repeats a repetition, which is slow without the Python package google-re2: install it, or rewrite it")
    return pattern


def translate(expression: str) -> str:
    """Python's spelling of what Go spells otherwise: ``\\z``, ``\\Q…\\E``, ``[[:alpha:]]``, ``\\C``; flags ahead stay as they are."""
    out = []
    at, inside = 0, False
    while at < len(expression):
        char = expression[at]
        pair = expression[at : at + 2]
        if char == "\\":
            if pair == "\\Q":
                end = expression.find("\\E", at + 2)
                end = len(expression) if end < 0 else end
                out.append(re.escape(expression[at + 2 : end]))
                at = end + 2
                continue
            if pair in ("\\p", "\\P"):
                raise RegexError(f"regexp `{expression}` uses Unicode classes, which needs the Python package google-re2")
            out.append({"\\z": "\\Z", "\\C": "(?s:.)"}.get(pair, pair) if not inside else pair)
            at += 2
            continue
        if inside and expression.startswith("[:", at):
            end = expression.find(":]", at)
            name = expression[at + 2 : end].removeprefix("^") if end >= 0 else ""
            if name not in POSIX or expression[at + 2] == "^":
                raise RegexError(f"error parsing regexp: invalid character class range: `{expression[at : end + 2 if end >= 0 else None]}`")
            out.append(POSIX[name])
            at = end + 2
            continue
        if char == "[" and not inside:
            inside = True
            head = 2 if pair == "[^" else 1
            out.append(expression[at : at + head])
            at += head
            if expression[at : at + 1] == "]":
                out.append("\\]")
                at += 1
            continue
        if char == "[" and inside:
            char = "\\["
        elif char == "]" and inside:
            inside = False
        elif char == "$" and not inside:
            char = "$" if "(?m" in expression else "\\Z"  # Python's $ also matches before a last newline
        out.append(char)
        at += 1
    return "".join(out)


#: How often what comes next can be matched in two ways, the start of an unanchored pattern included: matching costs the length of a name to
#: the power of this.
CHOICES_MAX = 3


def _explodes(expression: str) -> bool:
    """Whether matching could take more than some milliseconds for a name of 255 octets.

    Within a repetition everything must have one length and alternatives must differ in their first character, so that there is one way
    to match; and the whole has but a few repetitions that could end in several places.
    """
    from re import _constants, _parser  # type: ignore[attr-defined]

    repetitions = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
    tree = _parser.parse(expression)
    choices = 0 if len(tree) and tree[0] == (_constants.AT, _constants.AT_BEGINNING) else 1

    def takes(item: Any, code: int) -> bool:
        """Whether a set may match a character; True where that is not clear."""
        operation, argument = item
        if operation is _constants.LITERAL:
            return bool(argument == code)
        if operation is _constants.NOT_LITERAL:
            return bool(argument != code)
        if operation is not _constants.IN:
            return True
        negated = argument[0][0] is _constants.NEGATE
        found = False
        for kind, value in argument[negated:]:
            if kind is _constants.CATEGORY:
                return True
            found |= value == code if kind is _constants.LITERAL else value[0] <= code <= value[1]
        return found != negated

    def ends_in_one_place(inner: Any, following: Any) -> bool:
        return following is not None and following[0] is _constants.LITERAL and len(inner) == 1 and not takes(inner[0], following[1])

    def firsts(branches: Any) -> list[Any]:
        return [tuple(branch[0]) if len(branch) and branch[0][0] is _constants.LITERAL else None for branch in branches]

    def repeats(items: Any, within: bool, after: Any = None) -> bool:
        nonlocal choices
        for place, (operation, argument) in enumerate(items):
            following = items[place + 1] if place + 1 < len(items) else after
            if operation in repetitions:
                least, most, inner = argument
                if least != most and most > 16:
                    choices += not ends_in_one_place(inner, following) and following is not None
                if (within and least != most) or repeats(inner, within or (most > 1 and not _is_single(inner))):
                    return True
            elif operation is _constants.SUBPATTERN:
                if repeats(argument[3], within, following):
                    return True
            elif operation is _constants.BRANCH:
                heads = firsts(argument[1])
                if within and (None in heads or len(set(heads)) < len(heads)):
                    return True
                if any(repeats(branch, within, following) for branch in argument[1]):
                    return True
        return False

    def _is_single(items: Any) -> bool:
        """One character or a set of them."""
        return len(items) == 1 and items[0][0] in (_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN, _constants.ANY)

    return repeats(tree, False) or choices > CHOICES_MAX
