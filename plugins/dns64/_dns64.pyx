"""The native handler of dns64 (RFC 6147): on the way up, a reply without addresses is replaced by one that is made from the A records.

Those are asked for from the top of the server, so that they come from wherever this name's A records come from, the cache first of all.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.api.query cimport (CHILD_MUX, NEXT, PARKED, UP, Handler, NativeHandler, Query, Verdict, handler_init, query_answer, query_child,
                                query_fail, query_park, query_scratch)
from fastdns.api.reply cimport (KIND_NAMEERROR, RECORD_OWNED, SECTION_ANSWER, SECTION_AUTHORITY, Record, Reply, reply_alloc, reply_append, reply_copy,
                                reply_has, reply_kind)
from fastdns.api.names cimport Name, wire_name_copy
from fastdns.api.wire cimport CLASS_IN, FLAG_TC, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_SOA, flags_opcode
from fastdns.api.metrics cimport Metric, metric_add

cdef enum:
    TTL_MAX = 600               # seconds, where no SOA says how long there are no addresses (RFC 6147 5.1.7)
    FREE_OCTET = 8              # of an address: always zero (RFC 6052 2.2)

cdef struct Dns64:
    uint8_t prefix[12]
    uint32_t length             # octets of it
    uint8_t translate_all
    uint8_t allow_ipv4
    uint32_t *translated        # metric cells by server label

cdef struct Work:               # in each query's scratch
    uint8_t active
    uint32_t ttl                # seconds that no record outlives


cdef Verdict on_query(Handler *self, Query *q) noexcept nogil:
    cdef const Dns64 *dns64 = <const Dns64 *>self.state
    (<Work *>query_scratch(self, q)).active = q.qtype == TYPE_AAAA and q.qclass == CLASS_IN and (dns64.allow_ipv4 or q.client.family != 4)
    return NEXT


cdef uint32_t ttl_of_absence(const Reply *reply) noexcept nogil:
    cdef uint32_t i, ttl = TTL_MAX
    for i in range(reply.count):
        if reply.records[i].section == SECTION_AUTHORITY and reply.records[i].type == TYPE_SOA:
            ttl = reply.records[i].ttl
    return ttl


cdef Verdict on_reply(Handler *self, Query *q) noexcept nogil:
    cdef const Dns64 *dns64 = <const Dns64 *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef Name name
    # A name that does not exist has no A records either; any other failure may well be one of AAAA only (RFC 6147 5.1.2).
    if not work.active or not q.reply.written or reply_kind(&q.reply, q.qtype, flags_opcode(q.flags)) == KIND_NAMEERROR:
        return UP
    if not dns64.translate_all and reply_has(&q.reply, SECTION_ANSWER, TYPE_AAAA):
        return UP
    work.active = 0
    work.ttl = ttl_of_absence(&q.reply)
    wire_name_copy(&name, q.name.lower, q.name.length)
    if query_park(q, 0) < 0 or query_child(self, q, CHILD_MUX, &name, TYPE_A) < 0:
        query_fail(q, RCODE_SERVFAIL, b"no slot is free for the query for A records")
        return UP
    return PARKED


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    cdef const Dns64 *dns64 = <const Dns64 *>self.state
    cdef Query *child = q.child
    if child == NULL or (not child.reply.written and child.reply.rcode == RCODE_NOERROR):
        query_fail(q, RCODE_SERVFAIL, b"the question for A records was dropped")
        return UP
    synthesize(dns64, q, &child.reply, (<const Work *>query_scratch(self, q)).ttl)
    metric_add(dns64.translated[q.server.label], q.worker.id, 1)
    return UP


cdef void synthesize(const Dns64 *dns64, Query *q, const Reply *four, uint32_t ttl) noexcept nogil:
    """The reply of the A records with AAAA records in their place; whatever became of it, the code is NOERROR."""
    cdef Reply *reply = &q.reply
    cdef Record *record
    cdef uint8_t *address
    cdef uint32_t i
    query_answer(q, RCODE_NOERROR, four.flags & FLAG_TC if four.written else 0)
    q.error[0] = 0
    if not four.written:
        return
    reply.edns = four.edns
    if four.edns.options_length:
        reply.edns.options = reply_copy(reply, four.edns.options, four.edns.options_length)
        if reply.edns.options == NULL:
            reply.edns.options_length = 0
    reply_append(reply, four, -1)
    for i in range(reply.count):
        record = &reply.records[i]
        if record.section != SECTION_ANSWER or record.type != TYPE_A or record.rdlength != 4:
            continue
        address = reply_alloc(reply, 16)
        if address == NULL:         # as many as the reply holds
            reply.count = <uint32_t>i
            reply.overflow = 1
            return
        embed(dns64, record.rdata, address)
        record.type = TYPE_AAAA
        record.rdata = address
        record.rdlength = 16
        record.flags |= RECORD_OWNED
        if record.ttl > ttl:
            record.ttl = ttl


cdef void embed(const Dns64 *dns64, const uint8_t *four, uint8_t *out) noexcept nogil:
    """Prefix, IPv4 address, zeros, and one octet that is always zero (RFC 6052 2.2)."""
    cdef uint32_t at = dns64.length, i
    memcpy(out, dns64.prefix, at)
    for i in range(4):
        if at == FREE_OCTET:
            out[at] = 0
            at += 1
        out[at] = four[i]
        at += 1
    while at < 16:
        out[at] = 0
        at += 1


cdef Metric TRANSLATED = Metric("coredns_dns64_requests_translated_total", "Counter of DNS requests translated by dns64.", "counter", ("server",))


cdef class Dns64Handler(NativeHandler):
    cdef Dns64 dns64

    def __init__(self, str name, bytes prefix not None, bint translate_all, bint allow_ipv4):
        handler_init(self)
        NativeHandler.__init__(self, name)
        if not 4 <= len(prefix) <= 12:
            raise ValueError("the prefix must have 4 to 12 octets")
        memcpy(self.dns64.prefix, <const uint8_t *>prefix, len(prefix))
        self.dns64.length = <uint32_t>len(prefix)
        self.dns64.translate_all = translate_all
        self.dns64.allow_ipv4 = allow_ipv4
        self.handler.state = &self.dns64
        self.handler.query = on_query
        self.handler.reply = on_reply
        self.handler.resume = on_resume
        self.handler.scratch_size = sizeof(Work)

    def __dealloc__(self):
        free(self.dns64.translated)

    cpdef attach(self, list servers, str view):
        cdef uint32_t most = 0
        for label, _ in servers:
            most = max(most, <uint32_t>label)
        free(self.dns64.translated)
        self.dns64.translated = <uint32_t *>calloc(most + 1, sizeof(uint32_t))
        if self.dns64.translated == NULL:
            raise MemoryError
        for label, server in servers:
            self.dns64.translated[<uint32_t>label] = TRANSLATED.cell((server,))
