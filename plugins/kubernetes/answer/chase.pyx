"""Following aliases; see _chase.pxd.

A frame is a name with the targets of its aliases; frames form a stack, deepest on top. The record of an alias is added before its target is looked up and
taken away again if nothing was found there. Everything a frame points to lies in the query's arena, so it survives parking.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport ANSWERED, CHILD_MUX, PARKED, Query, query_child, query_fail, query_park, query_scratch
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, Record, reply_add, reply_alloc, reply_append
from fastdns.api.names cimport NAME_MAX, Name, wire_is_below, wire_name_copy, wire_name_equal
from fastdns.api.wire cimport CLASS_IN, FLAG_TC, RCODE_SERVFAIL, TYPE_CNAME
from fastdns.plugins.kubernetes.answer.name cimport Wanted, name_parse
from fastdns.plugins.kubernetes.answer.records cimport answer_addresses, ask_resolve

# ---- names ----

cdef uint32_t from_text(const uint8_t *text, uint32_t length, uint8_t *out) noexcept nogil:
    cdef uint32_t i, start = 0, used = 0
    if length and text[length - 1] == c'.':
        length -= 1
    if length == 0 or length > 253:
        return 0
    for i in range(length + 1):
        if i == length or text[i] == c'.':
            if i == start or i - start > 63:
                return 0
            out[used] = <uint8_t>(i - start)
            memcpy(out + used + 1, text + start, i - start)
            used += i - start + 1
            start = i + 1
    out[used] = 0
    return used + 1


# ---- frames ----

cdef Frame *push(Query *q, Chase *chase, const uint8_t *name, uint8_t name_length, const Candidates *candidates) noexcept nogil:
    """A frame on top of the stack; NULL when the query's memory is full."""
    cdef uint8_t buffer[NAME_MAX + 1]
    cdef Frame *frame = <Frame *>reply_alloc(&q.reply, <uint32_t>(sizeof(Frame) + candidates.count * sizeof(Target)))
    cdef const uint8_t *wire
    cdef uint8_t *copy
    cdef uint32_t i, length
    if frame == NULL:
        return NULL
    frame.below = chase.top
    frame.depth = chase.top.depth + 1 if chase.top != NULL else 0
    frame.name = name
    frame.name_length = name_length
    frame.next = 0
    frame.count = 0
    for i in range(candidates.count):
        wire = candidates.target[i]
        length = candidates.length[i]
        if candidates.text[i]:
            length = from_text(wire, length, buffer)
            wire = buffer
        if length == 0:
            continue
        copy = reply_alloc(&q.reply, length)
        if copy == NULL:
            break
        memcpy(copy, wire, length)
        frame.targets[frame.count].wire = copy
        frame.targets[frame.count].length = <uint8_t>length
        frame.count += 1
    chase.top = frame
    return frame


cdef void pop(Query *q, Chase *chase) noexcept nogil:
    """A frame is done: if it found nothing, the alias that led to it goes."""
    cdef Frame *below = chase.top.below
    if below != NULL and q.reply.count == below.mark + 1:
        q.reply.count = below.mark
    chase.top = below


cdef bint add_alias(Ask *ask, const Frame *frame, const Target *target) noexcept nogil:
    cdef Record *record = reply_add(&ask.q.reply, SECTION_ANSWER)
    if record == NULL:
        return False
    record.owner = frame.name
    record.owner_length = frame.name_length
    record.type = TYPE_CNAME
    record.klass = CLASS_IN
    record.ttl = ask.view.ttl
    record.rdata = target.wire
    record.rdlength = target.length
    record.flags = RECORD_OWNED
    return True


cdef bint follows(const Frame *frame, const Name *target) noexcept nogil:
    """Not to the name itself or below it, not in a circle, not too far."""
    cdef const Frame *at = frame
    if frame.depth >= LINKS_MAX or wire_is_below(target.wire, target.length, frame.name, frame.name_length):
        return False
    while at != NULL:
        if at.name_length == target.length and wire_name_equal(at.name, target.wire, target.length):
            return False
        at = at.below
    return True


