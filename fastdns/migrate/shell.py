"""Commands for a shell, and texts for a terminal, out of names that somebody else chose."""

from __future__ import annotations

import json
import shlex

__all__ = ["command", "compact", "document", "plain"]

#: In place of a command with a word that no API server accepts as a name.
REFUSED = "# left out: a name in this command has characters that no name in Kubernetes has"


def plain(text: object) -> str:
    """A text of a stranger in one line, without what a terminal would take for a command."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in str(text))


def command(*words: str) -> str:
    """A line for a POSIX shell in which each word stands for itself."""
    if not all(word.isprintable() for word in words):
        return REFUSED
    return shlex.join(words)


def compact(value: object) -> str:
    """JSON in one line, of ASCII alone: a word for a patch."""
    return json.dumps(value, separators=(",", ":"))


def document(line: str, value: object) -> str:
    """A command that reads JSON. No line of JSON ends the document, because texts in it have no line ends."""
    if line == REFUSED:
        return line
    return f"{line} <<'EOF'\n{json.dumps(value, indent=1)}\nEOF"
