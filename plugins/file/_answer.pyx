"""From a question to the records of a zone. The contract is in _answer.pxd; the order of decisions is that of spec/plugins-a-k.md, file."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memset
from fastdns.api.query cimport ANSWERED, NEXT, PREFETCH_END, PREFETCH_NEXT, PREFETCH_PASS, Handler, Prefetch, Query, Verdict, query_answer, query_do, query_fail
from fastdns.api.reply cimport SECTION_ADDITIONAL, SECTION_ANSWER, SECTION_AUTHORITY, Record, reply_add_record, reply_clear
from fastdns.api.names cimport Name, Zones, wire_is_below, wire_name_copy, wire_name_length, zones_hold
from fastdns.api.wire cimport (CLASS_IN, FLAG_AA, RCODE_NOERROR, RCODE_NXDOMAIN, RCODE_REFUSED, RCODE_SERVFAIL, RR_ADDITIONAL, TYPE_A, TYPE_AAAA,
                               TYPE_ANY, TYPE_AXFR, TYPE_CNAME, TYPE_DNAME, TYPE_DS, TYPE_IXFR, TYPE_NS, TYPE_RRSIG, TYPE_SOA, load16, rrtype_get,
                               rrtype_name_offset)
from fastdns.api.records cimport (FOUND_CNAME, FOUND_DELEGATION, FOUND_DNAME, FOUND_HIT, FOUND_NODATA, FOUND_NXDOMAIN, NODE_CNAME, NODE_DNAME,
                                  NODE_HASHED, NODE_WILDCARD, IndexNode, IndexOutcome, IndexRecord, IndexResult, RRset, ZoneState, ZoneVersion,
                                  index_current, node_rrset, reply_add_rrset, rrset_record, table_exact, table_fetch_node, table_fetch_slot,
                                  table_find, table_wildcard, zone_match, zone_slots, zone_version)
from fastdns.api.log cimport LOG_LINE_MAX, log_put
from fastdns.api.text cimport Text, text_name, text_put
from fastdns.api.memory cimport atomic_peek8
from fastdns.plugins.file._chase cimport chase_alias, chase_dname, chase_resume
from fastdns.plugins.file._proof cimport prove_absent_name, prove_absent_type, prove_expansion, prove_referral

cdef enum:
    LOOKUPS_NESTED = 8          # lookups through the server inside of each other: more are a loop
    TARGETS_MAX = 768           # different targets whose addresses one answer shows
    TARGET_SLOTS = 1024


# ---- parts ----

cdef void add_set(Ask *ask, int section, const uint8_t *owner, uint8_t owner_length, const IndexNode *node, const RRset *rrset) noexcept nogil:
    reply_add_rrset(&ask.q.reply, section, owner, owner_length, node, rrset)


cdef void add_signatures(Ask *ask, int section, const uint8_t *owner, uint8_t owner_length, const IndexNode *node, uint16_t type) noexcept nogil:
    cdef const RRset *rrset = node_rrset(node, TYPE_RRSIG)
    cdef const uint8_t *entry = NULL
    cdef IndexRecord record
    cdef uint32_t _i
    if rrset == NULL:
        return
    for _i in range(rrset.count):
        entry = rrset_record(node, rrset, entry, &record)
        if load16(record.rdata) == type:
            reply_add_record(&ask.q.reply, section, owner, owner_length, TYPE_RRSIG, CLASS_IN, record.ttl, record.rdata, record.rdlength)


cdef void add_whole(Ask *ask, int section, const IndexNode *node, const RRset *rrset) noexcept nogil:
    """An RRset under its own name, with its signatures when they are wanted."""
    if rrset == NULL:
        return
    add_set(ask, section, node.name, node.length, node, rrset)
    if ask.signed:
        add_signatures(ask, section, node.name, node.length, node, rrset.type)


cdef void add_soa(Ask *ask) noexcept nogil:
    add_whole(ask, SECTION_AUTHORITY, ask.version.apex, ask.version.soa)


cdef void add_servers(Ask *ask, int section) noexcept nogil:
    add_whole(ask, section, ask.version.apex, ask.version.ns)


cdef bint is_name(const Ask *ask, const IndexNode *node) noexcept nogil:
    return node != NULL and node.rrsets != 0 and not atomic_peek8(&node.flags) & NODE_HASHED and (node != ask.version.apex or not ask.version.bare)


cdef void add_addresses(Ask *ask, const IndexNode *node) noexcept nogil:
    add_whole(ask, SECTION_ADDITIONAL, node, node_rrset(node, TYPE_A))
    add_whole(ask, SECTION_ADDITIONAL, node, node_rrset(node, TYPE_AAAA))


cdef void add_glue(Ask *ask, const IndexNode *node, const RRset *ns) noexcept nogil:
    """Addresses of the servers whose names are at or below the delegated one."""
    cdef const uint8_t *entry = NULL
    cdef const IndexNode *server
    cdef IndexRecord record
    cdef Name name
    cdef uint32_t _i
    for _i in range(ns.count):
        entry = rrset_record(node, ns, entry, &record)
        if wire_is_below(record.rdata, record.rdlength, node.name, node.length):
            wire_name_copy(&name, record.rdata, record.rdlength)
            server = table_exact(ask.table, name.lower, name.length, name.hash[0])
            if is_name(ask, server):
                add_addresses(ask, server)


cdef void add_referral(Ask *ask, const IndexNode *cut) noexcept nogil:
    cdef const RRset *ns = node_rrset(cut, TYPE_NS)
    cdef const RRset *ds
    add_set(ask, SECTION_AUTHORITY, cut.name, cut.length, cut, ns)
    if ask.signed:
        ds = node_rrset(cut, TYPE_DS)
        if ds != NULL:
            add_whole(ask, SECTION_AUTHORITY, cut, ds)
        else:
            prove_referral(ask, cut)
    add_glue(ask, cut, ns)


# ---- targets ----

cdef inline bint has_target(uint16_t type) noexcept nogil:
    """Does a record of the type name a host whose addresses belong into the additional section?"""
    return rrtype_get(type).flags & RR_ADDITIONAL != 0


cdef void add_targets(Ask *ask) noexcept nogil:
    cdef const IndexNode *seen[TARGET_SLOTS]
    cdef uint32_t i, slot, found = 0, answers = ask.q.reply.count
    cdef const Record *record
    cdef const IndexNode *node
    cdef Name name
    cdef int at
    for i in range(answers):
        record = &ask.q.reply.records[i]
        if not has_target(record.type) or record.section != SECTION_ANSWER or found == TARGETS_MAX:
            continue
        at = rrtype_name_offset(record.type, record.rdata, record.rdlength)
        if at < 0:
            continue
        wire_name_copy(&name, record.rdata + at, wire_name_length(record.rdata + at))
        if not wire_is_below(name.lower, name.length, ask.version.apex.name, ask.version.apex.length):
            continue
        node = table_exact(ask.table, name.lower, name.length, name.hash[0])
        if not is_name(ask, node):
            continue
        if found == 0:
            memset(seen, 0, sizeof(seen))
        slot = name.hash[0] % TARGET_SLOTS
        while seen[slot] != NULL and seen[slot] != node:
            slot = (slot + 1) % TARGET_SLOTS
        if seen[slot] == node:
            continue
        seen[slot] = node
        found += 1
        add_addresses(ask, node)


# ---- outcomes ----

cdef Verdict answer_rrset(Ask *ask, const IndexResult *found) noexcept nogil:
    """The RRset; under the query's name when it comes from a wildcard (both are lower case)."""
    cdef Query *q = ask.q
    add_set(ask, SECTION_ANSWER, q.name.lower, q.name.length, found.node, found.rrset)
    if ask.signed:
        add_signatures(ask, SECTION_ANSWER, q.name.lower, q.name.length, found.node, found.rrset.type)
    add_servers(ask, SECTION_AUTHORITY)
    if ask.signed and found.wildcard:
        prove_expansion(ask, q.name, found)
    if has_target(q.qtype):
        add_targets(ask)
    return ANSWERED


