"""What kind of reply a message is, and for how long it holds: CoreDNS's response.Typify and dnsutil.MinimalTTL.

*cache*, *dnssec*, *dns64*, *log*, *minimal* and DNS over HTTPS go by the kind.
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

cdef struct Tally:              # what one look through the records tells
    uint32_t least_ttl          # seconds; 0xFFFFFFFF: no records
    uint8_t answers             # there are records in the answer section
    uint8_t soa                 # in the authority section, like the next
    uint8_t ns

cdef inline void tally_begin(Tally *tally) noexcept nogil:
    tally.least_ttl = 0xFFFFFFFF
    tally.answers = 0
    tally.soa = 0
    tally.ns = 0

cdef inline void tally_add(Tally *tally, int section, uint16_t type, uint32_t ttl) noexcept nogil:
    """One record; not the OPT."""
    if ttl < tally.least_ttl:
        tally.least_ttl = ttl
    if section == SECTION_ANSWER:
        tally.answers = 1
    elif section == SECTION_AUTHORITY:
        if type == TYPE_SOA:
            tally.soa = 1
        elif type == TYPE_NS:
            tally.ns = 1

cdef inline void reply_tally(const Reply *reply, Tally *tally) noexcept nogil:
    cdef uint32_t i
    tally_begin(tally)
    for i in range(reply.count):
        tally_add(tally, reply.records[i].section, reply.records[i].type, reply.records[i].ttl)

cdef inline bint rrsig_valid(const uint8_t *rdata, uint32_t rdlength, uint32_t now) noexcept nogil:
    """Is `now` (Unix seconds) in an RRSIG's validity, both ends included? Serial arithmetic, RFC 4034 3.1.5. Expiration is in octets 8 to 11,
    inception in 12 to 15; without both, as in a record without rdata, nothing is valid."""
    return rdlength >= 16 and <int>(load32(rdata + 8) - now) >= 0 and <int>(now - load32(rdata + 12)) >= 0

cdef inline ReplyKind typify(const Tally *tally, uint16_t rcode, uint16_t qtype, int opcode, bint expired) noexcept nogil:
    """expired: DO is set and some RRSIG of the message is not valid now."""
    if opcode == OPCODE_UPDATE:
        return KIND_UPDATE
    if opcode == OPCODE_NOTIFY or qtype == TYPE_AXFR or qtype == TYPE_IXFR:
        return KIND_META
    if expired:
        return KIND_OTHERERROR
    if tally.answers and rcode == RCODE_NOERROR:
        return KIND_NOERROR
    if tally.answers and rcode == RCODE_NXDOMAIN:
        return KIND_OTHERERROR
    if tally.soa and rcode == RCODE_NOERROR:
        return KIND_NODATA
    if rcode == RCODE_NXDOMAIN:
        return KIND_NAMEERROR
    if rcode == RCODE_SERVFAIL or rcode == RCODE_NOTIMP:
        return KIND_SERVERERROR
    if tally.ns and rcode == RCODE_NOERROR:
        return KIND_DELEGATION
    return KIND_NOERROR if rcode == RCODE_NOERROR else KIND_OTHERERROR

# Is any RRSIG of the reply outside its validity now?
cdef bint reply_signatures_expired(const Reply *reply) noexcept nogil

cdef inline ReplyKind reply_kind_of(const Reply *reply, const Tally *tally, uint16_t qtype, int opcode) noexcept nogil:
    """reply_kind for who has the tally."""
    return typify(tally, reply.rcode, qtype, opcode, reply.edns.present and reply.edns.flags & EDNS_DO and reply_signatures_expired(reply))

cdef ReplyKind reply_kind(const Reply *reply, uint16_t qtype, int opcode) noexcept nogil
