"""Kinds of replies. The contract is in message/typify.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.time cimport time
from fastdns.message.reply cimport Record, Reply
from fastdns.protocol.header cimport flags_opcode, flags_rcode
from fastdns._wire cimport EDNS_DO, TYPE_OPT, TYPE_RRSIG, Message, Section, WireRecord, wire_begin_records, wire_next_record, wire_parse_reply

cdef enum:
    AGE_DEFAULT = 5             # seconds; of errors, delegations and replies without records
    AGE_MAX = 3600


cdef bint reply_signatures_expired(const Reply *reply) noexcept nogil:
    cdef uint32_t i, now = <uint32_t>time(NULL)
    cdef const Record *record
    for i in range(reply.count):
        record = &reply.records[i]
        if record.type == TYPE_RRSIG and not rrsig_valid(record.rdata, record.rdlength, now):
            return True
    return False


cdef ReplyKind reply_kind(const Reply *reply, uint16_t qtype, int opcode) noexcept nogil:
    cdef ReplySummary summary
    reply_summarize(reply, &summary)
    return reply_kind_of(reply, &summary, qtype, opcode)


def max_age(bytes reply not None) -> int:
    cdef const uint8_t *octets = reply
    cdef Message message
    cdef Section section
    cdef WireRecord record
    cdef ReplySummary summary
    cdef ReplyKind kind
    cdef uint32_t now = <uint32_t>time(NULL), records = 0
    cdef uint16_t rcode
    cdef bint expired = False
    if wire_parse_reply(octets, <uint32_t>len(reply), &message, NULL) < 0:
        return AGE_DEFAULT
    summary_begin(&summary)
    wire_begin_records(octets, <uint32_t>len(reply), &message, &section)
    while wire_next_record(&section, &record) == 1:
        if record.type == TYPE_OPT:
            continue
        records += 1
        summary_add(&summary, record.section, record.type, record.ttl)
        expired |= record.type == TYPE_RRSIG and not rrsig_valid(octets + record.rdata, record.rdlength, now)
    rcode = flags_rcode(message.flags)
    if message.edns.present:
        rcode |= <uint16_t>message.edns.extended_rcode << 4
    expired = expired and message.edns.present and message.edns.flags & EDNS_DO
    kind = typify(&summary, rcode, message.qtype, flags_opcode(message.flags), expired)
    if records == 0 or kind != KIND_NOERROR and kind != KIND_NAMEERROR and kind != KIND_NODATA:
        return AGE_DEFAULT
    return min(summary.least_ttl, AGE_MAX)
