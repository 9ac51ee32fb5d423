"""Environment variables inside tokens: ``{%NAME%}`` and ``{$NAME}``."""

from __future__ import annotations

import os

__all__ = ["MAX_EXPANDED", "fill"]

#: Octets up to which values that contain references are expanded again. CoreDNS has no bound and hangs on a self-reference.
MAX_EXPANDED = 1 << 16
MAX_REPLACEMENTS = 1000


def fill(text: str) -> str:
    """``text`` with its references replaced; an unset variable is empty. Raises ValueError for values that never end."""
    if "{" not in text:
        return text
    return _fill(_fill(text, "{%", "%}"), "{$", "}")


def _fill(text: str, opening: str, closing: str) -> str:
    for _ in range(MAX_REPLACEMENTS):
        begin = text.find(opening)
        if begin < 0:
            return text
        end = text.find(closing, begin)
        if end < 0 or end <= begin + len(opening):  # an empty reference ends the work on this token
            return text
        name = text[begin + len(opening) : end]
        # A name that the system cannot hold is not set.
        value = "" if "\0" in name or "=" in name else os.environ.get(name, "")
        text = text.replace(text[begin : end + len(closing)], value)
        if len(text) > MAX_EXPANDED and opening in value:
            break
    raise ValueError(f"environment variables in '{text[:60]}' refer to each other without end")
