"""Answers on their way back to the client.

Records point into caches and indexes that others read, so what changes is written anew, into the query's arena; a record's table entry is the query's own.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport CHILD_MUX, PARKED, UP, Handler, Query, Verdict, query_child, query_park
from fastdns.api.reply cimport SECTION_ANSWER, Record, Reply, reply_alloc, reply_append, reply_copy
from fastdns.api.names cimport NAME_MAX, Name, text_read_name, wire_name_copy
from fastdns.api.wire cimport (FLAG_TC, RCODE_NOERROR, TYPE_CNAME, TYPE_DNAME, TYPE_MX, TYPE_NAPTR, TYPE_NS, TYPE_PTR, TYPE_SOA, TYPE_SRV, TYPE_TSIG,
                               copy_octets, rrtype_name_offset)
from fastdns.api.log cimport LOG_ERROR, log_put
from fastdns.api.expression cimport GROUPS_MAX, Span, regex_match
from fastdns.plugins.rewrite._options cimport options_remove, options_replace
from fastdns.plugins.rewrite._work cimport (NOWHERE, REVERT_ANSWER, REVERT_CNAME, REVERT_NAME, REVERT_OPTION, REVERT_RCODE, REVERT_SUFFIX, REVERT_TTL,
                                            Revert, Work)
from fastdns.plugins.rewrite._rules cimport Plain, Rule, plain_name, rule_apply, rule_matches, template_fill


cdef Verdict revert_reply(Handler *self, Query *q, Work *work) noexcept nogil:
    cdef Reply *reply = &q.reply
    if work.active and not reply.written and reply.rcode != RCODE_NOERROR:
        # The server's own message would go out past the rules. The error stays for those who tell it.
        reply.written = 1
        reply.count = 0
        reply.flags = 0
        reply.verbatim = 0
        reply.overflow = 0
        reply.edns.present = 0
        q.writer = self.index
    if reply.written and work.newest != NULL:
        if work.messages:
            revert_message(q, work)
        work.index = 0
        work.at = work.newest
        work.place = NOWHERE
        revert_records(q, work)
        if work.aliases:
            return follow(self, q, work)
    return leave(q, work)


cdef Verdict leave(Query *q, Work *work) noexcept nogil:
    """The handlers above see the question as it came; done hooks below know it as it was asked (see rewrite_done)."""
    if work.options:
        q.message.edns = q.edns
    q.name = &q.first_name
    return UP


# ---- the whole message ----

cdef void revert_message(Query *q, Work *work) noexcept nogil:
    """Response codes and options; CoreDNS does both once for each record, or once where there is none."""
    cdef Reply *reply = &q.reply
    cdef uint32_t times = reply.count + (1 if reply.edns.present else 0)
    cdef uint32_t round = 0
    cdef Revert *revert
    while round == 0 or round < times:
        revert = work.newest
        while revert != NULL:
            if revert.kind == REVERT_RCODE:
                if reply.rcode == revert.rule.first:
                    reply.rcode = <uint16_t>revert.rule.second
            elif revert.kind == REVERT_OPTION and round < 2:
                if reply.edns.present:
                    revert_option(q, revert, True)
                if round == 0:
                    revert_option(q, revert, False)
            revert = revert.next
        round += 1


cdef void revert_option(Query *q, const Revert *revert, bint reply) noexcept nogil:
    """In the answer's OPT, or in the request's, which an answer without one reflects."""
    if revert.data == NULL:
        options_remove(q, &q.reply.edns if reply else &q.edns, revert.code, False)
    else:
        options_replace(q, &q.reply.edns if reply else &q.edns, revert.code, revert.data, revert.data_length)


# ---- records ----

cdef void revert_records(Query *q, Work *work) noexcept nogil:
    """All records, but for answers that `follow` walks through."""
    cdef uint32_t i
    cdef Revert *revert
    for i in range(q.reply.count):
        if work.aliases and q.reply.records[i].section == SECTION_ANSWER:
            continue
        revert = work.newest
        while revert != NULL:
            revert_record(q, &q.reply.records[i], revert)
            revert = revert.next


cdef inline void revert_record(Query *q, Record *record, const Revert *revert) noexcept nogil:
    if revert.kind == REVERT_TTL:
        if record.type != TYPE_TSIG:
            record.ttl = min(max(record.ttl, revert.rule.first), revert.rule.second)
    elif revert.kind == REVERT_NAME or revert.kind == REVERT_SUFFIX:
        revert_owner(q, record, revert)
        revert_value(q, record, revert)
    elif revert.kind == REVERT_ANSWER:
        if revert.answer.value:
            revert_value(q, record, revert)
        else:
            revert_owner(q, record, revert)


cdef inline int name_place(const Record *record) noexcept nogil:
    """Where the name of a record's value begins; -1: it has none that is rewritten. CoreDNS rewrites those of these types alone."""
    if record.type == TYPE_CNAME or record.type == TYPE_DNAME or record.type == TYPE_MX or record.type == TYPE_NAPTR or (
            record.type == TYPE_NS or record.type == TYPE_PTR or record.type == TYPE_SOA or record.type == TYPE_SRV):
        return rrtype_name_offset(record.type, record.rdata, record.rdlength)
    return -1


