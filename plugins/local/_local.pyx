"""The native handler of local: four zones whose records stand here."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp
from fastdns.api.query cimport ANSWERED, NEXT, Handler, NativeHandler, Query, Verdict, handler_init, query_answer
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, SECTION_AUTHORITY, Record, reply_add
from fastdns.api.names cimport Name, ZoneList, ZoneName, zones_match
from fastdns.api.wire cimport CLASS_IN, RCODE_NOERROR, RCODE_NXDOMAIN, TYPE_A, TYPE_AAAA, TYPE_NS, TYPE_PTR, TYPE_SOA
from fastdns.api.metrics cimport Metric, metric_add
from fastdns.api.log cimport LOG_DEBUG, LOG_LINE_MAX, log_put, log_wants_debug
from fastdns.api.text cimport Text, text_address, text_name, text_string, text_type

cdef enum:
    TTL = 604800                # seconds: a week
    LABEL = 10                  # octets of the label "localhost" with its length
    NAME = 11

cdef struct LocalState:
    uint8_t prefix
    uint32_t cell               # of the metric

cdef const uint8_t *LOCALHOST = b"\x09localhost\x00"
cdef const uint8_t *LOOPBACK = b"\x011\x010\x010\x03127\x07in-addr\x04arpa\x00"
cdef const uint8_t *IPV4 = b"\x7f\x00\x00\x01"
cdef const uint8_t *IPV6 = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
# localhost. root.localhost. 1 0 0 0 604800
cdef const uint8_t *SOA = b"\x09localhost\x00\x04root\x09localhost\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x3a\x80"

cdef enum:
    LOOPBACK_SIZE = 24
    SOA_SIZE = 47

cdef ZoneList ZONES = ZoneList(("localhost.", "0.in-addr.arpa.", "127.in-addr.arpa.", "255.in-addr.arpa."))


cdef void add(Query *q, int section, uint32_t offset, uint16_t type, const uint8_t *rdata, uint16_t size) noexcept nogil:
    """A record whose owner is the query's name from an offset on, in its own case."""
    cdef Record *record = reply_add(&q.reply, section)
    if record == NULL:
        return
    record.owner = q.name.wire + offset
    record.owner_length = <uint8_t>(q.name.length - offset)
    record.type = type
    record.klass = CLASS_IN
    record.ttl = TTL
    record.rdata = rdata
    record.rdlength = size
    record.flags = RECORD_OWNED     # in the query, and in what never changes


cdef bint is_below_localhost(const Name *name) noexcept nogil:
    return name.labels > 1 and name.length - name.offset[name.labels - 1] == NAME and (
        memcmp(name.lower + name.offset[name.labels - 1], LOCALHOST, NAME) == 0)


cdef bint begins_with_localhost(const Name *name) noexcept nogil:
    return name.labels > 1 and memcmp(name.lower, LOCALHOST, LABEL) == 0


cdef void log_interception(const Query *q) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out = line
    text.used = 0
    text.capacity = LOG_LINE_MAX
    text.full = 0
    text_string(&text, b'Intercepting localhost query for "')
    text_name(&text, q.name.lower)
    text_string(&text, b'" ')
    text_type(&text, q.qtype)
    text_string(&text, b", from ")
    text_address(&text, &q.client)
    log_put(q.worker.id, LOG_DEBUG, b"local", line, text.used)


cdef Verdict intercept(const LocalState *state, Query *q) noexcept nogil:
    """A name of this host that was completed along a search path, or of some application on it."""
    if log_wants_debug():
        log_interception(q)
    metric_add(state.cell, q.worker.id, 1)
    query_answer(q, RCODE_NOERROR, 0)
    if q.qtype == TYPE_A:
        add(q, SECTION_ANSWER, 0, TYPE_A, IPV4, 4)
    elif q.qtype == TYPE_AAAA:
        add(q, SECTION_ANSWER, 0, TYPE_AAAA, IPV6, 16)
    else:
        add(q, SECTION_AUTHORITY, 0, TYPE_SOA, SOA, SOA_SIZE)
    return ANSWERED


cdef Verdict local_query(Handler *self, Query *q) noexcept nogil:
    cdef const LocalState *state = <const LocalState *>self.state
    cdef const ZoneName *zone
    cdef uint32_t apex
    if is_below_localhost(q.name) or (state.prefix and begins_with_localhost(q.name)):
        return intercept(state, q)
    zone = zones_match(&ZONES.zones, q.name)
    if zone == NULL:
        return NEXT
    apex = q.name.length - zone.length
    query_answer(q, RCODE_NOERROR, 0)
    if apex == 0:
        if q.qtype == TYPE_SOA:
            add(q, SECTION_ANSWER, 0, TYPE_SOA, SOA, SOA_SIZE)
        elif q.qtype == TYPE_NS:
            add(q, SECTION_ANSWER, 0, TYPE_NS, LOCALHOST, NAME)
        elif q.qtype == TYPE_A and zone.labels == 1:
            add(q, SECTION_ANSWER, 0, TYPE_A, IPV4, 4)
        elif q.qtype == TYPE_AAAA and zone.labels == 1:
            add(q, SECTION_ANSWER, 0, TYPE_AAAA, IPV6, 16)
        else:
            add(q, SECTION_AUTHORITY, 0, TYPE_SOA, SOA, SOA_SIZE)
    elif q.name.length == LOOPBACK_SIZE and memcmp(q.name.lower, LOOPBACK, LOOPBACK_SIZE) == 0:
        if q.qtype == TYPE_PTR:
            add(q, SECTION_ANSWER, 0, TYPE_PTR, LOCALHOST, NAME)
        else:
            add(q, SECTION_AUTHORITY, apex, TYPE_SOA, SOA, SOA_SIZE)
    else:
        q.reply.rcode = RCODE_NXDOMAIN
        add(q, SECTION_AUTHORITY, apex, TYPE_SOA, SOA, SOA_SIZE)
    return ANSWERED


cdef Metric REQUESTS = Metric("coredns_local_localhost_requests_total", "Counter of special localhost subdomain requests.", "counter", ())


cdef class LocalHandler(NativeHandler):
    cdef LocalState state

    def __init__(self, str name, bint prefix):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.state.prefix = prefix
        self.state.cell = REQUESTS.cell(())
        self.handler.state = &self.state
        self.handler.query = local_query
