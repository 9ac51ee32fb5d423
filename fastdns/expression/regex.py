"""Regular expressions in the Corefile: RE2's syntax, as Go has it, matched in linear time.

RE2 itself matches where fastdns was built with libre2. Elsewhere an expression is assembled here for a machine of our own (`fastdns.expression.matcher`), by
way of Python's parser: its syntax is translated first; what has no translation, such as classes of Unicode characters, is refused with a hint.
"""

from __future__ import annotations

import re
import warnings
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from fastdns.expression.matcher import Regex, engine

__all__ = ["LENGTH_MAX", "Program", "RegexError", "assemble", "compile", "engine"]

#: Octets of an expression that plugins take.
LENGTH_MAX = 10000

#: Instructions of an expression on our own machine.
INSTRUCTIONS_MAX = 20000

GROUPS_MAX = 127


class RegexError(ValueError):
    """The expression cannot be used; says why in Go's words where they are known."""


class Program(NamedTuple):
    """An expression for our own machine."""

    #: (code, x, y), see `Code` in expression/matcher.pyx.
    code: list[tuple[int, int, int]]
    #: Sets of octets, as 256 bits.
    sets: list[bytes]
    #: Capturing groups, the whole match included.
    groups: int
    names: dict[str, int]


#: Go's POSIX classes, for use within brackets.
POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip

