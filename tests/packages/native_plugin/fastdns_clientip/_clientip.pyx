"""The handler: hooks that run on the workers, and the object that owns their state."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.query cimport ANSWERED, NEXT, Explanation, Handler, NativeHandler, Query, Verdict, handler_init, query_answer
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, Record, reply_add, reply_copy
from fastdns.api.names cimport ZoneList, Zones, zones_hold
from fastdns.api.wire cimport CLASS_IN, FLAG_AA, RCODE_NOERROR, TYPE_A, TYPE_AAAA
from fastdns.api.metrics cimport Metric, metric_add
from fastdns.api.text cimport Text, text_address, text_string

cdef struct State:
    const Zones *zones          # borrowed from ClientIP.zones
    uint32_t answers            # cell of the metric


cdef void add_address(Query *q) noexcept nogil:
    cdef uint16_t length = 4 if q.client.family == 4 else 16
    cdef uint8_t *octets = reply_copy(&q.reply, q.client.octets, length)
    cdef Record *record
    if octets == NULL:
        return
    record = reply_add(&q.reply, SECTION_ANSWER)
    if record == NULL:
        return
    record.owner = q.name.wire
    record.owner_length = q.name.length
    record.type = TYPE_A if length == 4 else TYPE_AAAA
    record.klass = CLASS_IN
    record.rdata = octets
    record.rdlength = length
    record.flags = RECORD_OWNED


cdef Verdict clientip_query(Handler *self, Query *q) noexcept nogil:
    cdef State *state = <State *>self.state
    if not zones_hold(state.zones, q.name):
        return NEXT
    metric_add(state.answers, q.worker.id, 1)
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    if q.qtype == (TYPE_A if q.client.family == 4 else TYPE_AAAA):
        add_address(q)
    return ANSWERED


cdef void clientip_explain(Handler *self, Query *q, Explanation *out) noexcept nogil:
    cdef Text text
    if not q.reply.written:
        return
    text.out = out.note
    text.used = 0
    text.capacity = sizeof(out.note) - 1
    text.full = 0
    text_string(&text, b"client is ")
    text_address(&text, &q.client)
    out.note[text.used] = 0


ANSWERS = Metric("clientip_answers_total", "Counter of queries that clientip answered.", "counter", ("server",))


cdef class ClientIP(NativeHandler):
    cdef State state
    cdef ZoneList zones

    def __cinit__(self, str name, zones):
        handler_init(self)
        self.zones = ZoneList(list(zones))
        self.state.zones = &self.zones.zones
        self.handler.state = &self.state
        self.handler.query = clientip_query
        self.handler.explain = clientip_explain

    def __init__(self, str name, zones):
        NativeHandler.__init__(self, name)

    cpdef attach(self, list servers, str view):
        for _, address in servers:
            self.state.answers = ANSWERS.cell((address,))
