"""Lists of names as they are published: hosts files, lists of domains, response policy zones (RPZ). Each becomes entries of a map of names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from fastdns.plugin import BELOW, BOTH, EXACT, NameDraft, Record
from fastdns.protocol.parameters import TYPE_CNAME, TYPE_NS, TYPE_SOA
from fastdns.zonefile.parser import feed

__all__ = ["BLOCK", "DROP", "KINDS", "LOCAL", "NODATA", "NXDOMAIN", "READERS", "TCP", "Contents", "Local"]

#: What is done with a name: the directive's ``answer``, and what a response policy zone says.
BLOCK, NXDOMAIN, NODATA, DROP, TCP, LOCAL = range(6)
KINDS = 6

#: Names with records of their own in a list: they are Python objects.
LOCAL_MOST = 65_536
#: Characters of a line in the log.
SHOWN = 80

#: Records by wire form and scope.
Local = dict[tuple[bytes, int], list[Record]]

NAME = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
#: Characters of a name without its final dot.
NAME_MOST = 253
#: Addresses that stand for nothing in a hosts file.
NOWHERE = frozenset({"0.0.0.0", "127.0.0.1", "::", "::0", "::1", "0:0:0:0:0:0:0:0"})
#: What a hosts file says of the machine itself.
OWN = frozenset({"localhost", "localhost.localdomain", "local", "broadcasthost", "0.0.0.0",
                 "ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "ip6-allhosts"})  # fmt: skip
#: Types of DNSSEC, which a signed policy zone has.
SIGNATURES = frozenset({43, 46, 47, 48, 50, 51})
#: Last labels of the owners of other triggers than that by name.
TRIGGERS = (b"rpz-ip", b"rpz-nsip", b"rpz-nsdname", b"rpz-client-ip")
#: In wire form: targets of CNAME records that are actions.
ACTIONS = {b"\0": NXDOMAIN, b"\1*\0": NODATA, b"\x08rpz-drop\0": DROP, b"\x0crpz-tcp-only\0": TCP}
PASSTHRU = b"\x0crpz-passthru\0"


@dataclass
class Contents:
    """What a list has, as it is read into a draft."""

    draft: NameDraft
    #: The values of its names are this and the kind; None: they are exceptions.
    base: int | None
    local: Local = field(default_factory=dict)
    names: int = 0
    #: Lines and records that say nothing here, and the first one.
    ignored: int = 0
    first: str = ""
    #: Triggers of a response policy zone that are none by name: records by the trigger's label.
    triggers: dict[str, int] = field(default_factory=dict)

    def add(self, name: str | bytes, scopes: int, kind: int = BLOCK) -> None:
        """Raises ValueError for what is no name and where the map is full, MemoryError."""
        self.draft.add(name, 0 if self.base is None else self.base + kind, scopes)
        self.names += 1

    def ignore(self, line: str) -> None:
        if not self.ignored:
            self.first = line.strip()[:SHOWN]
        self.ignored += 1

    def add_text(self, name: str, scopes: int, line: str) -> None:
        """A word of a line; what is no name is ignored."""
        if not name.isascii():
            try:
                name = name.encode("idna").decode("ascii")
            except UnicodeError:
                name = ""
        if NAME.fullmatch(name) is None or len(name) > NAME_MOST:
            self.ignore(line)
        else:
            self.add(name, scopes)


def read_hosts(text: TextIO, contents: Contents) -> None:
    """``0.0.0.0 NAME...``, as in /etc/hosts: exactly these names."""
    for line in text:
        words = line.partition("#")[0].split()
        if not words:
            continue
        if words[0] not in NOWHERE or len(words) == 1:
            contents.ignore(line)
            continue
        for word in words[1:]:
            if word.lower() not in OWN:
                contents.add_text(word, EXACT, line)


def read_domains(text: TextIO, contents: Contents) -> None:
    """A name in each line, with all names below it; ``*.NAME`` is these alone, ``||NAME^`` is how ad blockers write it. ``#`` and ``!`` begin comments."""
    for line in text:
        name = line.strip()
        if not name or name[0] in "#![":
            continue
        if " " in name or "\t" in name:
            name, *rest = name.split(None, 1)
            if rest[0][0] != "#":
                contents.ignore(line)
                continue
        scopes = BOTH
        if name.startswith("||") and name.endswith("^"):
            name = name[2:-1]
        elif name.startswith("*."):
            name = name[2:]
            scopes = BELOW
        contents.add_text(name, scopes, line)


def read_rpz(text: TextIO, contents: Contents) -> None:
    """A master file with a response policy zone. Raises ValueError (ZoneFileError): it is read whole or not at all."""
    octets = text.read().encode("utf-8", "surrogateescape")
    found = re.search(rb"\$(?:include|generate)\b", octets, re.IGNORECASE)
    if found is not None:  # other files, and more records than octets
        raise ValueError(f"a list may not have {found[0].decode().upper()}")
    feed(octets, _PolicyZone(contents).take, ttl=300)


class _PolicyZone:
    """Records of a response policy zone, whose owners are below the owner of its SOA record."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.origin = b"\0"

    def take(self, owner: bytes, kind: int, klass: int, ttl: int, rdata: bytes) -> None:
        owner = owner.lower()
        if kind == TYPE_SOA:
            self.origin = owner
            return
        if kind in SIGNATURES or (kind == TYPE_NS and owner == self.origin):
            return
        name = _below(owner, self.origin)
        if name is None:
            self.contents.ignore(f"a record outside of the zone of the SOA record: {owner!r}")
            return
        trigger = _last_label(name)
        if trigger in TRIGGERS:
            text = trigger.decode()
            self.contents.triggers[text] = self.contents.triggers.get(text, 0) + 1
            return
        scopes = EXACT
        if name.startswith(b"\1*"):
            name, scopes = name[2:], BELOW
        self._add(name, scopes, kind, ttl, rdata)

    def _add(self, name: bytes, scopes: int, kind: int, ttl: int, rdata: bytes) -> None:
        contents = self.contents
        target = rdata.lower() if kind == TYPE_CNAME else b""
        if target in ACTIONS:
            contents.add(name, scopes, ACTIONS[target])
        elif target == PASSTHRU or (target == name and scopes == EXACT):  # the latter is how it was written first
            contents.draft.add(name, 0, scopes)
            contents.names += 1
        elif _last_label(target).startswith(b"rpz-"):
            contents.ignore(f"an action that is not known: CNAME {target!r}")
        elif (name, scopes) in contents.local:
            contents.local[name, scopes].append(Record(kind, rdata, ttl))
        elif len(contents.local) >= LOCAL_MOST:
            contents.ignore(f"local data for more than {LOCAL_MOST} names")
        else:
            contents.add(name, scopes, LOCAL)
            contents.local[name, scopes] = [Record(kind, rdata, ttl)]


def _below(owner: bytes, origin: bytes) -> bytes | None:
    """The name that the zone's owner stands for, in wire form; None: the owner is the zone itself, or not in it."""
    if origin == b"\0":
        return owner if len(owner) > 1 else None
    at = 0
    while len(owner) - at > len(origin):
        at += owner[at] + 1
    return owner[:at] + b"\0" if at and owner[at:] == origin else None


def _last_label(name: bytes) -> bytes:
    label = b""
    at = 0
    while at < len(name) and name[at]:
        label = name[at + 1 : at + 1 + name[at]]
        at += name[at] + 1
    return label


READERS: dict[str, Callable[[TextIO, Contents], None]] = {"hosts": read_hosts, "domains": read_domains, "rpz": read_rpz}
