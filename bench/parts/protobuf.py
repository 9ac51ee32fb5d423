"""Kubernetes objects in protobuf, as an API server encodes them (protobuf.dev/programming-guides/encoding, k8s.io/apimachinery's runtime.Unknown)."""

from __future__ import annotations

import struct
from collections.abc import Mapping

__all__ = ["CONTENT_TYPE", "entries", "envelope", "event", "message", "varint"]

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"

Value = bytes | str | int


def varint(number: int) -> bytes:
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    return bytes([*octets, number])


def message(*fields: tuple[int, Value]) -> bytes:
    """Pairs of field number and value."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            octets = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(octets)) + octets)
    return b"".join(parts)


def entries(number: int, mapping: Mapping[str, str]) -> list[tuple[int, Value]]:
    """The fields of a map."""
    return [(number, message((1, key), (2, value))) for key, value in mapping.items()]


def envelope(api_version: str, kind: str, length: int) -> bytes:
    """What comes before an object of so many octets."""
    return MAGIC + message((1, message((1, api_version), (2, kind)))) + varint(2 << 3 | 2) + varint(length)


def event(what: str, api_version: str, kind: str, length: int) -> bytes:
    """What comes before an object of so many octets in a watch: ``what`` has happened to it."""
    head = envelope(api_version, kind, length)
    raw = varint(1 << 3 | 2) + varint(len(head) + length) + head
    whole = message((1, what)) + varint(2 << 3 | 2) + varint(len(raw) + length) + raw
    return struct.pack(">I", len(whole) + length) + whole