cdef Verdict answer_apex_signatures(Ask *ask) noexcept nogil:
    """RRSIG as a type: those of SOA and NS are shown with their sets only."""
    cdef Query *q = ask.q
    cdef const IndexNode *apex = ask.version.apex
    cdef const RRset *rrset = node_rrset(apex, TYPE_RRSIG)
    cdef const uint8_t *entry = NULL
    cdef IndexRecord record
    cdef uint32_t _i
    for _i in range(rrset.count):
        entry = rrset_record(apex, rrset, entry, &record)
        if load16(record.rdata) != TYPE_SOA and load16(record.rdata) != TYPE_NS:
            reply_add_record(&q.reply, SECTION_ANSWER, q.name.lower, q.name.length, TYPE_RRSIG, CLASS_IN, record.ttl, record.rdata, record.rdlength)
    add_servers(ask, SECTION_AUTHORITY)
    return ANSWERED


cdef Verdict answer_nodata(Ask *ask, const IndexResult *found) noexcept nogil:
    add_soa(ask)
    if ask.signed:
        prove_absent_type(ask, found)
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
            prove_absent_type(ask, found)
        else:
            prove_absent_name(ask, q.name, found.encloser)
    return ANSWERED


cdef Verdict answer_apex(Handler *self, Ask *ask, IndexOutcome outcome, IndexResult *found, const Zones *fall) noexcept nogil:
    """What is at the origin: SOA and NS stand apart from the rest."""
    cdef Query *q = ask.q
    if q.qtype == TYPE_SOA:
        add_whole(ask, SECTION_ANSWER, ask.version.apex, ask.version.soa)
        add_servers(ask, SECTION_AUTHORITY)
        return ANSWERED
    if q.qtype == TYPE_NS:
        add_servers(ask, SECTION_ANSWER)
        if ask.version.ns != NULL:
            add_glue(ask, ask.version.apex, ask.version.ns)
        return ANSWERED
    if ask.version.bare:
        found.encloser = found.node
        return answer_absent(ask, found, not ask.version.alone, fall)
    if outcome == FOUND_CNAME or outcome == FOUND_HIT and found.node.flags & NODE_CNAME and q.qtype != TYPE_CNAME:
        found.rrset = node_rrset(found.node, TYPE_CNAME)        # beside others, which a broken zone may have
        return chase_alias(self, ask, found)
    if q.qtype == TYPE_RRSIG and outcome == FOUND_HIT:
        return answer_apex_signatures(ask)
    if outcome == FOUND_HIT and q.qtype != TYPE_ANY:
        return answer_rrset(ask, found)
    return answer_nodata(ask, found)


