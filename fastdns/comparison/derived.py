"""Questions that tell two Corefiles apart, where none are recorded: made of the zones and names that are written in them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network

from fastdns._wire import name_wire
from fastdns.corefile.lexer import Token
from fastdns.corefile.parser import ServerBlock
from fastdns.corefile.zone import origins
from fastdns.protocol.header import FLAG_RD
from fastdns.protocol.parameters import TYPE_A, TYPE_AAAA, TYPE_NS, TYPE_OPT, TYPE_PTR, TYPE_SOA, TYPE_TXT, type_number

__all__ = ["CLIENT", "derive", "packet"]

CLIENT = bytes((127, 0, 0, 1))
#: A label that no zone has.
PROBE = "fastdns-diff"
#: A word with a dot that may be a name: an address, a file and a duration are none.
NAME = re.compile(r"(?=.*[a-z])(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)+(?:[a-z](?:[a-z0-9-]{0,62}))?", re.I)
#: Questions for names that are below every zone of *kubernetes*.
CLUSTER = (("kubernetes.default.svc", "A"), ("dns-version", "TXT"))
REVERSE = (".in-addr.arpa.", ".ip6.arpa.")
CLIENTS_MOST, NAMES_MOST = 8, 5000


def derive(blocks: Iterable[ServerBlock]) -> Iterator[tuple[bytes, bytes]]:
    """Questions and clients: for each name addresses, SOA and NS, and a name below it that is not there."""
    blocks = list(blocks)
    words = [word for block in blocks for tokens in block.tokens.values() for word in tokens]
    names = dict.fromkeys(name for block in blocks for key in block.keys for name in origins(key))
    cluster = [zone for block in blocks if "kubernetes" in block.tokens for zone in names if zone != "." and not zone.endswith(REVERSE)]
    names |= dict.fromkeys(f"{word.text.lower().removesuffix('.')}." for word in words if NAME.fullmatch(word.text))
    clients = clients_of(words)
    for name in list(names)[:NAMES_MOST]:
        below = f"{PROBE}.{name}" if name != "." else f"{PROBE}."
        types = (TYPE_PTR, TYPE_A) if name.endswith(REVERSE) else (TYPE_A, TYPE_AAAA)
        for client in clients:
            for asked, qtypes in ((name, (*types, TYPE_SOA, TYPE_NS, TYPE_TXT)), (below, types)):
                if len(asked) < 250:
                    yield from ((packet(asked, qtype), client) for qtype in qtypes)
    for zone in cluster:
        yield from ((packet(f"{label}.{zone}", type_number(qtype)), clients[0]) for label, qtype in CLUSTER)


def clients_of(words: Iterable[Token]) -> list[bytes]:
    """This machine, and the first host of each network that a Corefile names: of *acl*, *view* and their like."""
    found = {CLIENT: True}
    for word in words:
        for text in re.split(r"[\s'\"(),]+", word.text):
            try:
                network = ip_network(text, strict=False) if "/" in text else None
            except ValueError:
                continue
            if network is not None and network.num_addresses > 1:
                found[ip_address(int(network.network_address) + 1).packed if network.version == 4 else network[1].packed] = True
    return list(found)[:CLIENTS_MOST]


def packet(name: str, qtype: int, edns: bool = False, flags: int = FLAG_RD, edns_flags: int = 0) -> bytes:
    """A query with id 0. Raises ValueError for what is no name."""
    opt = b"\0" + struct.pack("!HHIH", TYPE_OPT, 1232, edns_flags, 0) if edns else b""
    return struct.pack("!6H", 0, flags, 1, 0, 0, int(edns)) + name_wire(name) + struct.pack("!2H", qtype, 1) + opt
