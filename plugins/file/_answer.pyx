"""From a question to the records of a zone. The contract is in _answer.pxd; the order of decisions is that of spec/plugins-a-k.md, file."""
from libc.stdint cimport uint8_t
from fastdns.api.query cimport (ANSWERED, NEXT, PREFETCH_END, PREFETCH_NEXT, PREFETCH_PASS, Handler, Prefetch, Query, Verdict, query_answer, query_do,
                                query_expire, query_fail)
from fastdns.api.reply cimport SECTION_ANSWER, reply_clear
from fastdns.api.names cimport Zones, zones_hold
from fastdns.api.wire cimport (FLAG_AA, RCODE_NOERROR, RCODE_NXDOMAIN, RCODE_REFUSED, RCODE_SERVFAIL, TYPE_ANY, TYPE_AXFR, TYPE_CNAME, TYPE_IXFR, TYPE_NS,
                               TYPE_SOA, load32)
from fastdns.api.records cimport (FOUND_DELEGATION, FOUND_DNAME, FOUND_HIT, FOUND_NODATA, FOUND_NXDOMAIN, NODE_HASHED, NODE_WILDCARD, IndexNode,
                                  IndexOutcome, IndexRecord, IndexResult, ZoneState, ZoneVersion, index_current, node_rrset, table_fetch_node,
                                  table_fetch_slot, rrset_record, table_find, table_wildcard, zone_age, zone_match, zone_slots, zone_version)
from fastdns.api.log cimport LOG_ERROR, LOG_LINE_MAX, log_put
from fastdns.api.text cimport Text, text_name, text_put
from fastdns.api.memory cimport atomic_peek8
from fastdns.plugins.file._sections cimport (ANSWER_PASS_REFERRALS, Ask, add_authority, add_glue, add_servers, add_set, add_signatures, add_soa, add_targets,
                                             add_whole, has_target)
from fastdns.plugins.file._chase cimport chase_alias, chase_dname, chase_resume, leads_on
from fastdns.plugins.file._proof cimport add_referral, prove_absent_name, prove_absent_type, prove_expansion

cdef enum:
    LOOKUPS_NESTED = 8          # lookups through the server inside of each other: more are a loop


# ---- outcomes ----

cdef Verdict answer_rrset(Ask *ask, const IndexResult *found) noexcept nogil:
    """The RRset; under the query's name when it comes from a wildcard (both are lower case)."""
    cdef Query *q = ask.q
    add_set(ask, SECTION_ANSWER, q.name.lower, q.name.length, found.node, found.rrset)
    if ask.signed:
        add_signatures(ask, SECTION_ANSWER, q.name.lower, q.name.length, found.node, found.rrset.type)
    add_authority(ask)
    if ask.signed and found.wildcard:
        prove_expansion(ask, q.name, found)
    if has_target(q.qtype):
        add_targets(ask)
    return ANSWERED


cdef Verdict answer_nodata(Ask *ask, const IndexResult *found) noexcept nogil:
    add_soa(ask)
    if ask.signed:
        prove_absent_type(ask, ask.q.name, found)
    return ANSWERED


cdef Verdict answer_absent(Ask *ask, const IndexResult *found, bint exists, const Zones *fall) noexcept nogil:
    """NXDOMAIN, or NOERROR for a name that has none but others below it (exists)."""
    cdef Query *q = ask.q
    if fall != NULL and zones_hold(fall, q.name):
        reply_clear(&q.reply)
        return NEXT
    query_answer(q, RCODE_NOERROR if exists else RCODE_NXDOMAIN, FLAG_AA)
    add_soa(ask)
    if ask.signed:
        if exists:
            prove_absent_type(ask, ask.q.name, found)
        else:
            prove_absent_name(ask, q.name, found.encloser)
    return ANSWERED


cdef void tell_expire(Ask *ask) noexcept nogil:
    """How long a secondary may serve what the zone is now: the SOA's EXPIRE, less the age of a copy (RFC 7314)."""
    cdef IndexRecord record
    rrset_record(ask.version.apex, ask.version.soa, NULL, &record)
    query_expire(ask.q, load32(record.rdata + record.rdlength - 8), zone_age(ask.zone, ask.q.worker.now))


cdef Verdict answer_apex(Handler *self, Ask *ask, IndexOutcome outcome, IndexResult *found, const Zones *fall) noexcept nogil:
    """What is at the origin: SOA and NS stand apart from the rest."""
    cdef Query *q = ask.q
    if q.qtype == TYPE_SOA:
        add_whole(ask, SECTION_ANSWER, ask.version.apex, ask.version.soa)
        add_authority(ask)
        tell_expire(ask)
        return ANSWERED
    if q.qtype == TYPE_NS:
        add_servers(ask, SECTION_ANSWER)
        if ask.version.ns != NULL:
            add_glue(ask, ask.version.apex, ask.version.ns)
        return ANSWERED
    if ask.version.bare:
        return answer_absent(ask, found, True, fall)           # it exists (RFC 2308 2.2); CoreDNS's `fallthrough` passes it
    if leads_on(found.node, q.qtype):
        found.rrset = node_rrset(found.node, TYPE_CNAME)        # beside others, which a broken zone may have
        return chase_alias(self, ask, found)
    if outcome == FOUND_HIT and q.qtype != TYPE_ANY:
        return answer_rrset(ask, found)
    return answer_nodata(ask, found)


