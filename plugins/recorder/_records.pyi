"""Records of queries, as Python has them."""

from typing import NamedTuple

#: Bits of `Recorded.marks`: the query has an OPT; a plugin wrote the reply; nothing was sent; its EDNS options were left out; the name is hashed or
#: cut; the client's address is cut; it was a transfer; no server block has the name.
EDNS: int
WRITTEN: int
UNSENT: int
CUT_OPTIONS: int
HIDDEN_NAME: int
CUT_CLIENT: int
STREAM: int
REFUSED: int

class Waited(NamedTuple):
    """A handler waited: for an upstream, or for what a child of the query waited for."""

    #: Its position in the chain; 255: of another server block.
    handler: int
    #: Of the child that waited.
    depth: int
    #: Further waits that ``took`` counts as well.
    more: int
    #: Seconds after the query came.
    at: float
    took: float

class Asked(NamedTuple):
    """One of two upstreams that were asked the same."""

    upstream: str
    #: Seconds after the query came.
    at: float
    #: Seconds until its fate was known.
    took: float
    #: A number of `fastdns.plugins.recorder.question.FATES`.
    fate: int
    #: Of its reply.
    rcode: int
    #: The question went in UDP packets.
    udp: bool

class Recorded(NamedTuple):
    """A query and what became of it."""

    #: ns, of the clock of `clock`.
    received: int
    #: Seconds until the reply was complete.
    took: float
    id: int
    #: Of the query's header.
    flags: int
    qtype: int
    qclass: int
    rcode: int
    #: AA, RA, AD, TC of the reply, and of an upstream's also RD and CD.
    reply_flags: int
    #: Octets of the reply.
    size: int
    #: A number of `fastdns.plugins.recorder.question.TRANSPORTS`.
    transport: int
    #: Octets of the addresses.
    client: bytes
    client_port: int
    local: bytes
    local_port: int
    #: Wire form.
    name: bytes
    edns_size: int
    edns_flags: int
    edns_version: int
    options: bytes
    marks: int
    #: Where it is kept: a number of `fastdns.plugins.recorder.reading.KINDS`.
    kind: int
    #: For `_recorder.zone_of` and `_recorder.chain_of`.
    zone: int
    chain: int
    #: Positions in the chain: of the last handler that was asked, of the one that wrote the reply (255: none).
    deepest: int
    writer: int
    waits: tuple[Waited, ...]
    upstream: str
    #: Both, the first one asked first; empty: there were not two.
    pair: tuple[Asked, ...]
    # ---- of those that are kept longer alone ----
    error: str
    #: Positions of handlers, and what they tell `fastdns explain`.
    notes: tuple[tuple[int, str], ...]
    #: The messages as they were; empty: not kept.
    packet: bytes
    reply: bytes

def hidden(name: bytes) -> bytes:
    """The label that stands for a name in wire form where names are hashed."""

def clock() -> int:
    """ns, monotonic: what `Recorded.received` counts."""

def split(octets: bytes, name: bytes, client: bytes, bits: int) -> list[bytes]:
    """The single records of ``octets``: of names in or below ``name`` (wire form; empty: all), of clients in the network of ``bits`` bits (empty: all)."""

def has_pair(octets: bytes) -> bool:
    """Whether two upstreams were asked, according to a record."""

def decode(octets: bytes) -> Recorded:
    """A record. Raises ValueError when it is none."""
