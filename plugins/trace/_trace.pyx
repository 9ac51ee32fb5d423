"""Which queries are traced, and what came of them: a ring of records for each worker, which a thread of the control side empties.

Memory order. `head` releases a record to the taker, `tail` its place to the worker; each side loads the other's with acquire. A ring is released by the
pointer to it.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from fastdns.api.query cimport (CHAIN_MAX, ERROR_MAX, NEXT, TRACE_NOT_SAMPLED, Handler, NativeHandler, Query, TraceContext, Verdict, handler_init,
                                query_is_udp, query_scratch, query_trace_context)
from fastdns.api.worker cimport WORKERS_MAX
from fastdns.api.names cimport NAME_MAX, wire_name_text
from fastdns.api.metrics cimport Metric, metric_add
from fastdns.api.metadata cimport Label, LabelHandle
from fastdns.api.text cimport Text, text_put
from fastdns.api.memory cimport atomic_count64, atomic_load64, atomic_load_pointer, atomic_store64, atomic_store_pointer
from fastdns.api.random cimport random_next
from fastdns.api.network cimport Address, address_text, socket_clock

cdef enum:
    RING_SIZE = 1024                # records that a worker may be ahead

cdef struct Span:                   # of the query
    uint64_t high                   # the trace's id, of 128 bits; 0: of 64
    uint64_t low
    uint64_t id                     # 0: not traced
    uint64_t parent                 # the client's span; 0: none
    uint64_t grandparent            # the parent of the client's span; 0: none, or not known

cdef struct Scratch:
    Span span
    int64_t begun                   # ns since 1970
    int64_t clock                   # ns, monotonic

cdef struct Finished:               # a traced query
    Span span
    int64_t begun
    int64_t took                    # ns
    uint8_t name[NAME_MAX]
    uint16_t qtype
    uint16_t rcode
    uint8_t udp
    uint8_t deepest                 # handlers up to this one were called
    Address client
    char error[ERROR_MAX]

cdef struct Ring:                   # one producer, one consumer; positions grow for ever
    uint64_t head                   # atomic
    uint64_t padding[7]
    uint64_t tail                   # atomic
    uint64_t more_padding[7]
    Finished records[RING_SIZE]

cdef struct State:
    uint64_t every                  # 0: none is traced
    bint long_ids                   # ids of traces have 128 bits (W3C), where the client does not give one
    uint64_t counted                # atomic
    uint32_t dropped_cell
    Ring *rings[WORKERS_MAX]        # made by their worker's first record


cdef Verdict begin_trace(Handler *self, Query *q) noexcept nogil:
    cdef State *state = <State *>self.state
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef const TraceContext *client
    cdef timespec now
    # A copy of the chain that looks at one query for an operator (_explain) has another hook; a query inside of another one is part of that.
    if state.every == 0 or self.done != end_trace or q.parent != NULL or atomic_count64(&state.counted, 1) % state.every:
        return NEXT
    client = query_trace_context(q)
    if client != NULL and client.sampling == TRACE_NOT_SAMPLED:
        return NEXT
    clock_gettime(CLOCK_REALTIME, &now)
    scratch.begun = <int64_t>now.tv_sec * 1000000000 + now.tv_nsec
    scratch.clock = socket_clock()
    scratch.span.id = <uint64_t>random_next(&q.worker.random) << 32 | <uint32_t>random_next(&q.worker.random) | 1
    scratch.span.low = scratch.span.id
    if state.long_ids:
        scratch.span.high = <uint64_t>random_next(&q.worker.random) << 32 | <uint32_t>random_next(&q.worker.random) | 1
    if client != NULL and client.span:
        scratch.span.high = client.high
        scratch.span.low = client.low
        scratch.span.parent = client.span
        scratch.span.grandparent = client.parent
    return NEXT


cdef void end_trace(Handler *self, Query *q) noexcept nogil:
    cdef State *state = <State *>self.state
    cdef const Scratch *scratch = <const Scratch *>query_scratch(self, q)
    cdef Ring *ring = state.rings[q.worker.id]
    cdef Finished *record
    if not scratch.span.id:
        return
    if ring == NULL:
        ring = <Ring *>calloc(1, sizeof(Ring))
        if ring != NULL:
            atomic_store_pointer(<void **>&state.rings[q.worker.id], ring)
    if ring == NULL or ring.head - atomic_load64(&ring.tail) >= RING_SIZE:
        metric_add(state.dropped_cell, q.worker.id, 1)
        return
    record = &ring.records[ring.head % RING_SIZE]
    record.span = scratch.span
    record.begun = scratch.begun
    record.took = socket_clock() - scratch.clock
    memcpy(record.name, q.first_name.lower, q.first_name.length)
    record.qtype = q.message.qtype
    record.rcode = q.reply.rcode
    record.udp = query_is_udp(q)
    record.deepest = <uint8_t>min(q.deepest, <uint32_t>(CHAIN_MAX - 1))
    record.client = q.client
    record.error[0] = 0
    if not q.reply.written:
        memcpy(record.error, q.error, ERROR_MAX)
        record.error[ERROR_MAX - 1] = 0
    atomic_store64(&ring.head, ring.head + 1)


cdef bint publish_trace(const Label *label, Query *q, Text *out) noexcept nogil:
    cdef const Scratch *scratch
    if q.chain == NULL or label.handler.chain != q.chain:
        return False
    scratch = <const Scratch *>query_scratch(label.handler, q)
    if not scratch.span.id:
        return False
    if scratch.span.high:
        put_digits(out, scratch.span.high)
    put_digits(out, scratch.span.low)
    return True


cdef void put_digits(Text *out, uint64_t number) noexcept nogil:
    cdef const char *hexadecimal = b"0123456789abcdef"
    cdef char digits[16]
    cdef int i
    for i in range(16):
        digits[i] = hexadecimal[(number >> (60 - 4 * i)) & 15]
    text_put(out, digits, 16)


cdef class TraceHandler(NativeHandler):
    cdef State state
    cdef public object reporter
    cdef object _metric
    cdef list _names                # of the chain

    def __cinit__(self, *args):
        handler_init(self)
        self.handler.query = begin_trace
        self.handler.done = end_trace
        self.handler.trace_context = 1
        self.handler.scratch_size = sizeof(Scratch)
        self.handler.state = &self.state

    def __init__(self, uint64_t every, bint long_ids=False):
        NativeHandler.__init__(self, "trace")
        self.state.every = every
        self.state.long_ids = long_ids
        self._metric = Metric("fastdns_trace_dropped_queries_total", "Traced queries that the reporter was too slow for.", "counter")
        self.state.dropped_cell = (<Metric>self._metric).cell(())

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(WORKERS_MAX):
            free(self.state.rings[i])

    def label(self, str name):
        cdef LabelHandle handle
        if name != "traceid":
            return None
        handle = LabelHandle()
        handle.anywhere = True
        handle.label.value = publish_trace
        handle.label.handler = &self.handler
        return handle

    cpdef attach_zones(self, list zones):
        """The chain is complete; it may be freed before its last queries are reported."""
        cdef uint32_t i
        self._names = [self.handler.chain.handlers[i].name.decode() for i in range(self.handler.chain.count)]

    def below(self, uint32_t deepest):
        return self._names[self.handler.index + 1:deepest + 1]

    def take(self):
        cdef Ring *ring
        cdef const Finished *record
        cdef uint64_t head
        cdef uint32_t i
        cdef char text[1100]
        cdef char client[64]
        cdef list found = []
        for i in range(WORKERS_MAX):
            ring = <Ring *>atomic_load_pointer(<void **>&self.state.rings[i])
            if ring == NULL:
                continue
            head = atomic_load64(&ring.head)
            while ring.tail != head:
                record = &ring.records[ring.tail % RING_SIZE]
                found.append(((record.span.high, record.span.low, record.span.id, record.span.parent, record.span.grandparent), record.begun, record.took,
                              text[:wire_name_text(record.name, text)].decode("ascii"), record.qtype, record.rcode,
                              bool(record.udp), client[:address_text(&record.client, client)].decode("ascii"), record.deepest,
                              (<bytes>record.error).decode("utf-8", "replace")))
                atomic_store64(&ring.tail, ring.tail + 1)
        return found

    cpdef close(self):
        if self.reporter is not None:
            self.reporter.stop()