cdef int rdata_name_length(const uint8_t *name, uint32_t length) noexcept nogil:
    """Octets of a name within rdata, or -1. Its labels are whole: whoever made the record checked them; the length is checked again."""
    cdef uint32_t at = 0
    while at < length and name[at] != 0:
        at += <uint32_t>name[at] + 1
    return <int>at + 1 if at < length and at < NAME_MAX else -1


cdef void revert_owner(Query *q, Record *record, const Revert *revert) noexcept nogil:
    cdef uint8_t made[NAME_MAX + 17]
    cdef uint8_t *copy
    cdef int length
    if revert.kind == REVERT_NAME and record.owner_length == revert.from_length and (
            record.owner == revert.from_ or memcmp(record.owner, revert.from_, revert.from_length) == 0):
        record.owner = revert.to                    # the query's own octets
        record.owner_length = revert.to_length
        return
    length = renamed(record.owner, record.owner_length, revert, made)
    if length > 0:
        copy = reply_alloc(&q.reply, <uint32_t>length + 16)
        if copy != NULL:
            copy_octets(copy, made, <uint32_t>length)
            record.owner = copy
            record.owner_length = <uint8_t>length


cdef void revert_value(Query *q, Record *record, const Revert *revert) noexcept nogil:
    cdef int place = name_place(record)
    cdef int before, length
    cdef uint8_t made[NAME_MAX + 17]
    cdef uint8_t *copy
    cdef uint32_t rest
    if place < 0 or place >= record.rdlength:
        return
    before = rdata_name_length(record.rdata + place, <uint32_t>(record.rdlength - place))
    if before < 0:
        return
    length = renamed(record.rdata + place, <uint32_t>before, revert, made)
    if length < 0:
        return
    rest = <uint32_t>(record.rdlength - place - before)
    copy = reply_alloc(&q.reply, <uint32_t>place + length + rest)
    if copy == NULL:
        return
    memcpy(copy, record.rdata, place)
    memcpy(copy + place, made, length)
    memcpy(copy + place + length, record.rdata + place + before, rest)
    record.rdata = copy
    record.rdlength = <uint16_t>(place + length + rest)


cdef inline int other_end(const uint8_t *name, uint32_t length, const uint8_t *end, uint32_t end_length, const uint8_t *by, uint32_t by_length,
                          uint8_t *out) noexcept nogil:
    """The name with other labels in place of those it ends with; -1: it does not, or it would be too long. Its length."""
    cdef uint32_t head
    if length < end_length:
        return -1
    head = length - end_length
    if memcmp(name + head, end, end_length) != 0 or not is_label_start(name, head) or head + by_length > NAME_MAX:
        return -1
    copy_octets(out, name, head)
    copy_octets(out + head, by, by_length)
    return <int>head + by_length


cdef int renamed(const uint8_t *name, uint32_t length, const Revert *revert, uint8_t *out) noexcept nogil:
    """What becomes of a name; -1: it stays."""
    cdef uint32_t head
    cdef Plain plain
    cdef Plain made
    cdef Span spans[GROUPS_MAX]
    cdef const Rule *rule = revert.rule
    if revert.kind == REVERT_NAME:
        if revert.from_length == 1 and length > 1:      # of texts: no name ends in a dot and the root's
            return -1
        return other_end(name, length, revert.from_, revert.from_length, revert.to, revert.to_length, out)
    if revert.kind == REVERT_SUFFIX and rule.aligned:
        return -1 if length == rule.to_length else other_end(name, length, rule.to_wire, rule.to_length, rule.from_wire, rule.from_length, out)
    plain_name(name, &plain)
    if revert.kind == REVERT_SUFFIX:
        head = rule.to.length
        if plain.length < head or memcmp(plain.text + plain.length - head, rule.to.text, head) != 0:
            return -1
        plain.length -= head
        memcpy(plain.text + plain.length, rule.source.text, rule.source.length)
        plain.length += rule.source.length
        return text_read_name(plain.text, plain.length, out)
    if not regex_match(revert.answer.pattern, plain.text, plain.length, spans, min(revert.answer.pattern.groups, <uint32_t>GROUPS_MAX)):
        return -1
    if not template_fill(&revert.answer.to, plain.text, spans, revert.answer.pattern.groups, &made):
        return -1
    return text_read_name(made.text, made.length, out)


cdef inline bint is_label_start(const uint8_t *name, uint32_t place) noexcept nogil:
    cdef uint32_t at = 0
    while at < place:
        at += <uint32_t>name[at] + 1
    return at == place


# ---- aliases ----
# A rule of `cname` looks the new target up, so that the query may park at any record. The walk over the answer section is over the records as they
# came: what a look-up put in their place is not looked at again, as in CoreDNS.

