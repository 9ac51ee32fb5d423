"""The native handler of chaos: TXT records of class CH that are made when the Corefile is loaded."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp
from fastdns.api.query cimport ANSWERED, NEXT, Handler, NativeHandler, Query, Verdict, handler_init, query_answer
from fastdns.api.reply cimport SECTION_ANSWER, reply_add_record
from fastdns.api.names cimport Name
from fastdns.api.wire cimport CLASS_CH, RCODE_NOERROR, TYPE_TXT
from fastdns.api.random cimport random_below

cdef enum:
    AUTHORS_MAX = 128

cdef struct Span:               # borrowed from the handler's objects
    const uint8_t *octets
    uint16_t length

cdef struct ChaosState:
    Span version
    Span host
    uint32_t count
    Span authors[AUTHORS_MAX]


cdef inline bint is_name(const Name *name, const char *wire, uint32_t length) noexcept nogil:
    return name.length == length and memcmp(name.lower, wire, length) == 0


cdef inline void add(Query *q, const Span *text) noexcept nogil:
    reply_add_record(&q.reply, SECTION_ANSWER, q.name.wire, q.name.length, TYPE_TXT, CLASS_CH, 0, text.octets, text.length)


cdef void add_authors(const ChaosState *state, Query *q) noexcept nogil:
    """All of them, in random order."""
    cdef uint8_t order[AUTHORS_MAX]
    cdef uint32_t i, drawn
    for i in range(state.count):
        drawn = random_below(&q.worker.random, i + 1)
        order[i] = order[drawn]
        order[drawn] = <uint8_t>i
    for i in range(state.count):
        add(q, &state.authors[order[i]])


cdef Verdict chaos_query(Handler *self, Query *q) noexcept nogil:
    cdef const ChaosState *state = <const ChaosState *>self.state
    cdef const Name *name = q.name
    if q.qclass != CLASS_CH or q.qtype != TYPE_TXT or name.labels != 2:
        return NEXT
    if is_name(name, b"\x07version\x04bind\0", 14) or is_name(name, b"\x07version\x06server\0", 16):
        query_answer(q, RCODE_NOERROR, 0)
        add(q, &state.version)
    elif is_name(name, b"\x08hostname\x04bind\0", 15) or is_name(name, b"\x02id\x06server\0", 11):
        query_answer(q, RCODE_NOERROR, 0)
        add(q, &state.host)
    elif is_name(name, b"\x07authors\x04bind\0", 14):
        query_answer(q, RCODE_NOERROR, 0)
        add_authors(state, q)
    else:
        return NEXT
    return ANSWERED


cdef Span span(bytes octets):
    cdef Span found
    found.octets = octets
    found.length = <uint16_t>len(octets)
    return found


cdef class ChaosHandler(NativeHandler):
    cdef ChaosState state
    cdef tuple kept             # what the state borrows

    def __init__(self, str name, bytes version not None, list authors not None, bytes host not None):
        handler_init(self)
        NativeHandler.__init__(self, name)
        if len(authors) > AUTHORS_MAX:
            raise ValueError(f"more than {AUTHORS_MAX} authors")
        self.kept = (version, host, *authors)
        self.state.version = span(version)
        self.state.host = span(host)
        for author in authors:
            self.state.authors[self.state.count] = span(author)
            self.state.count += 1
        self.handler.state = &self.state
        self.handler.query = chaos_query
