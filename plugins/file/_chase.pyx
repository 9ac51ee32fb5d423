"""Following aliases; see _chase.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport ANSWERED, CHILD_MUX, PARKED, Handler, Query, Verdict, query_child, query_fail, query_park
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ADDITIONAL, SECTION_ANSWER, SECTION_AUTHORITY, Record, Reply, reply_add, reply_alloc, reply_append
from fastdns.api.names cimport NAME_MAX, Name, wire_is_below, wire_name_copy
from fastdns.api.wire cimport (CLASS_IN, FLAG_TC, RCODE_NOERROR, RCODE_NXDOMAIN, RCODE_SERVFAIL, RCODE_YXDOMAIN, TYPE_CNAME, TYPE_DNAME, TYPE_NS,
                               TYPE_SOA)
from fastdns.api.records cimport FOUND_DELEGATION, IndexNode, IndexRecord, IndexResult, RRset, node_rrset, rrset_record, table_find
from fastdns.plugins.file._sections cimport ANSWER_PLAIN_REFERRALS, add_authority, add_set, add_signatures, add_soa, add_targets, is_name
from fastdns.plugins.file._proof cimport add_referral, prove_absent_type, prove_expansion

cdef enum:
    HOPS_MAX = 9                # aliases followed in the zone after the first


cdef Verdict ask_server(Handler *self, Ask *ask, const Name *name) noexcept nogil:
    if query_park(ask.q, 0) < 0 or query_child(self, ask.q, CHILD_MUX, name, ask.q.qtype) < 0:
        return finish_chase(ask, RCODE_SERVFAIL)
    return PARKED


cdef Verdict finish_chase(Ask *ask, uint16_t rcode) noexcept nogil:
    ask.q.reply.rcode = rcode
    if rcode == RCODE_NXDOMAIN:
        add_soa(ask)
    else:
        add_authority(ask)
    add_targets(ask)
    return ANSWERED


cdef Verdict follow(Handler *self, Ask *ask, Name *name) noexcept nogil:
    """Goes on from an alias's target."""
    cdef Query *q = ask.q
    cdef const IndexNode *node
    cdef const RRset *rrset
    cdef IndexResult found
    cdef IndexRecord record
    cdef uint32_t before, hops = 0
    while True:
        if table_find(ask.table, ask.zone.index, name, q.qtype, &found) == FOUND_DELEGATION:
            if ask.options & ANSWER_PLAIN_REFERRALS:
                q.reply.flags = 0
            add_referral(ask, name, found.node)
            return ANSWERED
        node = found.node if found.label == 0 else NULL         # NULL: also outside of the zone, or below a DNAME
        if not is_name(ask, node) or q.qtype == TYPE_NS or q.qtype == TYPE_SOA and node == ask.version.apex:
            return ask_server(self, ask, name)
        if not leads_on(node, q.qtype):
            break
        rrset = node_rrset(node, TYPE_CNAME)
        add_set(ask, SECTION_ANSWER, node.name, node.length, node, rrset)
        if ask.signed:
            add_signatures(ask, SECTION_ANSWER, node.name, node.length, node, TYPE_CNAME)
        hops += 1
        if hops == HOPS_MAX:
            return finish_chase(ask, RCODE_NOERROR)
        rrset_record(node, rrset, NULL, &record)
        wire_name_copy(name, record.rdata, record.rdlength)
    rrset = node_rrset(node, q.qtype)
    if rrset == NULL:
        add_soa(ask)                                # how long that may be kept (RFC 2308 2.2)
        if ask.signed:
            prove_absent_type(ask, name, &found)
        return ANSWERED
    before = q.reply.count
    add_set(ask, SECTION_ANSWER, node.name, node.length, node, rrset)
    if ask.signed:
        add_signatures(ask, SECTION_ANSWER, node.name, node.length, node, q.qtype)
    if q.qtype == TYPE_DNAME:
        drop_repeats(&q.reply, before)              # the chain may have come by it
    return finish_chase(ask, RCODE_NOERROR)


cdef Verdict chase_alias(Handler *self, Ask *ask, const IndexResult *found) noexcept nogil:
    cdef Query *q = ask.q
    cdef IndexRecord record
    cdef Name name
    add_set(ask, SECTION_ANSWER, q.name.lower, q.name.length, found.node, found.rrset)
    if ask.signed:
        add_signatures(ask, SECTION_ANSWER, q.name.lower, q.name.length, found.node, TYPE_CNAME)
        if found.wildcard:
            prove_expansion(ask, q.name, found)
    rrset_record(found.node, found.rrset, NULL, &record)
    wire_name_copy(&name, record.rdata, record.rdlength)
    return follow(self, ask, &name)