cdef Verdict answer_found(Handler *self, Ask *ask, IndexOutcome outcome, IndexResult *found) noexcept nogil:
    """A name that is there, or a wildcard that stands for it."""
    if found.wildcard:
        ask.q.wildcard = <uint8_t>(found.encloser.labels + 1)
        ask.q.wildcard_name = ask.q.name
    # CoreDNS looks for an alias before it looks for the type.
    if leads_on(found.node, ask.q.qtype):
        found.rrset = node_rrset(found.node, TYPE_CNAME)
        return chase_alias(self, ask, found)
    if outcome == FOUND_HIT and ask.q.qtype != TYPE_ANY:
        return answer_rrset(ask, found)
    return answer_nodata(ask, found)


cdef Verdict answer_hashed(Handler *self, Ask *ask, IndexResult *found, const Zones *fall) noexcept nogil:
    """The owner of an NSEC3 record, or a name below it: as if that were not there (RFC 5155 7.2.8)."""
    cdef const ZoneVersion *version = ask.version
    found.encloser = <IndexNode *>version.apex
    found.label = ask.q.name.labels - version.apex.labels
    found.rrset = NULL
    found.node = NULL
    if atomic_peek8(&version.apex.flags) & NODE_WILDCARD:
        found.node = table_wildcard(ask.table, version.apex.name, version.apex.length)
    if found.node == NULL:
        return answer_absent(ask, found, False, fall)
    found.wildcard = 1
    found.rrset = node_rrset(found.node, ask.q.qtype)
    return answer_found(self, ask, FOUND_HIT if found.rrset != NULL else FOUND_NODATA, found)


# ---- the query ----

cdef Prefetch zone_prefetch(void **zones, Query *q, ZoneLook *look) noexcept nogil:
    cdef const ZoneState *zone = zone_match(zone_slots(zones), q.name)
    if zone == NULL:
        return PREFETCH_PASS
    look.table = index_current(zone.index)
    table_fetch_slot(look.table, q.name)
    return PREFETCH_NEXT


cdef Prefetch zone_prefetch_next(Query *q, const ZoneLook *look) noexcept nogil:
    table_fetch_node(look.table, q.name)
    return PREFETCH_END


cdef Verdict zone_query(Handler *self, Query *q, const ZoneState *zone, const Zones *fall, uint8_t options) noexcept nogil:
    cdef Ask ask
    cdef IndexResult found
    cdef IndexOutcome outcome
    if q.qtype == TYPE_AXFR or q.qtype == TYPE_IXFR:
        return query_fail(q, RCODE_REFUSED, NULL)
    if atomic_peek8(&zone.expired):
        return tell_expired(q, zone)
    ask.table = index_current(zone.index)
    ask.version = zone_version(ask.table)
    if ask.version == NULL:
        return NEXT if passes(q, fall, options) else query_fail(q, RCODE_SERVFAIL, NULL)
    ask.q = q
    ask.zone = zone
    ask.signed = query_do(q)
    ask.options = options
    outcome = table_find(ask.table, zone.index, q.name, q.qtype, &found)
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    if q.depth > LOOKUPS_NESTED and not (q.name.labels == zone.index.origin.labels and (q.qtype == TYPE_SOA or q.qtype == TYPE_NS)):
        return query_fail(q, RCODE_SERVFAIL, NULL)
    if outcome == FOUND_DNAME:
        return chase_dname(self, &ask, &found)
    if outcome == FOUND_DELEGATION:
        if passes(q, fall, options):
            reply_clear(&q.reply)
            return NEXT
        q.reply.flags = 0
        add_referral(&ask, q.name, found.node)
        return ANSWERED
    if found.node != NULL and found.node == ask.version.apex:
        return answer_apex(self, &ask, outcome, &found, fall)
    if found.node != NULL and found.node.flags & NODE_HASHED or found.encloser != NULL and found.encloser.flags & NODE_HASHED:
        return answer_hashed(self, &ask, &found, fall)
    if outcome == FOUND_NXDOMAIN:
        return answer_absent(&ask, &found, False, fall)
    if found.node.rrsets == 0 and not found.wildcard:
        return answer_absent(&ask, &found, True, fall)         # a wildcard beside it does not match it (RFC 4592 2.2.2)
    return answer_found(self, &ask, outcome, &found)


cdef inline bint passes(const Query *q, const Zones *fall, uint8_t options) noexcept nogil:
    return options & ANSWER_PASS_REFERRALS and fall != NULL and zones_hold(fall, q.name)


cdef Verdict zone_resume(Handler *self, Query *q, const ZoneState *zone, uint8_t options) noexcept nogil:
    cdef Ask ask
    if zone == NULL:                # it went meanwhile
        return query_fail(q, RCODE_SERVFAIL, NULL)
    ask.table = index_current(zone.index)
    ask.version = zone_version(ask.table)
    if ask.version == NULL:
        return query_fail(q, RCODE_SERVFAIL, NULL)
    ask.q = q
    ask.zone = zone
    ask.signed = query_do(q)
    ask.options = options
    return chase_resume(&ask)


cdef Verdict tell_expired(Query *q, const ZoneState *zone) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    text_put(&text, b"Zone ", 5)
    text_name(&text, zone.index.origin.lower)
    text_put(&text, b" is expired", 11)
    log_put(q.worker.id, LOG_ERROR, b"file", line, text.used)
    return query_fail(q, RCODE_SERVFAIL, NULL)
