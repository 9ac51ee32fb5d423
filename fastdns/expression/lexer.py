"""Tokens of expressions (expr-lang 1.17)."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["EOF", "ExpressionError", "Token", "tokens"]

#: Words that are operators.
WORDS = frozenset(("not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else"))

PARTS = re.compile(
    r"""(?P<space>\s+|//[^\n]*(?:\n|$)|/\*.*?\*/)
      |(?P<bytes>[bB](?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
      |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      |(?P<raw>`(?:[^`]|``)*`)
      |(?P<number>0[xX][0-9a-fA-F_]*|0[oO][0-7_]*|0[bB][01_]*|(?:[0-9][0-9_]*(?:\.(?!\.)[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]*)?)
      |(?P<identifier>[^\W\d][\w$]*|\$[\w$]*)
      |(?P<bracket>[(){}\[\]])
      |(?P<operator>\?\.|\?\?|\?|\.\.|\.|\#|\|\||\||::|:|,|;|%|\+|-|\^|/|&&|&|!=|!|==|=|\*\*|\*|<=|<|>=|>)""",
    re.VERBOSE | re.DOTALL,
)

ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?"}
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.)|$)", re.DOTALL)


class ExpressionError(ValueError):
    """An expression is malformed. The text, with the position, is that of CoreDNS's library."""

    def __init__(self, message: str, source: str, at: int) -> None:
        before = source[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1)
        start = before.rfind("\n") + 1
        text = source[start:].partition("\n")[0]
        snippet = "\n | {}\n | {}^".format(text.replace("\t", " "), "." * column) if text else ""
        super().__init__(f"{message} ({line}:{column + 1}){snippet}" if text else message)


class Token(NamedTuple):
    #: "Identifier", "Number", "String", "Bytes", "Operator", "Bracket" or "EOF".
    kind: str
    value: str
    #: Offset in characters.
    at: int

    def __str__(self) -> str:
        return f"{self.kind}({go_quoted(self.value)})" if self.value else self.kind


EOF = "EOF"


def go_quoted(text: str) -> str:
    """The token as Go's %#v prints it."""
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char.isprintable():
            out.append(char)
        else:
            out.append({"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or f"\\x{ord(char):02x}")
    return '"' + "".join(out) + '"'


def tokens(source: str) -> list[Token]:
    """All tokens, EOF last. Raises ExpressionError."""
    found: list[Token] = []
    at = 0
    while at < len(source):
        match = PARTS.match(source, at)
        if match is None:
            raise _failure(source, at)
        kind, text = str(match.lastgroup), match[0]
        end = match.end()
        if kind == "number" and end < len(source) and (source[end].isalnum() or source[end] in "_$"):
            raise ExpressionError(f"bad number syntax: {go_quoted(source[at : end + 1])}", source, end)
        if kind == "identifier":
            found.append(Token("Operator" if text in WORDS else "Identifier", text, at))
        elif kind in ("string", "bytes"):
            value = _unescaped(text[1:-1], source, at + 1) if kind == "string" else _unescaped(text[2:-1], source, at + 2)
            found.append(Token(kind.capitalize(), value, at))
        elif kind == "raw":
            found.append(Token("String", text[1:-1].replace("``", "`"), at))
        elif kind != "space":
            found.append(Token(kind.capitalize(), text, at))
        at = end
    found.append(Token(EOF, "", max(len(source) - 1, 0)))
    return found


def _failure(source: str, at: int) -> ExpressionError:
    char = source[at]
    if char in "'\"`":
        return ExpressionError("literal not terminated", source, len(source))
    if source.startswith("/*", at):
        return ExpressionError("unclosed comment", source, len(source))
    shown = f" '{char}'" if char.isprintable() else ""
    return ExpressionError(f"unrecognized character: U+{ord(char):04X}{shown}", source, at)


def _unescaped(text: str, source: str, at: int) -> str:
    def one(match: re.Match[str]) -> str:
        for number, base in ((1, 16), (2, 16), (3, 16), (4, 16), (5, 8)):
            if match[number]:
                code = int(match[number], base)
                if code > 0x10FFFF:
                    break
                return chr(code)
        if match[6] in ESCAPES:
            return ESCAPES[match[6]]
        raise ExpressionError("invalid char escape", source, at + match.start() + 1)

    return ESCAPE.sub(one, text)
