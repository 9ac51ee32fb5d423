"""Fuzz target: a Corefile is parsed or refused with its place; its blocks, written with all words in quotes, are parsed as the same blocks."""

from __future__ import annotations

from fastdns.corefile.errors import CorefileError
from fastdns.corefile.lexer import Token, same_line
from fastdns.corefile.parser import ServerBlock, parse


def known(name: str) -> bool:
    return name.islower()


def quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def written(block: ServerBlock) -> str:
    """A block with each line of a directive as a line. Words that end in a backslash, or hold line ends, are as they were read only within quotes."""
    lines = [f"{' '.join(map(quoted, block.keys))} {{"]
    for words in block.tokens.values():
        line: list[str] = []
        before: Token | None = None
        for word in words:
            if before is not None and not same_line(before, word):
                lines.append(" ".join(line))
                line = []
            line.append(quoted(word.text))
            before = word
        lines.append(" ".join(line))
    return "\n".join([*lines, "}", ""])


def plain(text: str) -> bool:
    """Whether quotes bring a word back as it is: no reference to a variable, no backslash, no line end."""
    return not any(part in text for part in ("{$", "{%", "\\", "\n", "\r")) and text != ""


def check(octets: bytes) -> str:
    imports = octets.count(b"import")
    if imports > 2 or (imports and any(octet in octets for octet in b"/*?[")):  # of this machine's files, or of ten thousand snippets
        return ""
    try:
        blocks = parse(octets, "Corefile", known)
    except CorefileError as error:
        return "" if error.file and error.line >= 0 else f"an error without its place: {error}"
    words = [word.text for block in blocks for part in block.tokens.values() for word in part]
    keys = [key for block in blocks for key in block.keys]
    if (
        not all(map(plain, [*words, *keys]))
        or any(key.endswith(",") or key == "{" or key.startswith("(") for key in keys)
        or any(not block.keys or "import" in block.keys for block in blocks)
    ):
        return ""
    if "import" in words:
        return ""
    # A brace that a variable leaves is a word; written, it is a brace.
    if any(mark in octets for mark in (b"{$", b"{%")) and not {"{", "}"}.isdisjoint([*words, *keys]):
        return ""
    again = parse("".join(map(written, blocks)), "Corefile", known)
    return "" if [block.meaning() for block in again] == [block.meaning() for block in blocks] else "blocks that were written are parsed as others"
