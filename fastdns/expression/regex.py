"""Regular expressions of the Corefile: RE2's syntax as in Go, and Go's error texts. `fastdns.expression.matcher` compiles and matches them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fastdns.expression.matcher import Regex

__all__ = ["LENGTH_MAX", "RegexError", "compile", "required"]

#: Octets of the longest expression.
LENGTH_MAX = 10000

#: Reasons for which Go's error text has the whole expression.
WHOLE = ("missing closing )", "expression too large", "invalid UTF-8")

#: Greatest count of a repetition.
REPEAT_MAX = 1000


class RegexError(ValueError):
    """The expression is malformed; the text is Go's."""


#: One token. A token that the end of the expression truncates matches too.
TOKEN = re.compile(
    r"""
      \\Q (?P<quoted> .*?) (?: \\E | \Z)
    | \\ (?: [pP] (?: \{ [^}]* \}? | . )? | x \{ [^}]* \}? | x .{0,2} | [0-7]{1,3} | (?P<escaped> .) )?
    | \[ (?: \\? (?P<member> [^\w\\^\]] ) \] | \^? \]? (?: \[: [^\]]* :\] | \\. | [^\]\\] )* \]? )
    | \( \? (?P<P> P?) < (?P<name> [^>]*) (?P<closed> >?)
    | \( \? (?P<flags> [a-zA-Z-]*) (?P<group> .?)
    | (?P<repeat> [*+?] \?? | \{ (?P<least> 0 | [1-9]\d* ) (?: , (?P<most> 0 | [1-9]\d* )? )? \} \?? )
    | (?P<other> .)
    """,
    re.DOTALL | re.VERBOSE | re.ASCII,
)
NAME = re.compile(r"\w+", re.ASCII)


def compile(expression: str) -> Regex:  # noqa: A001
    """Compile an expression; its ``search`` is unanchored. Raises RegexError."""
    spelling, refused = _spell(expression)
    try:
        compiled = Regex(expression, spelling, (b"", NOWHERE) if refused else required(expression))
    except ValueError as error:
        reason, argument = error.args
        # The part before a refused token can have open groups.
        if not refused or reason != "missing closing )":
            refused = reason, expression if reason in WHOLE else argument
    if refused:
        raise RegexError(f"error parsing regexp: {refused[0]}: `{refused[1]}`") from None
    return compiled


def _spell(expression: str) -> tuple[str, tuple[str, str] | None]:
    """The expression in the syntax of all versions of RE2, up to the first token that only Go refuses, with Go's reason and the refused part."""
    out: list[str] = []
    depth = 0
    for token in TOKEN.finditer(expression):
        text = token[0]
        if text == r"\C":
            return "".join(out), ("invalid escape sequence", text)
        if text == ")" and depth == 0:
            return "".join(out), ("unexpected )", expression)
        least = int(token["least"] or 0)
        if max(least, most := int(token["most"] or least)) > REPEAT_MAX or least > most:
            return "".join(out), ("invalid repeat count", text.removesuffix("?"))
        depth += text.startswith("(") - (text == ")" or token["group"] == ")")
        if token["closed"] or token["name"]:
            if not token["closed"]:
                return "".join(out), ("invalid named capture", expression[token.start() :])
            if not NAME.fullmatch(token["name"]):
                return "".join(out), ("invalid named capture", text)
            text = f"(?P<{token['name']}>"  # older RE2 has no (?<name>
        out.append(text)
    return "".join(out), None


# ---- literals ----

#: Position of the literal in every match: `LiteralPlace` of expression/matcher.pxd.
NOWHERE, ANYWHERE, FIRST, LAST = range(4)

#: A required octet, or one of: begin of the text, end of the text, anything else.
Part = int | str


def required(expression: str) -> tuple[bytes, int]:
    """Octets that every matching text contains, and their position. Texts without them are rejected without RE2.

    The expression must be well formed. ``(b"", NOWHERE)`` when there are none.
    """
    runs = list(_runs(_parts(expression)))
    for place in (LAST, FIRST, ANYWHERE):
        found = max((text for text, where in runs if where == place or place == ANYWHERE), key=len, default=b"")
        if 2 <= len(found) <= 255:
            return found, place
    return b"", NOWHERE


def _parts(expression: str) -> list[Part]:
    """The sequence of parts that an expression matches; [] when it has flags or alternatives."""
    groups: list[list[list[Part]]] = [[]]  # by depth: the units that a following repetition applies to
    opaque = [False]
    for token in TOKEN.finditer(expression):
        text = token[0]
        units = groups[-1]
        if text == ")":
            inner = [part for unit in groups.pop() for part in unit]
            groups[-1].append(["other"] if opaque.pop() else inner)
        elif token["group"] == ")":
            if set(token["flags"]) & set("im"):
                return []
        elif text[0] == "(":
            groups.append([])
            opaque.append(bool(token["flags"]))
        elif text == "|":
            opaque[-1] = True
        elif token["repeat"]:
            units[-1:] = [["other"]]
        else:
            units += [[part] for part in _units(token)]
    return [] if opaque[0] else [part for unit in groups[0] for part in unit]


def _units(token: re.Match[str]) -> Iterator[Part]:
    """The parts of a token that is neither a group nor a repetition."""
    text = token[0]
    literal = token["member"] or (token["quoted"] if text.startswith(r"\Q") else token["escaped"] or token["other"])
    if text in ("^", r"\A"):
        yield "begin"
    elif text in ("$", r"\z"):
        yield "end"
    elif literal is None or text == "." or (token["escaped"] and literal.isalnum()):
        yield "other"
    else:
        yield from (ord(char) if char.isascii() else "other" for char in literal)


def _runs(parts: Iterable[Part]) -> Iterator[tuple[bytes, int]]:
    """Runs of adjacent octets, and whether the begin or the end of the text is next to them."""
    run = bytearray()
    before = "other"
    for part in [*parts, "other"]:
        if isinstance(part, int):
            run.append(part)
            continue
        if run:
            yield bytes(run), LAST if part == "end" else FIRST if before == "begin" else ANYWHERE
            run.clear()
        before = part