# ---- the walk ----

cdef Verdict go(Handler *self, Ask *ask, Chase *chase) noexcept nogil:
    cdef Query *q = ask.q
    cdef Frame *frame
    cdef Target *target
    cdef Name name
    cdef bint inside
    while chase.top != NULL:
        frame = chase.top
        if frame.next == frame.count:
            pop(q, chase)
            continue
        target = &frame.targets[frame.next]
        frame.next += 1
        wire_name_copy(&name, target.wire, target.length)
        if not follows(frame, &name):
            continue
        frame.mark = q.reply.count
        if not add_alias(ask, frame, target):
            continue
        inside = wire_is_below(target.wire, target.length, ask.zone, ask.zone_length)
        if inside and ask.view.guarded and leaves_namespace(ask, &name):
            if frame.count > 1 and q.depth:
                # Each of up to CANDIDATES_MAX host names may lead to as many: only those of the client's own question are asked for.
                q.reply.count = frame.mark
                continue
            inside = False
        if inside:
            if not descend(ask, chase, &name, target):
                q.reply.count = frame.mark
        elif query_park(q, 0) < 0 or query_child(self, q, CHILD_MUX, &name, q.qtype) < 0:
            return query_fail(q, RCODE_SERVFAIL, b"plugin/kubernetes: no slot is free to look up the target of an ExternalName service")
        else:
            return PARKED
    return ANSWERED


cdef bint leaves_namespace(const Ask *ask, const Name *target) noexcept nogil:
    """Does a target of this zone belong to another namespace than the question?"""
    cdef Wanted wanted
    name_parse(target, target.labels - zone_labels(ask), ask.zone_flags, &wanted)
    if wanted.namespace == NULL:
        return False
    return (ask.wanted.namespace == NULL or wanted.namespace[0] != ask.wanted.namespace[0]
            or memcmp(wanted.namespace, ask.wanted.namespace, wanted.namespace[0] + 1u) != 0)


cdef bint descend(Ask *ask, Chase *chase, const Name *name, const Target *target) noexcept nogil:
    """Looks a target of this zone up, and puts a frame with its own aliases on the stack."""
    cdef Candidates candidates
    cdef Ask below = ask[0]
    candidates.count = 0
    below.name = name
    below.owner = target.wire
    below.owner_length = target.length
    below.owned = 1
    ask_resolve(&below, name.labels - zone_labels(ask), 0)
    answer_addresses(&below, ask.q.qtype, &candidates)
    return push(ask.q, chase, target.wire, target.length, &candidates) != NULL


cdef uint32_t zone_labels(const Ask *ask) noexcept nogil:
    cdef uint32_t labels = 0
    cdef const uint8_t *label = ask.zone
    while label[0]:
        labels += 1
        label += label[0] + 1
    return labels


cdef Verdict chase_begin(Handler *self, Ask *ask, Candidates *candidates) noexcept nogil:
    cdef Chase *chase = <Chase *>query_scratch(self, ask.q)
    chase.top = NULL
    if push(ask.q, chase, ask.owner, ask.owner_length, candidates) == NULL:
        return ANSWERED
    return go(self, ask, chase)


cdef Verdict chase_resume(Handler *self, Ask *ask) noexcept nogil:
    cdef Chase *chase = <Chase *>query_scratch(self, ask.q)
    cdef Query *q = ask.q
    cdef Query *child = q.child
    # Whatever the server would have sent counts, failures too; only a dropped query leaves nothing.
    if child == NULL or (not child.reply.written and child.reply.rcode == 0):
        q.reply.count = chase.top.mark
    else:
        if child.reply.flags & FLAG_TC or child.reply.overflow:
            q.reply.flags |= FLAG_TC
        if child.reply.written:
            reply_append(&q.reply, &child.reply, SECTION_ANSWER)
    return go(self, ask, chase)
