"""Shared secrets: from the Corefile, and from files in BIND's format."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator

from fastdns.corefile.errors import CorefileError, quoted

__all__ = ["decoded", "normal", "parse_keys"]


def normal(name: str) -> str:
    """A key's name in lower case, with a final dot."""
    return name.lower() if name.endswith(".") else name.lower() + "."


def decoded(secret: str) -> bytes | None:
    """The octets of a secret in base64; None where it is none."""
    try:
        return base64.b64decode(secret, validate=True)
    except (binascii.Error, ValueError):
        return None


def parse_keys(text: str) -> dict[str, str]:
    """Names and secrets of ``key "name" { algorithm x; secret "y"; };`` blocks, one statement a line. Raises CorefileError."""
    keys: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line, words in _words(lines):
        if words[0] != "key":
            raise CorefileError(f"unexpected token {quoted(words[0])}")
        name = words[1].strip('"{') if len(words) > 1 else ""
        if not name:
            raise CorefileError(f"expected key name {quoted(line)}")
        name = normal(name)
        if name in keys:
            raise CorefileError(f"key {quoted(name)} redefined")
        secret = _secret(lines)
        if secret is None:
            raise CorefileError(f"expected secret for key {quoted(name)}")
        keys[name] = secret
    return keys


def _secret(lines: Iterator[str]) -> str | None:
    """Of the block that the lines go on with; the last one counts."""
    found = None
    for line, words in _words(lines):
        match words[0]:
            case "algorithm":
                pass
            case "secret":
                found = words[1].strip('";') if len(words) > 1 else ""
                if not found:
                    raise CorefileError(f"expected secret key {quoted(line)}")
            case "}" | "};":
                break
            case other:
                raise CorefileError(f"unexpected token {quoted(other)}")
    return found


def _words(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Lines that are not empty, with their words."""
    for line in lines:
        words = line.split()
        if words:
            yield line, words
