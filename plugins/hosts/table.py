"""Lines in the format of /etc/hosts, and the records they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastdns._wire import name_wire
from fastdns.corefile.address import packed, strip_scope
from fastdns.index.zone_list import ZoneList

__all__ = ["Entries", "records"]

A, PTR, AAAA = 1, 12, 28
WILDCARD = b"\1*"

#: Names of one address that a PTR answer can hold; block lists give thousands of names to 0.0.0.0.
NAMES_MAX = 4096

Record = tuple[int, int, bytes]


class Entries:
    """Addresses by name and names by address of one source, in the order of its lines. Names are lower-case wire form, addresses packed."""

    def __init__(self, lines: Iterable[str], zones: ZoneList, reverse: bool) -> None:
        """Lines without an address or a name are left out, and names outside the zones; ``reverse``: fill `names`."""
        self.a: dict[bytes, list[bytes]] = {}
        self.aaaa: dict[bytes, list[bytes]] = {}
        self.names: dict[bytes, list[bytes]] = {}
        self.wildcards = False
        everywhere = "." in zones.names
        for line in lines:
            words = line.partition("#")[0].split()
            if len(words) < 2 or (address := packed(strip_scope(words[0]))) is None:
                continue
            for word in words[1:]:
                try:
                    name = name_wire(word).lower()
                    if everywhere or zones.match(word) is not None:
                        self._add(name, address, reverse)
                except ValueError:
                    continue  # not a name

    def _add(self, name: bytes, address: bytes, reverse: bool) -> None:
        (self.a if len(address) == 4 else self.aaaa).setdefault(name, []).append(address)
        if name.startswith(WILDCARD):
            self.wildcards = True
        elif reverse:
            self.names.setdefault(address, []).append(name)

    def __len__(self) -> int:
        """Addresses and reverse names, as the metric counts them."""
        return sum(len(found) for table in (self.a, self.aaaa, self.names) for found in table.values())


def reverse_name(address: bytes) -> bytes:
    """The name below in-addr.arpa or ip6.arpa, in wire form (RFC 1035 3.5, RFC 3596 2.5)."""
    if len(address) == 4:
        labels = [str(octet).encode() for octet in reversed(address)]
        return b"".join(bytes([len(label)]) + label for label in labels) + b"\x07in-addr\x04arpa\0"
    return b"".join(b"\1%c" % digit for digit in reversed(address.hex().encode())) + b"\x03ip6\x04arpa\0"


def records(sources: list[Entries], ttl: int) -> Iterator[tuple[bytes, list[Record]]]:
    """Each owner name with its records: those of the sources one after the other.

    In each source and address family an explicit name beats the wildcard one label up.
    """
    reverse: dict[bytes, list[Record]] = {}
    for address in dict.fromkeys(address for source in sources for address in source.names):
        names = [name for source in sources for name in source.names.get(address, ())]
        reverse[reverse_name(address)] = [(PTR, ttl, name) for name in names[:NAMES_MAX]]
    for name in dict.fromkeys(name for source in sources for table in (source.a, source.aaaa) for name in table):
        parent = name[name[0] + 1 :]
        wildcard = WILDCARD + parent if len(parent) > 1 else name
        found: list[Record] = []
        for source in sources:
            found += [(A, ttl, address) for address in source.a.get(name) or source.a.get(wildcard) or ()]
            found += [(AAAA, ttl, address) for address in source.aaaa.get(name) or source.aaaa.get(wildcard) or ()]
        yield name, found + reverse.pop(name, [])
    yield from reverse.items()
