"""Addresses and texts of a name through host names; see _chase.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport ANSWERED, CHILD_MUX, FAILED, PARKED, query_child, query_fail, query_park, query_scratch
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, Dedup, reply_alloc, reply_append, reply_copy, reply_put, dedup_add, dedup_begin
from fastdns.api.names cimport NAME_MAX, Name, wire_is_below, wire_name_copy, wire_name_equal
from fastdns.api.wire cimport FLAG_TC, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_TXT
from fastdns.api.memory cimport atomic_load_pointer
from fastdns.plugins.etcd._lookup cimport FOUND_NOTHING, FOUND_SOME, lookup_again, lookup_begin, lookup_next, service_ttl
from fastdns.plugins.etcd._snapshot cimport HOST_4, HOST_6, HOST_NAME, HOST_TEXT


cdef uint32_t ttl_of(const Etcd *etcd, const Query *q, const Lookup *lookup, const Service *service) noexcept nogil:
    return service_ttl(lookup.snapshot, service, etcd.least, etcd.most, q.worker.now)


cdef Found lookup_data(const Etcd *etcd, Lookup *lookup, const Snapshot *snapshot, const uint8_t *name, uint32_t length, const ZoneName *zone,
                       uint16_t qtype) noexcept nogil:
    cdef uint8_t apex[NAME_MAX + 16]
    cdef Found found
    if length == zone.length and memcmp(name, zone.wire, length) == 0 and qtype != TYPE_TXT and length + 9 <= NAME_MAX:
        memcpy(apex, <const char *>b"\x04apex\x03dns", 9)
        memcpy(apex + 9, name, length)
        found = lookup_begin(lookup, snapshot, apex, False, qtype)
        if found != FOUND_NOTHING or not etcd.apex_fallback:
            return found
    return lookup_begin(lookup, snapshot, name, False, qtype)


# ---- the stack ----

cdef bint is_alias(const Service *service) noexcept nogil:
    return service.kind == HOST_NAME and service.host_length > 0


cdef bint chase_push(const Etcd *etcd, Query *q, Chase *chase, Lookup *lookup, const uint8_t *owner, uint8_t owner_length) noexcept nogil:
    cdef const Service *service
    cdef const uint8_t *octets = lookup.snapshot.octets
    cdef Frame *frame
    cdef Target *target
    cdef Dedup dedup
    cdef uint32_t count = 0
    cdef uint8_t wanted = HOST_4 if chase.qtype == TYPE_A else HOST_6 if chase.qtype == TYPE_AAAA else HOST_TEXT
    dedup_begin(&dedup, &q.reply, False)
    lookup_again(lookup)
    while True:
        service = lookup_next(lookup)
        if service == NULL:
            break
        count += is_alias(service)
        if service.kind != wanted:
            continue
        if wanted == HOST_TEXT:
            dedup_add(&dedup, chase.section, owner, owner_length, TYPE_TXT, ttl_of(etcd, q, lookup, service), octets + service.text, service.text_length, 0)
        else:
            dedup_add(&dedup, chase.section, owner, owner_length, chase.qtype, ttl_of(etcd, q, lookup, service), &service.ip[0],
                      4 if wanted == HOST_4 else 16, 0)
        if q.reply.overflow:
            break
    frame = <Frame *>reply_alloc(&q.reply, <uint32_t>(sizeof(Frame) + count * sizeof(Target)))
    if frame == NULL:
        return False
    frame.below = chase.top
    frame.depth = chase.top.depth + 1 if chase.top != NULL else 0
    frame.name = owner
    frame.name_length = owner_length
    frame.next = 0
    frame.count = 0
    frame.mark = 0
    lookup_again(lookup)
    while frame.count < count:
        service = lookup_next(lookup)
        if service == NULL:
            break
        if not is_alias(service):
            continue
        target = &frame.targets[frame.count]
        target.wire = reply_copy(&q.reply, octets + service.host, service.host_length)
        if target.wire == NULL:
            break
        target.length = service.host_length
        target.ttl = ttl_of(etcd, q, lookup, service)
        frame.count += 1
    chase.top = frame
    return True


cdef bint follows(const Frame *frame, const Target *target) noexcept nogil:
    """Not to the name itself or below it, not along the same alias twice, not too far."""
    cdef const Frame *at = frame
    if frame.depth > LINKS_MAX or wire_is_below(target.wire, target.length, frame.name, frame.name_length):
        return False
    while at.below != NULL:
        if (at.name_length == target.length and wire_name_equal(at.name, target.wire, target.length) and at.below.name_length == frame.name_length
                and wire_name_equal(at.below.name, frame.name, frame.name_length)):
            return False
        at = at.below
    return True


cdef void pop(Query *q, Chase *chase) noexcept nogil:
    """A name is done: if it had nothing, the alias that led to it goes."""
    cdef Frame *below = chase.top.below
    if below != NULL and q.reply.count == below.mark + 1:
        q.reply.count = <uint16_t>below.mark
    chase.top = below


cdef bint descend(Handler *self, Query *q, Chase *chase, const ZoneName *zone, const Target *target) noexcept nogil:
    """Looks a name of this zone up and puts it on the stack; False when there is nothing."""
    cdef const Etcd *etcd = <const Etcd *>self.state
    cdef const Snapshot *snapshot = <const Snapshot *>atomic_load_pointer(<void **>&etcd.source.snapshot)
    cdef Lookup lookup
    cdef Name name
    wire_name_copy(&name, target.wire, target.length)
    return (lookup_data(etcd, &lookup, snapshot, &name.lower[0], name.length, zone, chase.qtype) == FOUND_SOME
            and chase_push(etcd, q, chase, &lookup, target.wire, target.length))


cdef Verdict ask(Handler *self, Query *q, const Target *target, uint16_t qtype) noexcept nogil:
    cdef Name name
    wire_name_copy(&name, target.wire, target.length)
    if query_park(q, 0) < 0 or query_child(self, q, CHILD_MUX, &name, qtype) < 0:
        query_fail(q, RCODE_SERVFAIL, b"plugin/etcd: no slot is free to look up a host name")
        return FAILED
    return PARKED


cdef Verdict chase_go(Handler *self, Query *q, const ZoneName *zone) noexcept nogil:
    cdef Chase *chase = <Chase *>query_scratch(self, q)
    cdef Frame *frame
    cdef Target *target
    while True:
        if chase.top == NULL:
            if chase.extras == NULL or chase.extras.next == chase.extras.count:
                return ANSWERED
            target = &chase.extras.targets[chase.extras.next]
            if not wire_is_below(target.wire, target.length, zone.wire, zone.length):
                return ask(self, q, target, TYPE_AAAA if chase.extras.second else TYPE_A)
            chase.extras.next += 1
            descend(self, q, chase, zone, target)
            continue
        frame = chase.top
        if frame.next == frame.count:
            pop(q, chase)
            continue
        target = &frame.targets[frame.next]
        frame.next += 1
        if not follows(frame, target):
            continue
        frame.mark = q.reply.count
        if reply_put(&q.reply, chase.section, frame.name, frame.name_length, TYPE_CNAME, target.ttl, target.wire, target.length, RECORD_OWNED) < 0:
            continue
        if not wire_is_below(target.wire, target.length, zone.wire, zone.length):
            return ask(self, q, target, chase.qtype)
        if not descend(self, q, chase, zone, target):
            q.reply.count = <uint16_t>frame.mark


cdef Verdict chase_resume(Handler *self, Query *q, const ZoneName *zone) noexcept nogil:
    cdef Chase *chase = <Chase *>query_scratch(self, q)
    cdef Query *child = q.child
    cdef bint answered = child != NULL and (child.reply.written or child.reply.rcode != 0)
    cdef uint32_t i, before = q.reply.count
    if answered and child.reply.written:
        reply_append(&q.reply, &child.reply, SECTION_ANSWER)
        for i in range(before, q.reply.count):
            q.reply.records[i].section = chase.section
    if chase.top == NULL:           # of an SRV or MX record
        if chase.extras.second:
            drop_aliases(q, before)
            chase.extras.next += 1
        chase.extras.second = not chase.extras.second
    elif not answered:
        q.reply.count = <uint16_t>chase.top.mark
    elif chase.section == SECTION_ANSWER and (child.reply.flags & FLAG_TC or child.reply.overflow):
        q.reply.flags |= FLAG_TC
    return chase_go(self, q, zone)


cdef void drop_aliases(Query *q, uint32_t first) noexcept nogil:
    """The IPv4 answer had them already."""
    cdef uint32_t i, kept = first
    for i in range(first, q.reply.count):
        if q.reply.records[i].type != TYPE_CNAME:
            q.reply.records[kept] = q.reply.records[i]
            kept += 1
    q.reply.count = <uint16_t>kept
