"""The kind of a reply and its lowest TTL: CoreDNS's response.Typify and dnsutil.MinimalTTL.

Used by *cache*, *dnssec*, *dns64*, *log*, *minimal* and DNS over HTTPS.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.message.reply cimport SECTION_ANSWER, SECTION_AUTHORITY, Reply
from fastdns._wire cimport (EDNS_DO, OPCODE_NOTIFY, OPCODE_UPDATE, RCODE_NOERROR, RCODE_NOTIMP, RCODE_NXDOMAIN, RCODE_SERVFAIL, TYPE_AXFR, TYPE_IXFR,
                            TYPE_NS, TYPE_SOA, load32)

cdef enum ReplyKind:
    KIND_NOERROR
    KIND_NAMEERROR
    KIND_NODATA
    KIND_SERVERERROR
    KIND_DELEGATION
    KIND_META
    KIND_UPDATE
    KIND_OTHERERROR

cdef struct ReplySummary:       # of all records of a reply, the OPT excepted
    uint32_t least_ttl          # seconds; 0xFFFFFFFF: no records
    uint8_t answers             # the answer section has records
    uint8_t soa                 # the authority section has a SOA
    uint8_t ns                  # the authority section has NS records

cdef inline void summary_begin(ReplySummary *summary) noexcept nogil:
    summary.least_ttl = 0xFFFFFFFF
    summary.answers = 0
    summary.soa = 0
    summary.ns = 0

cdef inline void summary_add(ReplySummary *summary, int section, uint16_t type, uint32_t ttl) noexcept nogil:
    """Adds one record to the summary. The caller leaves out the OPT. ttl: seconds."""
    if ttl < summary.least_ttl:
        summary.least_ttl = ttl
    if section == SECTION_ANSWER:
        summary.answers = 1
    elif section == SECTION_AUTHORITY:
        if type == TYPE_SOA:
            summary.soa = 1
        elif type == TYPE_NS:
            summary.ns = 1

cdef inline void reply_summarize(const Reply *reply, ReplySummary *summary) noexcept nogil:
    cdef uint32_t i
    summary_begin(summary)
    for i in range(reply.count):
        summary_add(summary, reply.records[i].section, reply.records[i].type, reply.records[i].ttl)

cdef inline bint rrsig_valid(const uint8_t *rdata, uint32_t rdlength, uint32_t now) noexcept nogil:
    """Whether `now` (Unix seconds) is in an RRSIG's validity period, both ends included, by serial number arithmetic (RFC 4034 3.1.5).
    Expiration is in octets 8 to 11, inception in 12 to 15. Shorter rdata is never valid."""
    return rdlength >= 16 and <int>(load32(rdata + 8) - now) >= 0 and <int>(now - load32(rdata + 12)) >= 0

cdef inline ReplyKind typify(const ReplySummary *summary, uint16_t rcode, uint16_t qtype, int opcode, bint expired) noexcept nogil:
    """The kind of a reply. rcode: 12 bits; expired: DO is set and an RRSIG of the reply is outside its validity period."""
    if opcode == OPCODE_UPDATE:
        return KIND_UPDATE
    if opcode == OPCODE_NOTIFY or qtype == TYPE_AXFR or qtype == TYPE_IXFR:
        return KIND_META
    if expired:
        return KIND_OTHERERROR
    if summary.answers and rcode == RCODE_NOERROR:
        return KIND_NOERROR
    if summary.answers and rcode == RCODE_NXDOMAIN:
        return KIND_OTHERERROR
    if summary.soa and rcode == RCODE_NOERROR:
        return KIND_NODATA
    if rcode == RCODE_NXDOMAIN:
        return KIND_NAMEERROR
    if rcode == RCODE_SERVFAIL or rcode == RCODE_NOTIMP:
        return KIND_SERVERERROR
    if summary.ns and rcode == RCODE_NOERROR:
        return KIND_DELEGATION
    return KIND_NOERROR if rcode == RCODE_NOERROR else KIND_OTHERERROR

# Whether any RRSIG of the reply is outside its validity period now.
cdef bint reply_signatures_expired(const Reply *reply) noexcept nogil

cdef inline ReplyKind reply_kind_of(const Reply *reply, const ReplySummary *summary, uint16_t qtype, int opcode) noexcept nogil:
    """reply_kind for a caller that already has the summary."""
    return typify(summary, reply.rcode, qtype, opcode, reply.edns.present and reply.edns.flags & EDNS_DO and reply_signatures_expired(reply))

# The kind of a reply to a query of this type and opcode.
cdef ReplyKind reply_kind(const Reply *reply, uint16_t qtype, int opcode) noexcept nogil