cdef Verdict answer_empty(Handler *self, Ask *ask, IndexResult *found, const Zones *fall) noexcept nogil:
    """An empty non-terminal: like CoreDNS, a wildcard beside it answers for it; not where that could not be proved."""
    cdef const Name *name = ask.q.name
    cdef IndexResult wild
    cdef const IndexNode *parent
    if ask.version.nsec_count == 0 and ask.version.nsec3_count == 0:
        parent = table_exact(ask.table, name.lower + name.offset[1], name.length - name.offset[1], name.hash[1])
        if parent != NULL and atomic_peek8(&parent.flags) & NODE_WILDCARD:
            wild.node = table_wildcard(ask.table, name.lower + name.offset[1], name.length - name.offset[1])
            if wild.node != NULL:
                wild.encloser = <IndexNode *>parent
                wild.wildcard = 1
                wild.label = 1
                wild.rrset = node_rrset(wild.node, ask.q.qtype)
                return answer_found(self, ask, FOUND_HIT if wild.rrset != NULL else FOUND_NODATA, &wild)
    return answer_absent(ask, found, True, fall)


cdef Verdict answer_found(Handler *self, Ask *ask, IndexOutcome outcome, IndexResult *found) noexcept nogil:
    """A name that is there, or a wildcard that stands for it."""
    if found.wildcard:
        ask.q.wildcard = <uint8_t>(found.encloser.labels + 1)
        ask.q.wildcard_name = ask.q.name
    # CoreDNS looks for an alias before it looks for the type.
    if found.node.flags & NODE_CNAME and ask.q.qtype != TYPE_CNAME:
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
        return query_fail(q, RCODE_SERVFAIL, NULL)
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
        if found.node.flags & NODE_DNAME and found.label > 0:
            found.rrset = node_rrset(found.node, TYPE_DNAME)
            return chase_dname(self, &ask, &found)
        q.reply.flags = 0
        add_referral(&ask, found.node)
        return ANSWERED
    if found.node != NULL and found.node == ask.version.apex:
        return answer_apex(self, &ask, outcome, &found, fall)
    if found.node != NULL and found.node.flags & NODE_HASHED or found.encloser != NULL and found.encloser.flags & NODE_HASHED:
        return answer_hashed(self, &ask, &found, fall)
    if outcome == FOUND_NXDOMAIN:
        return answer_absent(&ask, &found, False, fall)
    if found.node.rrsets == 0 and not found.wildcard:
        return answer_empty(self, &ask, &found, fall)
    return answer_found(self, &ask, outcome, &found)


cdef Verdict zone_resume(Handler *self, Query *q, const ZoneState *zone) noexcept nogil:
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
    ask.options = 0
    return chase_resume(&ask)


cdef Verdict tell_expired(Query *q, const ZoneState *zone) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out, text.used, text.room, text.full = line, 0, LOG_LINE_MAX, 0
    text_put(&text, b"[ERROR] plugin/file: Zone ", 26)
    text_name(&text, zone.index.origin.lower)
    text_put(&text, b" is expired", 11)
    log_put(q.worker.id, line, text.used)
    return query_fail(q, RCODE_SERVFAIL, NULL)