cdef Verdict follow(Handler *self, Query *q, Work *work) noexcept nogil:
    cdef Record *record
    cdef Revert *revert
    while True:
        if work.index == (work.former_count if work.former != NULL else q.reply.count):
            return leave(q, work)
        record = record_at(q, work)
        if record.section == SECTION_ANSWER:
            while work.at != NULL:
                revert = work.at
                if revert.kind != REVERT_CNAME:
                    revert_record(q, record, revert)
                    if work.place != NOWHERE:
                        revert_record(q, &q.reply.records[work.place], revert)
                elif record.type == TYPE_CNAME and look_up(self, q, work, revert, record):
                    return PARKED
                work.at = revert.next
                record = record_at(q, work)             # reserving records may have moved the table
        work.at = work.newest
        work.place = NOWHERE
        work.index += 1


cdef inline Record *record_at(Query *q, Work *work) noexcept nogil:
    return &q.reply.records[work.index] if work.former == NULL else &work.former[work.index]


cdef bint new_target(const Revert *revert, const Record *record, Name *name) noexcept nogil:
    """The target that the rule gives an alias; False when it leaves it alone."""
    cdef Plain plain
    cdef Plain made
    cdef uint8_t wire[NAME_MAX]
    cdef Span spans[GROUPS_MAX]
    cdef int length
    if rdata_name_length(record.rdata, record.rdlength) < 0:
        return False
    plain_name(record.rdata, &plain)
    if not rule_matches(revert.rule, plain.text, plain.length, spans) or not rule_apply(revert.rule, plain.text, plain.length, spans, &made):
        return False
    length = text_read_name(made.text, made.length, wire)
    if length < 0:
        return False
    wire_name_copy(name, wire, length)
    return True


cdef bint look_up(Handler *self, Query *q, Work *work, Revert *revert, Record *record) noexcept nogil:
    """Parks and has the server look the new target up; False when there is none, or when that is impossible."""
    cdef Name name
    if not new_target(revert, record, &name):
        return False
    if query_park(q, 0) < 0:
        tell(q, b"upstream lookup failed: no memory")
        return False
    if work.former == NULL and not keep_former(q, work):
        return False
    if query_child(self, q, CHILD_MUX, &name, q.qtype) < 0:
        tell(q, b"upstream lookup failed: no slot is free for another query")
        return False
    return True


cdef bint keep_former(Query *q, Work *work) noexcept nogil:
    """From now on the walk is over the answers as they are at this moment."""
    cdef Record *former = <Record *>reply_alloc(&q.reply, q.reply.count * sizeof(Record))
    cdef uint32_t i, count = 0, index = 0
    if former == NULL:
        return False
    for i in range(q.reply.count):
        if q.reply.records[i].section == SECTION_ANSWER:
            if i == work.index:
                index = count
            former[count] = q.reply.records[i]
            count += 1
    work.former, work.former_count, work.index = former, count, index
    return True


cdef Verdict revert_resume(Handler *self, Query *q, Work *work) noexcept nogil:
    cdef Query *child = q.child
    cdef Record *record = &work.former[work.index]
    if child == NULL or not child.reply.written and child.reply.rcode == RCODE_NOERROR:
        tell(q, b"upstream lookup returned nil")
    else:
        splice(q, work, child, record)
    work.at = work.at.next
    return follow(self, q, work)


cdef void splice(Query *q, Work *work, Query *child, Record *record) noexcept nogil:
    """The aliases of the answer up to the one at work, with its new target, then what the look-up found."""
    cdef Reply *reply = &q.reply
    cdef uint32_t i, kept = 0
    cdef bint through = False
    cdef uint8_t *target
    for i in range(reply.count):
        if reply.records[i].section != SECTION_ANSWER:
            reply.records[kept] = reply.records[i]
            kept += 1
        elif not through and reply.records[i].type == TYPE_CNAME:
            through = reply.records[i].rdlength == record.rdlength and memcmp(reply.records[i].rdata, record.rdata, record.rdlength) == 0
            reply.records[kept] = reply.records[i]
            if through:
                target = reply_copy(reply, child.first_name.wire, child.first_name.length)
                if target != NULL:
                    reply.records[kept].rdata = target
                    reply.records[kept].rdlength = child.first_name.length
                    work.place = kept
            kept += 1
    reply.count = <uint16_t>kept
    if work.place != NOWHERE:
        record[0] = reply.records[work.place]
    if child.reply.written:
        reply_append(reply, &child.reply, SECTION_ANSWER)
    reply.flags = (reply.flags & ~FLAG_TC) | (child.reply.flags & FLAG_TC)
    if child.reply.overflow:
        reply.flags |= FLAG_TC


cdef void tell(Query *q, const char *line) noexcept nogil:
    cdef uint32_t length = 0
    while line[length]:
        length += 1
    log_put(q.worker.id, LOG_ERROR, NULL, line, length)
