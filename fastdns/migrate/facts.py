"""What a Corefile says, word for word: which directives it has, and what listens where."""

from __future__ import annotations

from fastdns.corefile import ServerBlock
from fastdns.corefile.lexer import Token, occurrences_of, starts_line
from fastdns.corefile.zone import DEFAULT_PORTS, split_host_port, split_transport

__all__ = ["Facts"]

#: Addresses of the pages where the Corefile says none.
PAGES = {"health": ":8080", "ready": ":8181", "prometheus": "localhost:9153"}


class Facts:
    """Of the server blocks of a Corefile with all its imports."""

    def __init__(self, blocks: list[ServerBlock], port: str) -> None:
        """``port`` is that of plain DNS where a key has none."""
        self.blocks = blocks
        self.directives = {name for block in blocks for name in block.tokens}
        keys = [split_transport(key) for block in blocks for key in block.keys]
        self.transports = {transport for transport, _ in keys}
        #: Ports of queries.
        self.ports = {_port(transport, rest, port) for transport, rest in keys}

    def lines(self, directive: str) -> list[list[list[str]]]:
        """The lines of each occurrence of a directive, without braces; the first one begins with its name."""
        return [_lines(words) for block in self.blocks if directive in block.tokens for words in occurrences_of(directive, block.tokens[directive])]

    def properties(self, directive: str) -> dict[str, list[str]]:
        """The arguments of each property in the blocks of a directive, of all its occurrences."""
        found: dict[str, list[str]] = {}
        for lines in self.lines(directive):
            for words in lines[1:]:
                found.setdefault(words[0], []).extend(words[1:])
        return found

    def words(self, directive: str) -> list[str]:
        """Every word of a directive's occurrences."""
        return [word.text for block in self.blocks for word in block.tokens.get(directive, [])]

    def place(self, directive: str) -> Token | None:
        """Where it stands first."""
        return next((block.tokens[directive][0] for block in self.blocks if directive in block.tokens), None)

    def addresses(self, page: str) -> set[tuple[str, int]]:
        """Host ("": all) and port of the pages of *health*, *ready* or *prometheus*."""
        found = set()
        for lines in self.lines(page):
            arguments = lines[0][1:]
            host, _, port = (arguments[0] if arguments else PAGES[page]).rpartition(":")
            if port.isdigit():
                found.add((host.strip("[]"), int(port)))
        return found


def _port(transport: str, key: str, port: str) -> int:
    try:
        written = split_host_port(key)[1]
    except ValueError:
        written = ""
    if written:
        return int(written)
    if transport == "dns":
        return int(port) if port.isdigit() else 53
    return int(DEFAULT_PORTS.get(transport) or 0)


def _lines(words: list[Token]) -> list[list[str]]:
    lines: list[list[Token]] = []
    for word in words:
        if not lines or starts_line(lines[-1][-1], word):
            lines.append([])
        lines[-1].append(word)
    texts = [[word.text for word in line if word.text not in ("{", "}")] for line in lines]
    return [line for line in texts if line]
