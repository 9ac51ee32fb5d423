"""What a reply is worth to the cache. The contract is in _worth.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.reply cimport (KIND_META, KIND_NAMEERROR, KIND_NODATA, KIND_NOERROR, KIND_OTHERERROR, KIND_SERVERERROR, KIND_UPDATE, SECTION_ANSWER,
                                SECTION_AUTHORITY, Record, Reply, ReplyKind, ReplySummary, reply_kind_of, reply_summarize)
from fastdns.api.names cimport Name, wire_name_equal
from fastdns.api.wire cimport CLASS_ANY, FLAG_TC, RCODE_NOERROR, RCODE_NXDOMAIN, TYPE_ANY, TYPE_CNAME, TYPE_SOA, load32
from fastdns.plugins.cache._store cimport SUCCESS, DENIAL


cdef Worth reply_worth(const Reply *reply, const Name *name, uint16_t qtype, uint16_t qclass, int opcode, const Limits *limits) noexcept nogil:
    cdef Worth worth
    cdef ReplySummary summary
    cdef ReplyKind kind
    cdef bint whole = not (reply.flags & FLAG_TC or reply.overflow)
    cdef bint passable
    reply_summarize(reply, &summary)
    kind = reply_kind_of(reply, &summary, qtype, opcode)
    passable = kind != KIND_OTHERERROR and kind != KIND_META and kind != KIND_UPDATE
    worth.answering = reply.rcode == RCODE_NOERROR and summary.answers and answers_question(reply, name, qtype, qclass)
    worth.refreshing = whole and passable and (reply.rcode == RCODE_NOERROR or reply.rcode == RCODE_NXDOMAIN)
    worth.storable = whole and passable
    # RFC 2308 section 2.2: aliases that lead nowhere are NODATA when an SOA tells for how long, and nothing to keep when none does.
    if kind == KIND_NOERROR and summary.answers and not worth.answering:
        if summary.soa:
            kind = KIND_NODATA
        else:
            worth.storable = False
    if kind == KIND_NAMEERROR and not summary.soa:
        worth.storable = False
    worth.usable = whole and kind == KIND_NOERROR and worth.answering
    worth.kind = DENIAL if kind == KIND_NAMEERROR or kind == KIND_NODATA or kind == KIND_SERVERERROR else SUCCESS
    worth.ttl = kind_ttl(reply, kind, &summary, limits)
    if worth.ttl == 0:
        worth.storable = False
    return worth


cdef uint32_t reply_ttl(const Reply *reply, const Name *name, uint16_t qtype, uint16_t qclass, int opcode, const Limits *limits) noexcept nogil:
    cdef ReplySummary summary
    cdef ReplyKind kind
    reply_summarize(reply, &summary)
    kind = reply_kind_of(reply, &summary, qtype, opcode)
    if kind == KIND_NOERROR and summary.answers and summary.soa and not answers_question(reply, name, qtype, qclass):
        kind = KIND_NODATA
    return kind_ttl(reply, kind, &summary, limits)


cdef inline uint32_t kind_ttl(const Reply *reply, ReplyKind kind, const ReplySummary *summary, const Limits *limits) noexcept nogil:
    if kind == KIND_NAMEERROR or kind == KIND_NODATA:
        return clamp(min(least_ttl(reply, summary, limits.denial), soa_minimum(reply)), limits.denial_least, limits.denial)
    if kind == KIND_SERVERERROR:
        return limits.failure
    return clamp(least_ttl(reply, summary, limits.success) if kind == KIND_NOERROR else TTL_LEAST, limits.success_least, limits.success)


cdef inline uint32_t clamp(uint32_t ttl, uint32_t least, uint32_t most) noexcept nogil:
    if ttl < least:
        ttl = least
    return ttl if ttl < most else most


cdef inline uint32_t least_ttl(const Reply *reply, const ReplySummary *summary, uint32_t most) noexcept nogil:
    if reply.count == 0:
        return TTL_LEAST
    return summary.least_ttl if summary.least_ttl < most else most


cdef uint32_t soa_minimum(const Reply *reply) noexcept nogil:
    """MINIMUM of the SOA record in the authority section (RFC 2308 5), in seconds; 0xFFFFFFFF when there is none."""
    cdef const Record *record
    cdef uint32_t i
    for i in range(reply.count):
        record = &reply.records[i]
        if record.type == TYPE_SOA and record.section == SECTION_AUTHORITY and record.rdlength >= 4:
            return load32(record.rdata + record.rdlength - 4)
    return 0xFFFFFFFF


# ---- does it answer? ----

cdef inline bint stands_at(const Record *record, const uint8_t *owner, uint32_t length, uint16_t qclass, const Name *name) noexcept nogil:
    return (record.section == SECTION_ANSWER and record.owner_length == length and (record.klass == qclass or qclass == CLASS_ANY)
            and (record.owner == owner or owner == <const uint8_t *>&name.lower[0] and record.owner == <const uint8_t *>&name.wire[0]
                 or wire_name_equal(record.owner, owner, <int>length)))


cdef bint answers_question(const Reply *reply, const Name *name, uint16_t qtype, uint16_t qclass) noexcept nogil:
    """Is there a record of the type where the aliases from the name on lead? ANY is answered by any record of the name."""
    cdef const Record *record
    cdef const Record *alias = NULL
    cdef const uint8_t *owner = <const uint8_t *>&name.lower[0]
    cdef uint32_t length = name.length, _, i
    cdef bint found
    for _ in range(ALIASES_MOST):
        found = False
        alias = NULL
        for i in range(reply.count):
            record = &reply.records[i]
            if record.type != qtype and record.type != TYPE_CNAME and qtype != TYPE_ANY or not stands_at(
                    record, owner, length, qclass, name):
                continue
            if record.type == qtype or qtype == TYPE_ANY:
                found = True
            if record.type == TYPE_CNAME:
                # RFC 2181 section 10.1: an alias has one canonical name; the same record twice does no harm.
                if alias != NULL and (alias.rdlength != record.rdlength or not wire_name_equal(alias.rdata, record.rdata, record.rdlength)):
                    return qtype == TYPE_ANY
                alias = record
        if alias == NULL or qtype == TYPE_CNAME or qtype == TYPE_ANY:
            return found
        owner = alias.rdata
        length = alias.rdlength
    return False
