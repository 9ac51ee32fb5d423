"""Replies made of addresses of the other family. The contract is in _synthesis.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.api.metrics cimport label_count, metric_add
from fastdns.api.names cimport Name, wire_name_copy
from fastdns.api.query cimport CHILD_MUX, PARKED, UP, query_answer, query_child, query_fail, query_park, query_scratch
from fastdns.api.reply cimport (KIND_NAMEERROR, RECORD_OWNED, SECTION_ANSWER, SECTION_AUTHORITY, Record, reply_append, reply_copy, reply_has, reply_kind)
from fastdns.api.wire cimport CLASS_IN, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_SOA, flags_opcode

cdef enum:
    TTL_MAX = 600               # seconds, where no SOA says how long there are no addresses (RFC 6147 5.1.7)
    ADDRESS_MAX = 16            # octets
    FREE_OCTET = 8              # of an address: always zero (RFC 6052 2.2)

cdef struct Work:               # in each query's scratch
    uint8_t active
    uint32_t ttl                # seconds that no translated record outlives


cdef inline Work *work_of(Handler *self, Query *q) noexcept nogil:
    return <Work *>query_scratch(self, q)


cdef void synthesis_begin(Handler *self, Query *q, bint eligible) noexcept nogil:
    work_of(self, q).active = eligible and q.qtype == (<const Synthesis *>self.state).wanted and q.qclass == CLASS_IN


# ---- the question for the other type ----

cdef uint32_t ttl_of_absence(const Reply *reply) noexcept nogil:
    cdef uint32_t i, ttl = TTL_MAX
    for i in range(reply.count):
        if reply.records[i].section == SECTION_AUTHORITY and reply.records[i].type == TYPE_SOA:
            ttl = reply.records[i].ttl
    return ttl


cdef Verdict synthesis_ask(Handler *self, Query *q) noexcept nogil:
    cdef const Synthesis *synthesis = <const Synthesis *>self.state
    cdef Work *work = work_of(self, q)
    cdef Name name
    if not work.active or not q.reply.written or not synthesis.always and reply_has(&q.reply, SECTION_ANSWER, synthesis.wanted):
        return UP
    # A name that does not exist has no records of the other type either; any other failure may well be one of this type only (RFC 6147 5.1.2).
    if reply_kind(&q.reply, q.qtype, flags_opcode(q.flags)) == KIND_NAMEERROR:
        return UP
    work.active = 0
    work.ttl = ttl_of_absence(&q.reply)
    wire_name_copy(&name, q.name.lower, q.name.length)
    if query_park(q, 0) < 0 or query_child(self, q, CHILD_MUX, &name, synthesis.source) < 0:
        query_fail(q, RCODE_SERVFAIL, b"no slot is free for the query for A records" if synthesis.source == TYPE_A
                   else b"no slot is free for the query for AAAA records")
        return UP
    return PARKED


cdef const Reply *synthesis_reply(const Query *q) noexcept nogil:
    if q.child == NULL or not q.child.reply.written and q.child.reply.rcode == RCODE_NOERROR:
        return NULL
    return &q.child.reply


# ---- its reply ----

cdef inline bint is_source(const Synthesis *synthesis, const Record *record) noexcept nogil:
    return record.section == SECTION_ANSWER and record.type == synthesis.source


cdef inline bint translate(const Synthesis *synthesis, const Record *record, uint8_t *out) noexcept nogil:
    return record.rdlength == synthesis.source_size and synthesis.translate(synthesis, record.rdata, out)


cdef bint synthesis_is_possible(const Synthesis *self, const Reply *found) noexcept nogil:
    cdef uint8_t address[ADDRESS_MAX]
    cdef uint32_t i
    for i in range(found.count):
        if is_source(self, &found.records[i]) and translate(self, &found.records[i], address):
            return True
    return False


cdef void synthesis_copy(Query *q, const Reply *found, uint16_t rcode, uint16_t flags) noexcept nogil:
    cdef Reply *reply = &q.reply
    query_answer(q, rcode, flags if found.written else 0)
    q.error[0] = 0
    if not found.written:
        return
    reply.edns = found.edns
    if found.edns.options_length:
        reply.edns.options = reply_copy(reply, found.edns.options, found.edns.options_length)
        if reply.edns.options == NULL:
            reply.edns.options_length = 0
    reply_append(reply, found, -1)


cdef void synthesis_translate(Handler *self, Query *q) noexcept nogil:
    cdef const Synthesis *synthesis = <const Synthesis *>self.state
    cdef Reply *reply = &q.reply
    cdef Record *record
    cdef uint8_t address[ADDRESS_MAX]
    cdef uint8_t *rdata
    cdef uint32_t i, kept = 0, ttl = work_of(self, q).ttl
    for i in range(reply.count):
        if is_source(synthesis, &reply.records[i]):
            if not translate(synthesis, &reply.records[i], address):
                continue
            rdata = reply_copy(reply, address, synthesis.wanted_size)       # which may move the table
            if rdata == NULL:           # as many as the reply holds
                reply.overflow = 1
                break
            record = &reply.records[i]
            record.type = synthesis.wanted
            record.rdata = rdata
            record.rdlength = synthesis.wanted_size
            record.flags |= RECORD_OWNED
            record.ttl = min(record.ttl, ttl)
        if kept != i:
            reply.records[kept] = reply.records[i]
        kept += 1
    reply.count = <uint16_t>kept
    metric_add(synthesis.translated[q.server.label], q.worker.id, 1)


# ---- addresses ----

cdef void embed_ipv4(const uint8_t *prefix, uint32_t length, const uint8_t *four, uint8_t *six) noexcept nogil:
    cdef uint32_t i, at = length
    memset(six, 0, 16)
    memcpy(six, prefix, length)
    for i in range(4):
        at += at == FREE_OCTET
        six[at] = four[i]
        at += 1


cdef void extract_ipv4(uint32_t length, const uint8_t *six, uint8_t *four) noexcept nogil:
    cdef uint32_t i, at = length
    for i in range(4):
        at += at == FREE_OCTET
        four[i] = six[at]
        at += 1


# ---- the handler ----

cdef class SynthesisHandler(NativeHandler):
    cdef int begin(self, Synthesis *state, uint16_t wanted, Metric metric) except -1:
        state.wanted = wanted
        state.source = TYPE_A if wanted == TYPE_AAAA else TYPE_AAAA
        state.wanted_size = 16 if wanted == TYPE_AAAA else 4
        state.source_size = 20 - state.wanted_size
        self.metric = metric
        self.handler.state = state
        self.handler.reply = synthesis_ask
        self.handler.scratch_size = sizeof(Work)
        return 0

    def __dealloc__(self):
        if self.handler.state != NULL:
            free((<Synthesis *>self.handler.state).translated)

    cpdef attach(self, list servers, str view):
        cdef Synthesis *synthesis = <Synthesis *>self.handler.state
        cdef uint32_t count = label_count(servers)
        free(synthesis.translated)
        synthesis.translated = <uint32_t *>calloc(count, sizeof(uint32_t))
        if synthesis.translated == NULL:
            raise MemoryError
        for label, server in servers:
            synthesis.translated[<uint32_t>label] = self.metric.cell((server,))
