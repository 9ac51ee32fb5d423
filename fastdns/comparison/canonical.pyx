"""Replies in the form that is compared. The contract is in the .pxd."""
from typing import NamedTuple

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from fastdns.protocol.header cimport FLAG_AA, FLAG_TC, flags_rcode
from fastdns.protocol.rrtypes cimport TYPE_OPT, TYPE_RRSIG, TYPE_SOA, TYPE_TSIG
from fastdns.system.byteorder cimport store16
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns._wire cimport (MESSAGE_MAX, NAME_MAX, Message, Name, Section, WireRecord, wire_begin_records, wire_expand_rdata, wire_name_length,
                            wire_next_record, wire_parse_reply, wire_read_name)
from fastdns.zonefile.rdata cimport rdata_lower, rdata_valid

cdef enum:
    HEAD = NAME_MAX + 4         # octets of a canonical record in front of the rdata, at most: owner, type, class
    # RRSIG (RFC 4034 3.1): original TTL, expiration and inception are left out, and what follows the signer's name.
    SIGNATURE_TIMES = 4
    SIGNATURE_TAG = 16
    SIGNATURE_SIGNER = 18
    SOA_REST = 20               # serial, refresh, retry, expire, minimum (RFC 1035 3.3.13)


cdef int canonical_record(const uint8_t *message, uint32_t length, const WireRecord *record, uint8_t *out) noexcept nogil:
    """Writes owner, type, class and rdata; out has HEAD + MESSAGE_MAX octets. Returns the length, 0 for a record that is left aside, -1: malformed."""
    cdef Name owner
    cdef uint32_t at = record.owner, n
    cdef int size
    cdef uint8_t *rdata
    if record.section == 2 and (record.type == TYPE_OPT or record.type == TYPE_TSIG):
        return 0
    if wire_read_name(message, length, &at, &owner) < 0:
        return -1
    n = owner.length
    memcpy(out, owner.lower, n)
    store16(out + n, record.type)
    store16(out + n + 2, record.klass)
    rdata = out + n + 4
    size = wire_expand_rdata(message, length, record, rdata, MESSAGE_MAX)
    if size < 0:
        return -1
    if rdata_valid(record.type, rdata, <uint32_t>size):
        rdata_lower(record.type, rdata, <uint32_t>size)
        if record.type == TYPE_SOA and record.section == 1:
            memset(rdata + size - SOA_REST, 0, 4)
        elif record.type == TYPE_RRSIG:
            memset(rdata + SIGNATURE_TIMES, 0, SIGNATURE_TAG - SIGNATURE_TIMES)
            size = SIGNATURE_SIGNER + wire_name_length(rdata + SIGNATURE_SIGNER)
    return <int>n + 4 + size


cdef int digest_reply(const uint8_t *message, uint32_t length, Digest *digest) noexcept nogil:
    cdef uint8_t canonical[HEAD + MESSAGE_MAX]
    cdef Message parsed
    cdef Section section
    cdef WireRecord record
    cdef int status, n
    memset(digest, 0, sizeof(Digest))
    if wire_parse_reply(message, length, &parsed, NULL) < 0:
        return -1
    digest.rcode = code_of(&parsed)
    digest.flags = parsed.flags & (FLAG_AA | FLAG_TC)
    wire_begin_records(message, length, &parsed, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status <= 0:
            return status
        n = canonical_record(message, length, &record, canonical)
        if n < 0:
            return -1
        if n:
            digest.sections[record.section] += hash_octets(canonical, <uint32_t>n, hash_seed)


cdef inline uint16_t code_of(const Message *message) noexcept nogil:
    return <uint16_t>(flags_rcode(message.flags) | (message.edns.extended_rcode << 4 if message.edns.present else 0))


class Reply(NamedTuple):
    rcode: int
    authoritative: bool
    truncated: bool
    question: bytes
    qtype: int
    sections: tuple


def read_reply(bytes message not None):
    cdef uint8_t canonical[HEAD + MESSAGE_MAX]
    cdef Message parsed
    cdef Name name
    cdef Section section
    cdef WireRecord record
    cdef uint32_t length = <uint32_t>len(message), head
    cdef const uint8_t *octets = message
    cdef int status, n
    cdef tuple sections = (set(), set(), set())
    name.length = 0
    parsed.qtype = 0
    if wire_parse_reply(octets, length, &parsed, &name) < 0:
        raise ValueError("malformed message")
    wire_begin_records(octets, length, &parsed, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status == 0:
            break
        n = canonical_record(octets, length, &record, canonical) if status > 0 else -1
        if n < 0:
            raise ValueError("malformed record")
        if n:
            head = <uint32_t>wire_name_length(canonical)
            (<set>sections[<int>record.section]).add((canonical[:head], record.type, record.klass, canonical[head + 4:n]))
    return Reply(code_of(&parsed), bool(parsed.flags & FLAG_AA), bool(parsed.flags & FLAG_TC), name.lower[:name.length], parsed.qtype,
                 tuple([frozenset(records) for records in sections]))


def same(bytes a not None, bytes b not None):
    cdef Digest left, right
    return (digest_reply(a, <uint32_t>len(a), &left) == 0 and digest_reply(b, <uint32_t>len(b), &right) == 0 and digest_equal(&left, &right))