#: What RE2 refuses although Python has it: look-around, back references, conditions, atomic groups, possessive repetition.
FOREIGN = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[=!>(#]|<[=!]|P=)|\\[1-9]|[*+?}]\+)")

#: Go 1.22's other spelling of a named group.
NAMED = re.compile(r"(?<!\\)((?:\\\\)*)\(\?<([A-Za-z_]\w*)>")


def compile(expression: str) -> Regex:  # noqa: A001
    """A pattern whose ``search`` is unanchored. Raises RegexError."""
    if engine() != "RE2":
        program = assemble(expression)
        return Regex(expression, program.names, program, required(expression))
    text = NAMED.sub(r"\1(?P<\2>", expression)
    try:
        return Regex(text, _names(text), None, required(text))
    except ValueError as error:
        raise RegexError(f"error parsing regexp: {error}") from None


#: Where every match has its literal, as `Place` in expression/matcher.pxd.
NOWHERE, ANYWHERE, FIRST, LAST = range(4)


def required(expression: str) -> tuple[bytes, int]:
    """Octets without which no text can match, and where they must stand: most texts are told apart by them, without a look at the expression.

    ``(b"", NOWHERE)`` if there are none, or the expression is nothing for Python's parser.
    """
    if not expression.isascii() or FOREIGN.search(expression):
        return b"", NOWHERE
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            tree = _parser.parse(translate(NAMED.sub(r"\1(?P<\2>", expression)), re.ASCII)
    except (re.error, OverflowError, RecursionError, RegexError):
        return b"", NOWHERE
    if tree.state.flags & (re.IGNORECASE | re.MULTILINE | re.VERBOSE | re.LOCALE):
        return b"", NOWHERE
    runs = _runs(tree)
    for place in (LAST, FIRST, ANYWHERE):
        found = max((text for text, where in runs if where == place or place == ANYWHERE), key=len, default=b"")
        if 2 <= len(found) <= 255:
            return found, place
    return b"", NOWHERE


def _runs(tree: Any) -> list[tuple[bytes, int]]:
    """Literals that stand one behind the other in all that an expression matches, and whether the text's begin or end is beside them."""
    parts: list[int | str] = []

    def walk(items: Any) -> None:
        for operation, argument in items:
            if operation is _constants.LITERAL and argument < 128:
                parts.append(argument)
            elif operation is _constants.SUBPATTERN and not argument[1] and not argument[2]:
                walk(argument[3])
            elif operation is _constants.AT:
                begins = argument in (_constants.AT_BEGINNING, _constants.AT_BEGINNING_STRING)
                parts.append("begin" if begins else "end" if argument in (_constants.AT_END, _constants.AT_END_STRING) else "edge")
            else:
                parts.append("other")

    walk(tree)
    runs: list[tuple[bytes, int]] = []
    start = 0
    for at, part in enumerate([*parts, "other"]):
        if isinstance(part, int):
            continue
        before = parts[start - 1] if start else "other"
        text = bytes(octet for octet in parts[start:at] if isinstance(octet, int))
        if text:
            runs.append((text, LAST if part == "end" else FIRST if before == "begin" else ANYWHERE))
        start = at + 1
    return runs


def _names(expression: str) -> dict[str, int]:
    """Numbers of the named groups of an expression that is sound."""
    names: dict[str, int] = {}
    number, at, inside = 0, 0, False
    while at < len(expression):
        char = expression[at]
        if char == "\\":
            if expression[at + 1 : at + 2] == "Q" and not inside:
                end = expression.find("\\E", at)
                at = len(expression) if end < 0 else end
            at += 2
            continue
        if inside:
            if expression.startswith("[:", at):
                at = max(expression.find(":]", at) + 1, at)
            elif char == "]":
                inside = False
        elif char == "[":
            inside = True
            at += 2 if expression.startswith(("[]", "[^"), at) else 0
            at += expression.startswith("^]", at - 1)
        elif char == "(":
            named = re.match(r"\(\?P<(\w+)>", expression[at:])
            if named or not expression.startswith("(?", at):
                number += 1
            if named:
                names[named[1]] = number
        at += 1
    return names


# ---- for our own machine ----

OCTET, SPLIT, JUMP, SAVE, ASSERT, MATCH = range(6)
PLACES = {
    "text begin": 0, "text end": 1, "line begin": 2, "line end": 3, "word edge": 4, "no word edge": 5,
}  # fmt: skip
WORD = {*range(48, 58), *range(65, 91), *range(97, 123), 95}
CATEGORIES = {
    _constants.CATEGORY_DIGIT: set(range(48, 58)), _constants.CATEGORY_SPACE: {9, 10, 12, 13, 32}, _constants.CATEGORY_WORD: WORD,
    _constants.CATEGORY_NOT_DIGIT: set(range(256)) - set(range(48, 58)), _constants.CATEGORY_NOT_SPACE: set(range(256)) - {9, 10, 12, 13, 32},
    _constants.CATEGORY_NOT_WORD: set(range(256)) - WORD,
}  # fmt: skip


def assemble(expression: str) -> Program:
    """The expression for our own machine. Raises RegexError."""
    found = FOREIGN.search(expression)
    if found:
        raise RegexError(f"error parsing regexp: invalid or unsupported Perl syntax: `{found[0]}`")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            tree = _parser.parse(translate(NAMED.sub(r"\1(?P<\2>", expression)), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise RegexError(f"error parsing regexp: {error}: `{expression}`") from None
    if tree.state.groups > GROUPS_MAX:
        raise RegexError(f"regexp `{expression}` has more than {GROUPS_MAX} groups")
    assembly = _Assembly(expression)
    assembly.add(SAVE, 0)
    assembly.sequence(tree, tree.state.flags)
    assembly.add(SAVE, 1)
    assembly.add(MATCH)
    return Program([(code, x, y) for code, x, y in assembly.code], assembly.sets, tree.state.groups, dict(tree.state.groupdict))


class _Assembly:
    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.code: list[list[int]] = []
        self.sets: list[bytes] = []
        self.numbers: dict[bytes, int] = {}

    def add(self, code: int, x: int = 0, y: int = 0) -> int:
        if len(self.code) >= INSTRUCTIONS_MAX:
            raise RegexError(f"error parsing regexp: expression is too large: `{self.expression}`")
        self.code.append([code, x, y])
        return len(self.code) - 1

    def octet(self, wanted: set[int], flags: int) -> None:
        if flags & re.IGNORECASE:
            wanted = wanted | {code ^ 32 for code in wanted if chr(code).isalpha() and code < 128}
        bits = bytearray(32)
        for code in wanted:
            bits[code >> 3] |= 1 << (code & 7)
        key = bytes(bits)
        if key not in self.numbers:
            self.numbers[key] = len(self.sets)
            self.sets.append(key)
        self.add(OCTET, self.numbers[key])

    def sequence(self, items: Any, flags: int) -> None:
        for operation, argument in items:
            self.item(operation, argument, flags)

    def item(self, operation: Any, argument: Any, flags: int) -> None:
        if operation is _constants.LITERAL:
            for octet in [argument] if argument < 128 else chr(argument).encode("utf-8", "surrogateescape"):
                self.octet({octet}, flags)
        elif operation is _constants.NOT_LITERAL:
            self.octet(set(range(256)) - self.folded({argument}, flags), 0)
        elif operation is _constants.ANY:
            self.octet(set(range(256)) - (set() if flags & re.DOTALL else {10}), flags)
        elif operation is _constants.IN:
            self.members(argument, flags)
        elif operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            least, most, inner = argument
            self.repeat(least, most, inner, operation is _constants.MIN_REPEAT, flags)
        elif operation is _constants.SUBPATTERN:
            group, added, removed, inner = argument
            if group is not None:
                self.add(SAVE, 2 * group)
            self.sequence(inner, (flags | added) & ~removed)
            if group is not None:
                self.add(SAVE, 2 * group + 1)
        elif operation is _constants.BRANCH:
            self.branches(argument[1], flags)
        elif operation is _constants.AT:
            self.place(argument, flags)
        else:
            raise RegexError(f"error parsing regexp: invalid or unsupported Perl syntax: `{self.expression}`")

    def folded(self, wanted: set[int], flags: int) -> set[int]:
        if max(wanted, default=0) > 127:
            raise RegexError(f"regexp `{self.expression}` has a class with characters that are not ASCII, which needs a fastdns that was built with libre2")
        return wanted | {code ^ 32 for code in wanted if chr(code).isalpha()} if flags & re.IGNORECASE else wanted

    def members(self, items: Any, flags: int) -> None:
        wanted: set[int] = set()
        negated = False
        for operation, argument in items:
            if operation is _constants.NEGATE:
                negated = True
            elif operation is _constants.LITERAL:
                wanted |= self.folded({argument}, flags)
            elif operation is _constants.RANGE:
                wanted |= self.folded(set(range(argument[0], argument[1] + 1)), flags)
            else:
                wanted |= CATEGORIES[argument]
        self.octet(set(range(256)) - wanted if negated else wanted, 0)

    def repeat(self, least: int, most: Any, inner: Any, lazy: bool, flags: int) -> None:
        if least > 1000 or (most is not _constants.MAXREPEAT and most > 1000):
            raise RegexError(f"error parsing regexp: invalid repeat count: `{self.expression}`")
        for _ in range(least):
            self.sequence(inner, flags)
        if most is _constants.MAXREPEAT:
            split = self.add(SPLIT)
            self.sequence(inner, flags)
            self.add(JUMP, split)
            self.choose(split, split + 1, len(self.code), lazy)
            return
        splits = []
        for _ in range(most - least):
            splits.append(self.add(SPLIT))
            self.sequence(inner, flags)
        for split in splits:
            self.choose(split, split + 1, len(self.code), lazy)

    def choose(self, split: int, onward: int, away: int, lazy: bool) -> None:
        self.code[split][1:] = [away, onward] if lazy else [onward, away]

    def branches(self, branches: Any, flags: int) -> None:
        jumps = []
        for branch in branches[:-1]:
            split = self.add(SPLIT)
            self.sequence(branch, flags)
            jumps.append(self.add(JUMP))
            self.choose(split, split + 1, len(self.code), False)
        self.sequence(branches[-1], flags)
        for jump in jumps:
            self.code[jump][1] = len(self.code)

    def place(self, argument: Any, flags: int) -> None:
        lines = flags & re.MULTILINE
        if argument in (_constants.AT_BEGINNING, _constants.AT_BEGINNING_STRING):
            where = "line begin" if lines and argument is _constants.AT_BEGINNING else "text begin"
        elif argument in (_constants.AT_END, _constants.AT_END_STRING):
            where = "line end" if lines and argument is _constants.AT_END else "text end"
        else:
            where = "word edge" if argument is _constants.AT_BOUNDARY else "no word edge"
        self.add(ASSERT, PLACES[where])


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
                raise RegexError(f"regexp `{expression}` uses Unicode classes, which needs a fastdns that was built with libre2")
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
        out.append(char)
        at += 1
    return "".join(out)
