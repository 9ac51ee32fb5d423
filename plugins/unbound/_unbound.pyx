"""The handler: which queries it takes, and how libunbound's answers become replies. Questions travel as _resolver has it."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport strlen, strncpy
from fastdns.api.metrics cimport Metric, label_count, metric_add, metric_observe
from fastdns.api.names cimport wire_name_equal, zones_hold
from fastdns.api.query cimport (ANSWERED, NEXT, PARKED, Explanation, Handler, Query, Verdict, handler_init, query_answer, query_await, query_do,
                                query_error, query_fail, query_park, query_scratch)
from fastdns.api.reply cimport SECTION_ANSWER, Record, Reply, reply_copy, reply_parse
from fastdns.api.wire cimport (FLAG_AD, FLAG_CD, FLAG_RA, FLAG_TC, RCODE_FORMERR, RCODE_REFUSED, RCODE_SERVFAIL, TYPE_ANY, TYPE_AXFR,
                               TYPE_IXFR, TYPE_MAILA, TYPE_MAILB, TYPE_NSEC, TYPE_NSEC3, TYPE_OPT, TYPE_RRSIG)
from fastdns.plugins.unbound._resolver cimport (REQUEST_ANSWERED, REQUEST_ERROR, SECURITY_BOGUS, SECURITY_SECURE, Context,
                                                request_abandon, request_give, resolver_ask)
from fastdns.protocol.parameters import rcode_text

#: Seconds: 0.25 ms, each bucket twice the one before.
BUCKETS = tuple(0.00025 * 2**k for k in range(16))
#: By Security.
SECURITIES = ("insecure", "bogus", "secure")


# ---- hooks ----

cdef Verdict unbound_query(Handler *self, Query *q) noexcept nogil:
    cdef Unbound *unbound = <Unbound *>self.state
    cdef Waiting *waiting = <Waiting *>query_scratch(self, q)
    cdef Cells *cells = cells_of(unbound, q)
    cdef bint refused
    if not zones_hold(unbound.zones, q.name) or zones_hold(unbound.excepted, q.name):
        return NEXT
    # As the daemon has it: transfers are refused, and types that no zone has are errors.
    if q.qtype == TYPE_AXFR or q.qtype == TYPE_IXFR:
        query_answer(q, RCODE_REFUSED, 0)
        return ANSWERED
    if q.qtype == TYPE_OPT or q.qtype == TYPE_MAILA or q.qtype == TYPE_MAILB or 128 <= q.qtype <= 250:
        query_answer(q, RCODE_FORMERR, 0)
        return ANSWERED
    if query_park(q, 0) < 0:
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    waiting.asked = q.worker.now
    waiting.request = resolver_ask(unbound.resolver, q, &refused)
    if refused:
        if cells != NULL:
            metric_add(cells.refused, q.worker.id, 1)
        return query_fail(q, RCODE_SERVFAIL, b"too many questions of this client or domain are waiting")
    if waiting.request == NULL:
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    query_await(q, unbound.resolver)
    return PARKED


cdef Verdict unbound_resume(Handler *self, Query *q) noexcept nogil:
    cdef Unbound *unbound = <Unbound *>self.state
    cdef Waiting *waiting = <Waiting *>query_scratch(self, q)
    cdef Request *request = waiting.request
    cdef Cells *cells = cells_of(unbound, q)
    cdef Verdict verdict
    waiting.request = NULL
    if request.status == REQUEST_ERROR:
        verdict = query_fail(q, RCODE_SERVFAIL, request.error)
    else:
        waiting.security = request.security
        waiting.answered = 1
        verdict = answer(q, waiting, request)
    if cells != NULL:
        count(unbound, cells, q, waiting)
    request_give(request)
    return verdict


cdef void unbound_abandon(Handler *self, Query *q) noexcept nogil:
    cdef Waiting *waiting = <Waiting *>query_scratch(self, q)
    cdef Cells *cells = cells_of(<Unbound *>self.state, q)
    if waiting.request == NULL:
        return
    if q.evicted and cells != NULL:
        metric_add(cells.evicted, q.worker.id, 1)
    request_abandon(waiting.request)
    waiting.request = NULL


cdef void unbound_explain(Handler *self, Query *q, Explanation *out) noexcept nogil:
    cdef Waiting *waiting = <Waiting *>query_scratch(self, q)
    if not waiting.answered:
        return
    if waiting.why != NULL:
        strncpy(out.note, waiting.why, sizeof(out.note) - 1)
    else:
        strncpy(out.note, b"secure" if waiting.security == SECURITY_SECURE else b"insecure", sizeof(out.note) - 1)


# ---- metrics ----

cdef inline Cells *cells_of(const Unbound *unbound, const Query *q) noexcept nogil:
    return &unbound.cells[q.server.label] if q.server.label < unbound.cell_count else NULL


cdef void count(const Unbound *unbound, const Cells *cells, Query *q, const Waiting *waiting) noexcept nogil:
    cdef uint32_t worker = q.worker.id
    metric_observe(unbound.buckets, cells.durations, worker, <uint64_t>(q.worker.now - waiting.asked))
    metric_add(cells.rcodes + (q.reply.rcode if q.reply.rcode < RCODES else RCODES - 1), worker, 1)
    if waiting.answered:
        metric_add(cells.security + waiting.security, worker, 1)


# ---- the reply ----

cdef Verdict answer(Query *q, Waiting *waiting, const Request *request) noexcept nogil:
    """An answer of libunbound as the client may have it: bogus data only with CD (RFC 4035 3.2.2), signatures only with DO (RFC 3225 3)."""
    cdef int status
    if request.security == SECURITY_BOGUS:
        waiting.why = <const char *>reply_copy(&q.reply, <const uint8_t *>request.why, <uint32_t>strlen(request.why) + 1)
        if not q.flags & FLAG_CD:
            answer_bogus(q, request)
            return ANSWERED
    if request.status != REQUEST_ANSWERED:
        query_answer(q, request.rcode, FLAG_RA)
        return ANSWERED
    status = reply_parse(&q.reply, request.packet, request.length)
    if status == -1:
        return query_fail(q, RCODE_SERVFAIL, b"libunbound's answer cannot be read")
    if status < 0:
        q.reply.flags |= FLAG_TC
    q.reply.flags |= FLAG_RA
    if request.security != SECURITY_SECURE or not (q.flags & FLAG_AD or query_do(q)):
        q.reply.flags &= ~FLAG_AD       # RFC 6840 5.8
    q.reply.edns.present = 0            # the server's own
    fit_records(q)
    return ANSWERED


cdef void answer_bogus(Query *q, const Request *request) noexcept nogil:
    """SERVFAIL, and why (RFC 8914)."""
    query_answer(q, RCODE_SERVFAIL, FLAG_RA)
    query_error(q, request.reason, request.why)


cdef inline bint is_signature(uint16_t type) noexcept nogil:
    return type == TYPE_RRSIG or type == TYPE_NSEC or type == TYPE_NSEC3


cdef void fit_records(Query *q) noexcept nogil:
    """Drops what only a client with DO wants, and repeats the letters of its question: libunbound has those of whoever asked first."""
    cdef Reply *reply = &q.reply
    cdef Record *record
    cdef uint32_t i, kept = 0
    cdef bint wants_all = query_do(q)
    for i in range(reply.count):
        record = &reply.records[i]
        if not wants_all and is_signature(record.type) and not (
                record.section == SECTION_ANSWER and (q.qtype == record.type or q.qtype == TYPE_ANY)):
            continue
        if record.owner_length == q.name.length and wire_name_equal(record.owner, q.name.wire, q.name.length):
            record.owner = q.name.wire
        if kept != i:
            reply.records[kept] = record[0]
        kept += 1
    reply.count = <uint16_t>kept


# ---- the instance ----

cdef class UnboundHandler(NativeHandler):

    def __cinit__(self, *args):
        handler_init(self)
        self.unbound = <Unbound *>calloc(1, sizeof(Unbound))
        if self.unbound == NULL:
            raise MemoryError
        self.handler.query = unbound_query
        self.handler.resume = unbound_resume
        self.handler.abandon = unbound_abandon
        self.handler.explain = unbound_explain
        self.handler.scratch_size = sizeof(Waiting)
        self.handler.state = self.unbound

    def __dealloc__(self):
        if self.unbound != NULL:
            free(self.unbound.cells)
            free(self.unbound)

    def __init__(self, context, zones, excepted):
        cdef Context native = context.native
        NativeHandler.__init__(self, "unbound")
        self.context = context
        self.zones, self.excepted = ZoneList(zones), ZoneList(excepted)
        self.unbound.resolver = native.resolver
        self.unbound.zones = &self.zones.zones
        self.unbound.excepted = &self.excepted.zones

    cpdef attach(self, list servers, str view):
        cdef Cells *cells
        cdef Metric durations = Metric("coredns_unbound_request_duration_seconds", "Histogram of the time each request took.", "histogram", ("server",),
                                       BUCKETS, 1e9)
        cdef Metric rcodes = Metric("coredns_unbound_response_rcode_count_total", "Counter of rcodes made per request.", "counter", ("server", "rcode"))
        cdef Metric securities = Metric("fastdns_unbound_validations_total", "Answers of libunbound, by what its validation found.", "counter",
                                        ("server", "result"))
        cdef Metric refused = Metric("fastdns_unbound_refused_total",
                                     "Queries that got SERVFAIL because too many questions of their client, or of their domain, were under way.",
                                     "counter", ("server",))
        cdef Metric evicted = Metric("fastdns_unbound_evicted_total", "Queries that got SERVFAIL while they waited for libunbound: all slots were taken.",
                                     "counter", ("server",))
        self.metrics = (durations, rcodes, securities, refused, evicted)
        free(self.unbound.cells)
        self.unbound.cell_count = 0
        count = label_count(servers)
        self.unbound.cells = <Cells *>calloc(count, sizeof(Cells))
        if self.unbound.cells == NULL:
            raise MemoryError
        self.unbound.buckets = &durations.buckets
        for label, server in servers:
            cells = &self.unbound.cells[<uint32_t>label]
            cells.durations = durations.cell((server,))
            cells.rcodes = rcodes.table((server, tuple(map(rcode_text, range(RCODES)))))
            cells.security = securities.table((server, SECURITIES))
            cells.refused = refused.cell((server,))
            cells.evicted = evicted.cell((server,))
        self.unbound.cell_count = count

    cpdef close(self):
        self.context.give_back()
