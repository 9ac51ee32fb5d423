"""The profiles of pprof: samples of stacks, and how they become ``profile.proto`` (https://github.com/google/pprof/blob/main/proto/profile.proto)."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Frame", "Profile"]


class Frame(NamedTuple):
    """A line of a function; a name alone stands for what has no source."""

    name: str
    file: str = ""
    line: int = 0
    first_line: int = 0


class Profile:
    """Samples: stacks, innermost frame first, each with a value for every type."""

    def __init__(self, types: Sequence[tuple[str, str]], period: tuple[str, str, int] | None = None) -> None:
        """``types`` are (name, unit), the last one is shown first; ``period`` likewise with how much of it is between two samples."""
        self.types = types
        self.period = period
        self.samples: dict[tuple[Frame, ...], list[int]] = {}

    def add(self, stack: Iterable[Frame], *values: int) -> None:
        """Equal stacks become one."""
        standing = self.samples.setdefault(tuple(stack), [0] * len(self.types))
        for index, value in enumerate(values):
            standing[index] += value

    def encode(self, began: float = 0.0, seconds: float = 0.0) -> bytes:
        """Packed. ``began``: seconds since 1970."""
        return gzip.compress(self._message(began, seconds), 5, mtime=0)

    def _message(self, began: float, seconds: float) -> bytes:
        texts: dict[str, int] = {"": 0}
        functions: dict[tuple[str, str], int] = {}
        locations: dict[Frame, int] = {}
        parts: list[bytes] = []

        def text(word: str) -> int:
            return texts.setdefault(word, len(texts))

        def value_type(kind: tuple[str, str]) -> bytes:
            return number(1, text(kind[0])) + number(2, text(kind[1]))

        def location(frame: Frame) -> int:
            if frame not in locations:
                key = (frame.name, frame.file)
                if key not in functions:
                    functions[key] = len(functions) + 1
                    fields = number(1, functions[key]) + number(2, text(frame.name)) + number(3, text(frame.name))
                    parts.append(octets(5, fields + number(4, text(frame.file)) + number(5, frame.first_line)))
                locations[frame] = len(locations) + 1
                line = number(1, functions[key]) + number(2, frame.line)
                parts.append(octets(4, number(1, locations[frame]) + octets(4, line)))
            return locations[frame]

        for kind in self.types:
            parts.append(octets(1, value_type(kind)))
        for stack, values in self.samples.items():
            parts.append(octets(2, octets(1, b"".join(varint(location(frame)) for frame in stack)) + octets(2, b"".join(map(varint, values)))))
        if self.period is not None:
            parts.append(octets(11, value_type(self.period[:2])) + number(12, self.period[2]))
        parts.append(number(9, int(began * 1e9)) + number(10, int(seconds * 1e9)))
        parts += [octets(6, word.encode("utf-8", "replace")) for word in texts]
        return b"".join(parts)

    def text(self, title: str) -> str:
        """The same for people."""
        names = "/".join(name for name, _ in self.types)
        lines = [f"{title}: {len(self.samples)} stacks of {names}"]
        for stack, values in sorted(self.samples.items(), key=lambda sample: sample[1], reverse=True):
            lines += ["", " ".join(map(str, values)) + " @"]
            lines += [f"#\t{frame.name}" + (f"\t{frame.file}:{frame.line}" if frame.file else "") for frame in stack]
        return "\n".join(lines) + "\n"


# ---- protobuf ----


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def octets(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value
