"""SkyDNS's messages: from a key and its value in etcd to the row of a record."""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import TYPE_CHECKING

from fastdns._wire import name_wire
from fastdns.plugins.etcd._snapshot import HOST_4, HOST_6, HOST_BROKEN, HOST_NAME, HOST_NONE, HOST_TEXT

if TYPE_CHECKING:
    from fastdns.plugins.etcd._snapshot import Row

__all__ = ["domain", "path_of", "row"]

STRINGS = ("host", "text", "group")
NUMBERS = {"port": 2**63, "priority": 2**63, "weight": 2**63, "ttl": 2**32, "targetstrip": 2**63}
#: What stands for no priority.
PRIORITY = 10
ERROR_OCTETS = 180
INT32 = 2**31


def path_of(prefix: str) -> str:
    """The path that all keys are below, with slashes around it: ``/skydns/``."""
    parts = [part for part in prefix.split("/") if part]
    return "/" + "".join(f"{part}/" for part in parts)


def domain(key: str) -> str:
    """The name that a whole key stands for: its parts in reverse order, without the first, which is the path's."""
    parts = [part for part in key.split("/")[1:] if part]
    return ".".join(reversed(parts[1:])) + "."


def row(path: str, key: bytes, value: bytes, lease: int) -> Row | None:
    """The row of a key below the path, ``lease`` the position of its lease or -1; None for a key that no name can have."""
    text = key.decode("utf-8", "replace")
    relative = key[len(path.encode()) :]
    if not relative or len(relative) > 254:
        return None
    try:
        fields = read(value)
    except ValueError as error:
        message = f"{text}: {error}".encode()[:ERROR_OCTETS] + b"\0"
        return relative, HOST_BROKEN, message, b"", b"", b"", b"", False, 0, -1, 0, 0, 0, 0, False
    host, txt = str(fields.get("host", "")), str(fields.get("text", ""))
    kind, ip = kind_of(host, txt)
    number = {name: clipped(fields.get(name, 0)) for name in ("port", "priority", "weight", "targetstrip")}
    return (
        relative,
        kind,
        wire(host) if host and not ip else b"",
        ip,
        wire(domain(text)),
        texts(txt),
        str(fields.get("group", "")).encode("utf-8", "replace")[:65535],
        bool(host),
        int(fields.get("ttl", 0)),
        lease,
        number["port"],
        number["priority"] or PRIORITY,
        number["weight"],
        min(max(number["targetstrip"], 0), 255),
        bool(fields.get("mail", False)),
    )


def read(value: bytes) -> dict[str, str | int | bool]:
    """The known members of a message, with names in lower case. Raises ValueError."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, dict):
        raise ValueError("not an object")
    fields: dict[str, str | int | bool] = {}
    for name, content in found.items():
        name = name.lower()
        if content is None:
            continue
        if name in STRINGS:
            wanted = isinstance(content, str)
        elif name in NUMBERS:
            least = 0 if name == "ttl" else -NUMBERS[name]
            wanted = type(content) is int and least <= content < NUMBERS[name]
        elif name == "mail":
            wanted = isinstance(content, bool)
        else:
            continue
        if not wanted:
            raise ValueError(f"cannot take {json.dumps(content)[:40]} as {name}")
        fields[name] = content
    return fields


def kind_of(host: str, text: str) -> tuple[int, bytes]:
    try:
        address = ip_address(host)
    except ValueError:
        return (HOST_TEXT if text else HOST_NAME if host else HOST_NONE), b""
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    return (HOST_4 if address.version == 4 else HOST_6), address.packed


def wire(name: str) -> bytes:
    """The wire form, or b"" for what is no name."""
    try:
        return name_wire(name if name.endswith(".") else name + ".")
    except ValueError:
        return b""


def texts(text: str) -> bytes:
    """The rdata of TXT: strings of 255 octets; b"" for no text, or one that no message holds."""
    octets = text.encode("utf-8", "replace")
    pieces = [octets[at : at + 255] for at in range(0, len(octets), 255)]
    rdata = b"".join(bytes([len(piece)]) + piece for piece in pieces)
    return rdata if len(rdata) <= 65000 else b""


def clipped(number: object) -> int:
    assert isinstance(number, int)  # noqa: S101 - read() saw to it
    return min(max(number, -INT32), INT32 - 1)
