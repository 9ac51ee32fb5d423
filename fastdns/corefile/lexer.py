"""Corefile text to tokens: words, quoted strings and comments."""

from __future__ import annotations

__all__ = ["Token", "decode", "occurrences_of", "same_line", "starts_line", "tokens"]

#: Unicode's White_Space property; ``str.isspace`` has more (U+001C to U+001F).
WHITESPACE = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))))


class Token:
    """A word of a Corefile. Quoted and unquoted words look alike from here on.

    ``line`` is where it starts, from 1; ``breaks`` counts the line ends inside it (of the text as written,
    before environment variables are filled in). ``origin`` is the file of ``import … skip_broken`` that brought the
    word, itself or by what it imports; "": the Corefile stands or falls with it.
    """

    __slots__ = ("breaks", "file", "line", "origin", "text")

    def __init__(self, file: str, line: int, text: str, breaks: int = 0, origin: str = "") -> None:
        self.file = file
        self.line = line
        self.text = text
        self.breaks = breaks
        self.origin = origin

    def __repr__(self) -> str:
        return f"Token({self.file!r}, {self.line}, {self.text!r})"


def decode(data: bytes) -> str:
    """The text of a Corefile: UTF-8, where a byte that is none becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def tokens(text: str, file: str) -> list[Token]:
    """All tokens of ``text``; ``file`` is its name in errors. Any text is accepted."""
    found: list[Token] = []
    line = 1
    position = 1 if text.startswith("\ufeff") else 0
    end = len(text)
    while position < end:
        char = text[position]
        if char in WHITESPACE:
            line += char == "\n"
            position += 1
        elif char == "#":
            position = _line_end(text, position)
        elif char == '"':
            begin = position + 1
            quotation, position = _quoted(text, begin)
            breaks = text.count("\n", begin, position)
            if quotation is not None:
                found.append(Token(file, line, quotation, breaks))
            line += breaks
        else:
            word, position = _word(text, position)
            found.append(Token(file, line, word))
    return found


def same_line(left: Token, right: Token) -> bool:
    """Whether ``right`` is on the line on which ``left`` ends."""
    return left.file == right.file and left.line + left.breaks == right.line


def occurrences_of(name: str, words: list[Token]) -> list[list[Token]]:
    """The words of each occurrence of a directive."""
    starts = [index for index, word in enumerate(words) if word.text == name and (index == 0 or not same_line(words[index - 1], word))]
    return [words[start:end] for start, end in zip(starts, [*starts[1:], len(words)], strict=True)]


def starts_line(left: Token, right: Token) -> bool:
    """Whether ``right`` begins a line after ``left``. Not the opposite of `same_line`: snippets bring lines from further up."""
    return left.file != right.file or left.line + left.breaks < right.line


def _line_end(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found


def _word(text: str, position: int) -> tuple[str, int]:
    """A word up to white space. A comment that touches it reaches only to the next blank, as in CoreDNS."""
    parts = []
    begin = position
    end = len(text)
    comment = False
    while position < end:
        char = text[position]
        if char == "\r" or (char == "#" and not comment):
            if not comment:
                parts.append(text[begin:position])
            comment = comment or char == "#"
            begin = position + 1
        elif char in WHITESPACE:
            break
        position += 1
    if not comment:
        parts.append(text[begin:position])
    return "".join(parts), position


def _quoted(text: str, position: int) -> tuple[str | None, int]:
    """The text up to the closing quote, and the position behind it. The end of the file closes a quote too, but an empty rest is not a token."""
    parts = []
    begin = position
    end = len(text)
    while position < end:
        char = text[position]
        if char == '"':
            parts.append(text[begin:position])
            return "".join(parts), position + 1
        if char == "\\" and position + 1 < end:
            if text[position + 1] == '"':
                parts.append(text[begin:position])
                begin = position + 1
            position += 1
        position += 1
    rest = text[begin:end]
    # A lone backslash at the very end escapes nothing and is lost.
    parts.append(rest[:-1] if _open_escape(rest) else rest)
    return "".join(parts) or None, end


def _open_escape(rest: str) -> bool:
    return (len(rest) - len(rest.rstrip("\\"))) % 2 == 1