cdef Verdict chase_dname(Handler *self, Ask *ask, const IndexResult *found) noexcept nogil:
    cdef Query *q = ask.q
    cdef const IndexNode *node = found.node
    cdef uint32_t front = q.name.offset[found.label]
    cdef IndexRecord dname
    cdef Record *record
    cdef uint8_t *target
    cdef Name name
    add_set(ask, SECTION_ANSWER, node.name, node.length, node, found.rrset)
    if ask.signed:
        add_signatures(ask, SECTION_ANSWER, node.name, node.length, node, TYPE_DNAME)
    rrset_record(node, found.rrset, NULL, &dname)
    if front + dname.rdlength > NAME_MAX:
        q.reply.rcode = RCODE_YXDOMAIN
        add_authority(ask)
        return ANSWERED
    target = reply_alloc(&q.reply, front + dname.rdlength)
    record = reply_add(&q.reply, SECTION_ANSWER) if target != NULL else NULL
    if record == NULL:
        return query_fail(q, RCODE_SERVFAIL, NULL)
    memcpy(target, q.name.lower, front)
    memcpy(target + front, dname.rdata, dname.rdlength)
    wire_name_copy(&name, target, <int>(front + dname.rdlength))
    record.owner = q.name.lower
    record.owner_length = q.name.length
    record.type = TYPE_CNAME
    record.klass = CLASS_IN
    record.ttl = dname.ttl
    record.rdata = target
    record.rdlength = name.length
    record.flags = RECORD_OWNED
    if q.qtype == TYPE_CNAME or name.length == q.name.length and memcmp(name.lower, q.name.lower, name.length) == 0:
        add_authority(ask)         # of itself: it could only go round
        return ANSWERED
    if wire_is_below(dname.rdata, dname.rdlength, node.name, node.length):
        q.reply.rcode = RCODE_YXDOMAIN              # each round makes the name longer, until it is too long (RFC 6672 2.2)
        add_authority(ask)
        return ANSWERED
    return follow(self, ask, &name)


cdef bint is_referral(const Ask *ask, const Reply *reply) noexcept nogil:
    """Does the reply end at a delegation of the zone?"""
    cdef const Record *record
    cdef uint32_t i
    for i in range(reply.count if reply.rcode == RCODE_NOERROR else 0):
        record = &reply.records[i]
        if record.section == SECTION_AUTHORITY and record.type == TYPE_NS and record.owner_length > ask.version.apex.length and (
                wire_is_below(record.owner, record.owner_length, ask.version.apex.name, ask.version.apex.length)):
            return True
    return False


cdef bint is_of_zone(const Ask *ask, const Reply *reply) noexcept nogil:
    """Is the reply from this zone, and says what is there or that nothing is?"""
    cdef const IndexNode *apex = ask.version.apex
    cdef const Record *record
    cdef uint32_t i
    if reply.rcode != RCODE_NOERROR and reply.rcode != RCODE_NXDOMAIN and reply.rcode != RCODE_YXDOMAIN:
        return False
    for i in range(reply.count):
        record = &reply.records[i]
        if record.section == SECTION_AUTHORITY and (record.type == TYPE_SOA or record.type == TYPE_NS) and (
                record.owner_length == apex.length and memcmp(record.owner, apex.name, apex.length) == 0):
            return True
    return False


cdef bint repeats(const Reply *reply, uint32_t count, const Record *record) noexcept nogil:
    """Is the record among the first ones of its section?"""
    cdef const Record *former
    cdef uint32_t i
    for i in range(count):
        former = &reply.records[i]
        if former.section == record.section and former.type == record.type and former.owner_length == record.owner_length and (
                former.rdlength == record.rdlength and memcmp(former.owner, record.owner, record.owner_length) == 0 and
                memcmp(former.rdata, record.rdata, record.rdlength) == 0):
            return True
    return False


cdef void drop_repeats(Reply *reply, uint32_t before) noexcept nogil:
    """Of the records from `before` on those that are there already go: an RRset has each once (RFC 2181 5), and a chain may pass one DNAME twice."""
    cdef uint32_t i, kept = before
    for i in range(before, reply.count):
        if not repeats(reply, before, &reply.records[i]):
            reply.records[kept] = reply.records[i]
            kept += 1
    reply.count = <uint16_t>kept


cdef void append_others(Reply *reply, const Reply *other, int section) noexcept nogil:
    """A section of another reply but for records that are there already."""
    cdef uint32_t before = reply.count
    reply_append(reply, other, section)
    drop_repeats(reply, before)


cdef Verdict chase_resume(Ask *ask) noexcept nogil:
    """The records of the reply for the target. CoreDNS's rules: its records are shown whatever came with them."""
    cdef Query *q = ask.q
    cdef const Query *child = q.child
    cdef uint16_t rcode = RCODE_NOERROR
    cdef uint32_t before = q.reply.count
    if child != NULL and (child.reply.written or child.reply.rcode != 0):
        if child.reply.written:
            if child.reply.flags & FLAG_TC or child.reply.overflow:
                q.reply.flags |= FLAG_TC
            append_others(&q.reply, &child.reply, SECTION_ANSWER)
            if is_referral(ask, &child.reply):
                reply_append(&q.reply, &child.reply, SECTION_AUTHORITY)
                reply_append(&q.reply, &child.reply, SECTION_ADDITIONAL)
                return ANSWERED
            if is_of_zone(ask, &child.reply):
                q.reply.rcode = child.reply.rcode
                append_others(&q.reply, &child.reply, SECTION_AUTHORITY)
                add_targets(ask)
                return ANSWERED
        if child.reply.rcode == RCODE_NXDOMAIN or child.reply.rcode == RCODE_SERVFAIL or child.reply.rcode == RCODE_YXDOMAIN:
            rcode = child.reply.rcode
        elif child.reply.rcode == RCODE_NOERROR and q.reply.count == before:
            q.reply.rcode = RCODE_NOERROR
            add_soa(ask)
            add_targets(ask)
            return ANSWERED
    return finish_chase(ask, rcode)
