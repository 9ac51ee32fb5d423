"""The native handler of erratic: fixed answers, and a counter that decides what goes wrong with them."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from fastdns.api.query cimport (ANSWERED, DROPPED, PARKED, QUERY_DEADLINE, Handler, NativeHandler, Query, Verdict, handler_init, query_answer,
                                query_fail, query_park, query_resume, query_scratch)
from fastdns.api.worker cimport Timer, Worker
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, Record, reply_add, reply_alloc
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport CLASS_IN, FLAG_AA, FLAG_TC, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_AXFR, TYPE_NS, TYPE_SOA
from fastdns.api.memory cimport atomic_count64, atomic_peek64
from fastdns.plugins.autopath._autopath cimport SearchPath, SearchPathHandle

cdef enum:
    COPIES = 30                 # of the A record, where replies are to be large
    SOA_SIZE = 58
    ELEMENT_SIZE = 15

cdef struct Erratic:
    SearchPath path             # first: what `element` gets is the whole
    uint64_t count              # queries so far
    uint32_t drop
    uint32_t delay
    uint32_t truncate
    uint8_t large
    int64_t duration            # ns

cdef struct Wait:               # in each query's scratch
    Timer timer
    uint8_t failing

cdef const uint8_t *IPV4 = b"\xc0\x00\x02\x35"
cdef const uint8_t *IPV6 = b"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x53"
cdef const uint8_t *IPV6_A = b"\x20\x01\x0b\xd8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x53"
cdef const uint8_t *IPV6_B = b"\x20\x01\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x54"
# sns.dns.icann.org. noc.dns.icann.org. 2018050825 7200 3600 1209600 3600
cdef bytes SOA_NAMES = b"\x03sns\x03dns\x05icann\x03org\x00\x03noc\x03dns\x05icann\x03org\x00"
cdef bytes SOA_OCTETS = SOA_NAMES + b"".join(number.to_bytes(4, "big") for number in (2018050825, 7200, 3600, 1209600, 3600))
cdef const uint8_t *SOA = SOA_OCTETS
cdef const uint8_t *ELEMENTS = b"\x01a\x07example\x03org\x00\x01b\x07example\x03org\x00"


cdef void add(Query *q, const uint8_t *owner, uint8_t length, uint16_t type, const uint8_t *rdata, uint16_t size) noexcept nogil:
    cdef Record *record = reply_add(&q.reply, SECTION_ANSWER)
    if record == NULL:
        return
    record.owner = owner
    record.owner_length = length
    record.type = type
    record.klass = CLASS_IN
    record.rdata = rdata
    record.rdlength = size
    record.flags = RECORD_OWNED     # in the query, and in what never changes


cdef const uint8_t *below(Query *q, uint8_t label) noexcept nogil:
    """The query's name behind a label of one octet; NULL where it would be too long."""
    cdef uint8_t *name
    if q.name.length + 2 > NAME_MAX:
        return NULL
    name = reply_alloc(&q.reply, q.name.length + 2)
    if name != NULL:
        name[0] = 1
        name[1] = label
        memcpy(name + 2, q.name.wire, q.name.length)
    return name


cdef void add_zone(Query *q, bint complete) noexcept nogil:
    """A whole transfer in one message, or one whose end is missing."""
    cdef const uint8_t *a = below(q, c'a')
    cdef const uint8_t *b = below(q, c'b')
    cdef uint8_t length = <uint8_t>(q.name.length + 2)
    add(q, q.name.wire, q.name.length, TYPE_SOA, SOA, SOA_SIZE)
    if a != NULL and b != NULL:
        add(q, q.name.wire, q.name.length, TYPE_NS, b, length)
        add(q, q.name.wire, q.name.length, TYPE_NS, a, length)
        add(q, a, length, TYPE_AAAA, IPV6_A, 16)
        add(q, b, length, TYPE_AAAA, IPV6_B, 16)
    if complete:
        add(q, q.name.wire, q.name.length, TYPE_SOA, SOA, SOA_SIZE)


cdef inline bint is_turn(uint64_t number, uint32_t amount) noexcept nogil:
    return amount > 0 and number % amount == 0


cdef Verdict erratic_query(Handler *self, Query *q) noexcept nogil:
    cdef Erratic *erratic = <Erratic *>self.state
    cdef uint64_t number = atomic_count64(&erratic.count, 1) - 1
    cdef bint cut = erratic.truncate > 0 and number & erratic.truncate == 0     # bits, not multiples: as CoreDNS has it
    cdef Wait *wait = <Wait *>query_scratch(self, q)
    cdef uint32_t i
    if is_turn(number, erratic.drop):
        return DROPPED
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    wait.failing = 0
    if q.qtype == TYPE_A:
        for i in range(COPIES if erratic.large else 1):
            add(q, q.name.wire, q.name.length, TYPE_A, IPV4, 4)
    elif q.qtype == TYPE_AAAA:
        add(q, q.name.wire, q.name.length, TYPE_AAAA, IPV6, 16)
    elif q.qtype == TYPE_AXFR:
        add_zone(q, not cut)
    else:
        wait.failing = 1
    if cut and q.qtype != TYPE_AXFR:
        q.reply.flags |= FLAG_TC
    if is_turn(number, erratic.delay) and query_park(q, q.worker.now + erratic.duration + <int64_t>QUERY_DEADLINE * 1000000) == 0:
        wait.timer.fire = on_time
        wait.timer.data = q
        q.worker.ops.timer_start(q.worker, &wait.timer, q.worker.now + erratic.duration)
        return PARKED
    return through(q, wait)


cdef Verdict through(Query *q, const Wait *wait) noexcept nogil:
    return query_fail(q, RCODE_SERVFAIL, NULL) if wait.failing else ANSWERED


cdef void on_time(Timer *timer, Worker *worker) noexcept nogil:
    query_resume(<Query *>timer.data)


cdef Verdict erratic_resume(Handler *self, Query *q) noexcept nogil:
    return through(q, <Wait *>query_scratch(self, q))


cdef void erratic_abandon(Handler *self, Query *q) noexcept nogil:
    q.worker.ops.timer_stop(q.worker, &(<Wait *>query_scratch(self, q)).timer)


cdef int element(SearchPath *path, Query *q, uint32_t index, uint8_t *out) noexcept nogil:
    if index < 2:
        memcpy(out, ELEMENTS + index * ELEMENT_SIZE, ELEMENT_SIZE)
        return ELEMENT_SIZE
    out[0] = 0
    return 1 if index == 2 else 0


cdef class ErraticHandler(NativeHandler):
    cdef Erratic erratic

    def __init__(self, str name, uint32_t drop, uint32_t delay, uint32_t truncate, int64_t duration, bint large):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.erratic.path.element = element
        self.erratic.drop = drop
        self.erratic.delay = delay
        self.erratic.truncate = truncate
        self.erratic.duration = duration
        self.erratic.large = large
        self.handler.state = &self.erratic
        self.handler.query = erratic_query
        self.handler.resume = erratic_resume
        self.handler.abandon = erratic_abandon
        self.handler.scratch_size = sizeof(Wait)

    def ready(self):
        return 3 <= atomic_peek64(&self.erratic.count) < 5

    def search_path(self):
        cdef SearchPathHandle handle = SearchPathHandle.__new__(SearchPathHandle)
        handle.path = &self.erratic.path
        handle.owner = self
        return handle
