"""What DNS over HTTPS has to know of a reply; see fronts/max_age.pyi."""
from libc.stdint cimport uint8_t, uint32_t
from libc.time cimport time
from fastdns._wire cimport (EDNS_DO, RCODE_NOERROR, RCODE_NXDOMAIN, TYPE_AXFR, TYPE_IXFR, TYPE_NS, TYPE_OPT, TYPE_RRSIG, TYPE_SOA, Message, Section,
                            WireRecord, load32, wire_begin_records, wire_next_record, wire_parse_reply)
from fastdns.protocol.header cimport OPCODE_NOTIFY, OPCODE_UPDATE, flags_opcode, flags_rcode

cdef enum:
    AGE_DEFAULT = 5             # seconds, for what is an error, a delegation or has no records
    AGE_MAX = 3600
    SECTION_ANSWER = 0
    SECTION_AUTHORITY = 1


def max_age(bytes reply not None) -> int:
    cdef const uint8_t *octets = reply
    cdef Message message
    cdef Section section
    cdef WireRecord record
    cdef uint32_t length = <uint32_t>len(reply), age = AGE_MAX, answers = 0, records = 0, opcode, rcode
    cdef uint32_t now = <uint32_t>time(NULL)
    cdef bint has_soa = False, has_ns = False, expired = False
    if wire_parse_reply(octets, length, &message, NULL) < 0:
        return AGE_DEFAULT
    opcode = flags_opcode(message.flags)
    rcode = flags_rcode(message.flags)
    wire_begin_records(octets, length, &message, &section)
    while wire_next_record(&section, &record) == 1:
        if record.type == TYPE_OPT:
            continue
        records += 1
        answers += record.section == SECTION_ANSWER
        if record.section == SECTION_AUTHORITY:
            has_soa |= record.type == TYPE_SOA
            has_ns |= record.type == TYPE_NS
        if record.type == TYPE_RRSIG and record.rdlength >= 16:
            expired |= <int>(now - load32(octets + record.rdata + 8)) > 0 or <int>(now - load32(octets + record.rdata + 12)) < 0
        age = min(age, record.ttl)
    if records == 0 or opcode == OPCODE_UPDATE or opcode == OPCODE_NOTIFY or message.qtype == TYPE_AXFR or message.qtype == TYPE_IXFR:
        return AGE_DEFAULT
    if expired and message.edns.present and message.edns.flags & EDNS_DO:
        return AGE_DEFAULT
    if rcode == RCODE_NXDOMAIN and not answers:
        return age
    if rcode != RCODE_NOERROR or not answers and not has_soa and has_ns:
        return AGE_DEFAULT
    return age
