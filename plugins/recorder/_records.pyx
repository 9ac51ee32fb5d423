"""Records as Python has them: which ones are wanted, and what they tell."""
from typing import NamedTuple

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from fastdns.api.network cimport socket_clock
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.plugins.recorder._record cimport (MARK_CLIENT, MARK_DROPPED, MARK_EDNS, MARK_NAME, MARK_OPTIONS, MARK_REFUSED, MARK_STREAM, MARK_WRITTEN,
                                               Asked as NativeAsked, Record, Wait)

EDNS = MARK_EDNS
WRITTEN = MARK_WRITTEN
UNSENT = MARK_DROPPED
CUT_OPTIONS = MARK_OPTIONS
HIDDEN_NAME = MARK_NAME
CUT_CLIENT = MARK_CLIENT
STREAM = MARK_STREAM
REFUSED = MARK_REFUSED


class Waited(NamedTuple):
    handler: int
    depth: int
    more: int
    at: float
    took: float


class Asked(NamedTuple):
    upstream: str
    at: float
    took: float
    fate: int
    rcode: int
    udp: bool


class Recorded(NamedTuple):
    received: int
    took: float
    id: int
    flags: int
    qtype: int
    qclass: int
    rcode: int
    reply_flags: int
    size: int
    transport: int
    client: bytes
    client_port: int
    local: bytes
    local_port: int
    name: bytes
    edns_size: int
    edns_flags: int
    edns_version: int
    options: bytes
    marks: int
    kind: int
    zone: int
    chain: int
    deepest: int
    writer: int
    waits: tuple
    upstream: str
    pair: tuple
    error: str
    notes: tuple
    packet: bytes
    reply: bytes


def hidden(bytes name not None):
    """The label that stands for a name, as the workers make it of the name in lower case."""
    cdef bytes lower = name.lower()
    return b"%016x" % hash_octets(<const uint8_t *>lower, <uint32_t>len(lower), hash_seed)


def clock():
    return socket_clock()


cdef inline uint32_t name_at(const Record *record) noexcept nogil:
    return <uint32_t>(sizeof(Record) + record.waits * sizeof(Wait) + record.client_length + record.local_length)


cdef bint has_name(const Record *record, const uint8_t *name, uint32_t length, const uint8_t *label) noexcept nogil:
    """In or below a name in lower case, or where it is hidden, that name itself."""
    cdef const uint8_t *own = <const uint8_t *>record + name_at(record)
    cdef uint32_t at = 0, i
    if record.marks & MARK_NAME and own[0] == 16 and memcmp(own + 1, label, 16) == 0:
        return True
    while record.name_length - at > length and own[at]:
        at += 1 + own[at]
    if record.name_length - at != length:
        return False
    for i in range(length):
        if (own[at + i] | 0x20 if 0x41 <= own[at + i] <= 0x5a else own[at + i]) != name[i]:
            return False
    return True


def split(bytes octets not None, bytes name not None, bytes client not None, int bits):
    cdef const uint8_t *data = <const uint8_t *>octets
    cdef const Record *record
    cdef const uint8_t *address
    cdef uint64_t at = 0, total = <uint64_t>len(octets)
    cdef bytes lower = name.lower(), label = hidden(name)
    cdef list found = []
    while at + sizeof(Record) <= total:
        record = <const Record *>(data + at)
        address = <const uint8_t *>record + sizeof(Record) + record.waits * sizeof(Wait)
        if ((not lower or has_name(record, <const uint8_t *>lower, <uint32_t>len(lower), <const uint8_t *>label))
                and (not client or is_within(address, record.client_length, client, bits))):
            found.append(octets[at:at + record.size])
        at += record.size
    return found


cdef bint is_within(const uint8_t *address, uint32_t length, bytes network, int bits):
    cdef int whole = bits // 8, rest = bits % 8
    if <uint32_t>len(network) != length or memcmp(address, <const uint8_t *>network, whole):
        return False
    return not rest or (address[whole] ^ (<const uint8_t *>network)[whole]) >> (8 - rest) == 0


def has_pair(bytes octets not None):
    return <uint64_t>len(octets) >= sizeof(Record) and (<const Record *><const uint8_t *>octets).pair_length != 0


def decode(bytes octets not None):
    cdef const Record *record = <const Record *><const uint8_t *>octets
    cdef const Wait *waits = <const Wait *>(<const uint8_t *>octets + sizeof(Record))
    cdef uint64_t at = sizeof(Record) + record.waits * sizeof(Wait)
    cdef list parts = []
    if <uint64_t>len(octets) < sizeof(Record) or record.size != <uint64_t>len(octets):
        raise ValueError("not a record")
    for length in (record.client_length, record.local_length, record.name_length, record.options_length, record.upstream_length, record.pair_length,
                   record.error_length, record.notes_length, record.packet_length, record.reply_length):
        parts.append(octets[at:at + <uint64_t>length])
        at += <uint64_t>length
    client, local, name, options, upstream, pair, error, notes, packet, reply = parts
    return Recorded(
        record.received, record.took / 1e9, record.id, record.flags, record.qtype, record.qclass, record.rcode, record.reply_flags, record.reply_size,
        record.transport, client, record.client_port, local, record.local_port, name, record.edns_size, record.edns_flags, record.edns_version, options,
        record.marks, record.kind, record.zone, record.chain, record.deepest, record.writer,
        tuple([Waited(waits[i].handler, waits[i].depth, waits[i].more, waits[i].at / 1e6, waits[i].took / 1e6) for i in range(record.waits)]),
        upstream.decode("utf-8", "replace"), pair_of(pair), error.decode("utf-8", "replace"), notes_of(notes), packet, reply)


cdef tuple pair_of(bytes octets):
    cdef NativeAsked asked
    cdef const uint8_t *at = octets
    found = []
    for _ in range(len(octets) // sizeof(NativeAsked)):
        memcpy(&asked, at, sizeof(NativeAsked))     # it may stand anywhere
        at += sizeof(NativeAsked)
        found.append(Asked((<bytes>asked.upstream).decode("utf-8", "replace"), asked.at / 1e6, asked.took / 1e6, asked.fate, asked.rcode, bool(asked.udp)))
    return tuple(found)


cdef tuple notes_of(bytes octets):
    found = []
    at = 0
    while at + 2 <= len(octets):
        length = octets[at + 1]
        found.append((octets[at], octets[at + 2:at + 2 + length].decode("utf-8", "replace")))
        at += 2 + length
    return tuple(found)
