"""Tracing of one query for ``fastdns explain``.

The query runs on a worker through a copy of its chain. The hooks of the copied handlers call those of the originals and record their results. The
calling thread, which holds the GIL, posts the trace to the worker and polls until the query ends.

Memory order. The worker releases the reply by `outcome`. Hooks may run on, in a query that takes too long or in a refresh that it has started, so each
event is released by its own `noted`, and their number by `count`; the calling thread acquires all three.
"""
import time as _time
from typing import NamedTuple

from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strcpy
from fastdns.system.atomic cimport atomic_load32, atomic_load_pointer, atomic_store32, atomic_store_pointer
from fastdns._mux cimport NativeHandler, handler_init, mux_match, query_release, query_run, query_streamed, query_take, query_write
from fastdns.engine.chains cimport Chains
from fastdns.engine.engine cimport Engine
from fastdns.walk.query cimport (CHAIN_MAX, ERROR_MAX, NEXT, TRANSPORT_TCP, TRANSPORT_UDP, Carrier, Chain, ChainSet, Explanation, Handler, Mail,
                                 Query, Verdict, Worker, Zone, handler_query_func, LISTENERS_MAX, ServerTable)
from fastdns.system.address cimport Address
from fastdns._mux cimport mux_match, query_accept, query_release, query_run, query_streamed, query_take, query_write
from fastdns.system.socket cimport socket_clock
from fastdns._wire cimport MESSAGE_MAX, Acceptance, wire_name_text
from fastdns._wire import name_text

cdef enum:
    EVENTS_MAX = 512
    PACKET_MAX = 4096
    KEEP_SECONDS = 60           # time that a trace is kept after its query: a refresh that the query started may still be in the copied chain

cdef enum Hook:
    HOOK_QUERY
    HOOK_REPLY
    HOOK_RESUME

cdef enum TraceState:
    WAITING
    REPLIED
    DROPPED
    REFUSED
    STREAMED
    INVALID
    REPLACED

cdef struct Event:
    const char *handler         # name of the directive; owned by the chains
    int64_t at                  # ns from the query's begin to the call
    int64_t took                # ns of the call
    uint16_t rcode
    uint8_t hook
    uint8_t verdict
    uint8_t depth
    uint8_t has_rcode           # there is a reply or a failure
    uint32_t noted              # atomic, written last
    char error[ERROR_MAX]
    Explanation explanation     # by the handler itself

cdef struct Trace:
    Mail mail                   # first: the worker casts its address to Trace *
    Carrier carrier
    Chain chain                 # copy of the original, with the handlers below
    Handler handlers[CHAIN_MAX]
    const Handler *originals[CHAIN_MAX]
    ServerTable table           # the query's server until it enters the chain: one zone for all names, with the copied chain
    Zone only
    Zone *no_slot               # NULL: the slots of `table`, in which nothing is found by name
    ServerTable *server         # the original server
    ChainSet *set
    ChainSet **published        # the engine's current configuration, which must be `set`; NULL: the caller owns `set`
    uint32_t listener
    uint8_t tcp
    Address client
    Address local
    uint8_t packet[PACKET_MAX]
    uint32_t length
    int64_t begin               # ns, monotonic
    int64_t end
    uint32_t outcome            # a TraceState; atomic, written last
    Zone *zone                  # atomic
    Event events[EVENTS_MAX]
    uint32_t count              # atomic; events, with those whose hook has not returned
    uint8_t message[MESSAGE_MAX]
    uint32_t message_length


cdef inline Trace *trace_of(const Handler *handler) noexcept nogil:
    return <Trace *>handler.chain.handlers[CHAIN_MAX - 1]


cdef inline void enter(Trace *trace, Query *q) noexcept nogil:
    """At the first hook the query gets its original server and zone; child queries inherit these."""
    if q.server == &trace.table:
        q.server = trace.server
        q.zone = trace.zone


cdef Verdict note(Handler *self, Query *q, Hook hook, handler_query_func function) noexcept nogil:
    """Calls the original hook and records its result."""
    cdef Trace *trace = trace_of(self)
    cdef Event *event = NULL
    cdef int64_t before = socket_clock()
    cdef Verdict verdict
    enter(trace, q)
    if trace.count < EVENTS_MAX:
        event = &trace.events[trace.count]
        event.handler = self.name
        event.hook = <uint8_t>hook
        event.depth = q.depth
        event.at = before - trace.begin
        atomic_store32(&trace.count, trace.count + 1)
    verdict = function(self, q)
    if event != NULL:
        event.took = socket_clock() - before
        event.verdict = <uint8_t>verdict
        event.has_rcode = q.reply.written or q.reply.rcode != 0
        event.rcode = q.reply.rcode
        memcpy(event.error, q.error, ERROR_MAX)
        memset(&event.explanation, 0, sizeof(Explanation))
        if self.explain != NULL:
            self.explain(self, q, &event.explanation)
        atomic_store32(&event.noted, 1)
    return verdict


cdef Verdict on_query(Handler *self, Query *q) noexcept nogil:
    return note(self, q, HOOK_QUERY, trace_of(self).originals[self.index].query)


cdef Verdict on_reply(Handler *self, Query *q) noexcept nogil:
    return note(self, q, HOOK_REPLY, <handler_query_func>trace_of(self).originals[self.index].reply)


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    return note(self, q, HOOK_RESUME, <handler_query_func>trace_of(self).originals[self.index].resume)


cdef void unseen(Handler *self, Query *q) noexcept nogil:
    """Replaces a hook that must not run. The field must not be NULL: the chain has counted the hooks."""


cdef void finish(Trace *trace, TraceState outcome) noexcept nogil:
    trace.end = socket_clock()
    atomic_store32(&trace.outcome, outcome)


cdef Trace *trace_of_query(Query *q) noexcept nogil:
    """The trace of a query that has a carrier; child queries have none."""
    return <Trace *>(<const char *>q.carrier - <size_t>&(<Trace *>NULL).carrier)


cdef void send(Query *q) noexcept nogil:
    cdef Trace *trace = trace_of_query(q)
    trace.message_length = query_write(q, trace.message)
    finish(trace, REPLIED)


cdef void dropped(Query *q) noexcept nogil:
    finish(trace_of_query(q), DROPPED)


cdef void stream(Query *q) noexcept nogil:
    cdef Trace *trace = trace_of_query(q)
    q.stream.close(q.stream)
    query_streamed(q, 0)
    finish(trace, STREAMED)


cdef void reject(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    finish(trace_of_query(q), INVALID)


cdef void unserved(Query *q) noexcept nogil:
    finish(trace_of_query(q), INVALID)


cdef void copy_chain(Trace *trace, const Chain *chain) noexcept nogil:
    """Copies a chain into the trace. The last element of the copy, unused in every chain, points to the trace."""
    cdef uint32_t i
    cdef Handler *handler
    trace.chain = chain[0]
    for i in range(chain.count):
        handler = &trace.handlers[i]
        trace.originals[i] = chain.handlers[i]
        handler[0] = chain.handlers[i][0]
        handler.chain = &trace.chain
        if handler.side_effects and handler.done != NULL:
            handler.done = unseen   # what counts and logs queries of clients is not to see this one
        if handler.query != NULL:
            handler.query = on_query
        if handler.reply != NULL:
            handler.reply = on_reply
        if handler.resume != NULL:
            handler.resume = on_resume
        trace.chain.handlers[i] = handler
    trace.chain.handlers[CHAIN_MAX - 1] = <Handler *>trace


cdef void run(Mail *mail, Worker *worker) noexcept nogil:
    """Runs on the worker: starts the query as any other, on the copy of its chain."""
    cdef Trace *trace = <Trace *>mail
    cdef ChainSet *batch = worker.set
    cdef bint accepted
    cdef Query *q = query_take(worker)
    trace.begin = socket_clock()
    if trace.published != NULL and atomic_load_pointer(<void **>trace.published) != trace.set:
        # The handlers may be closed. Otherwise the configuration stays until the batch ends, since the worker is not quiescent before, and as long as
        # queries are parked in it.
        if q != NULL:
            query_release(q)
        finish(trace, REPLACED)
        return
    if q == NULL:
        finish(trace, INVALID)
        return
    q.client = trace.client
    q.local = trace.local
    worker.set = trace.set              # the batch's may be the one before
    accepted = query_accept(q, trace.packet, trace.length, TRANSPORT_TCP if trace.tcp else TRANSPORT_UDP, trace.listener,
                            trace.set.listeners[trace.listener], &trace.carrier, NULL)
    worker.set = batch
    if not accepted:
        return
    trace.server = q.server
    atomic_store_pointer(<void **>&trace.zone, mux_match(q))
    if trace.zone == NULL or trace.zone.chain.count >= CHAIN_MAX:
        query_release(q)
        finish(trace, REFUSED)
        return
    copy_chain(trace, trace.zone.chain)
    trace.only = trace.zone[0]
    trace.only.chain = &trace.chain
    trace.only.filter_count = 0
    trace.only.same = NULL
    trace.table = q.server[0]
    trace.table.slots = &trace.no_slot
    trace.table.mask = 0
    trace.table.longest = 0     # in labels; DS does without it, and looks in the slots
    trace.table.root = &trace.only
    q.server = &trace.table
    query_run(q)


cdef Verdict pass_by(Handler *self, Query *q) noexcept nogil:
    return NEXT


cdef void tell_why(Handler *self, Query *q, Explanation *out) noexcept nogil:
    strcpy(out.note, b"not asked: does not declare runs_in_check")


cdef void tell_question(Handler *self, Query *q, Explanation *out) noexcept nogil:
    cdef char name[1100]
    cdef int length = wire_name_text(q.name.wire, name), most = sizeof(out.note) - 1
    snprintf(out.upstream, sizeof(out.upstream), b"%u %u", <unsigned int>(<size_t>self.state), <unsigned int>q.qtype)
    memcpy(out.note, name + max(0, length - most), min(length, most))


cdef class NotAsked(NativeHandler):

    def __cinit__(self, *arguments):
        handler_init(self)
        self.handler.query = pass_by
        self.handler.explain = tell_why

    def tell(self, uint32_t number):
        self.handler.state = <void *><size_t>number
        self.handler.explain = tell_question


cdef class Traced:
    """Owns a Trace."""
    cdef Trace *trace

    def __cinit__(self):
        self.trace = <Trace *>calloc(1, sizeof(Trace))
        if self.trace == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.trace)


class Step(NamedTuple):
    handler: str
    hook: str
    verdict: str
    depth: int
    at: int
    took: int
    rcode: int | None
    error: str
    upstream: str
    note: str
    says: str


class Explained(NamedTuple):
    outcome: str
    message: bytes
    zone: str
    steps: list
    took: int


# What a handler did, in words, where its plugin has none of its own.
WORDS = {"next": "passed it on", "answered": "answered", "up": "let the reply pass", "again": "asks again below", "parked": "waits", "stream": "transfers"}
HOOKS = ("query", "reply", "resume")
VERDICTS = ("next", "answered", "failed", "dropped", "parked", "stream", "up", "again")
OUTCOMES = ("timeout", "reply", "dropped", "refused", "transfer", "unfit")

# (time when it can be freed, the trace, the chains that it may point to, the canary, whether the end of the next query will do)
cdef list kept = []


def explain(Engine engine not None, Chains chains not None, uint32_t listener, bytes packet not None, bytes client not None, bytes local not None, int port,
            bint tcp=False, double seconds=12.0, bint forgets=False):
    cdef Traced traced = Traced()
    cdef Trace *trace = traced.trace
    cdef Worker *worker = &engine.threads.loops[0].base
    cdef uint32_t i, outcome
    cdef Event *event
    if len(packet) > PACKET_MAX or len(client) not in (4, 16) or len(local) not in (4, 16):
        raise ValueError("no query, or no address")
    if listener >= LISTENERS_MAX or chains.set.servers[listener] == NULL:
        raise ValueError("the address is not served")
    memcpy(trace.packet, <const uint8_t *>packet, len(packet))
    trace.length = <uint32_t>len(packet)
    trace.listener = listener
    trace.tcp = tcp
    trace.set = chains.set
    trace.published = &engine.published if chains.served else NULL
    set_address(&trace.client, client, 0)
    set_address(&trace.local, local, port)
    trace.carrier.reject = reject
    trace.carrier.unserved = unserved
    trace.carrier.send = send
    trace.carrier.dropped = dropped
    trace.carrier.stream = stream
    trace.mail.run = run
    now = _time.monotonic()
    while kept and kept[0][0] < now:
        kept.pop(0)
    kept.append((now + seconds + KEEP_SECONDS, traced, chains, engine.canary, False))
    worker.ops.post(worker, &trace.mail)
    while not atomic_load32(&trace.outcome) and _time.monotonic() < now + seconds:
        _time.sleep(0.0005)
    outcome = atomic_load32(&trace.outcome)
    if outcome and forgets and engine.statistics()["parked"] == 0:
        # Mail is run in its order: the worker is through with the query before, and no child of it waits.
        while len(kept) > 1 and kept[0][4]:
            kept.pop(0)
        kept[len(kept) - 1] = (now + seconds + KEEP_SECONDS, traced, chains, engine.canary, True)
    if outcome == REPLACED:
        raise ValueError("the configuration has changed meanwhile: ask again")
    if outcome == INVALID:
        raise ValueError("no query that is answered")
    steps = []
    words = {handler.name: handler.traits.explain for handler in chains.handlers if handler.traits is not None}
    for i in range(atomic_load32(&trace.count)):
        event = &trace.events[i]
        if not atomic_load32(&event.noted):     # its hook runs now
            continue
        name, hook, verdict = event.handler.decode(), HOOKS[event.hook], VERDICTS[event.verdict]
        says = words.get(name, {}).get(f"{hook} {verdict}") or WORDS.get(verdict, verdict)
        steps.append(Step(name, hook, verdict, event.depth, event.at, event.took, event.rcode if event.has_rcode else None, text(event.error),
                          text(event.explanation.upstream), text(event.explanation.note), says))
    return Explained(OUTCOMES[outcome], <bytes>trace.message[:trace.message_length] if outcome else b"",
                     zone_text(<const Zone *>atomic_load_pointer(<void **>&trace.zone)), steps, trace.end - trace.begin if outcome else 0)


cdef str text(const char *octets):
    return octets.decode("utf-8", "replace")


cdef int set_address(Address *address, bytes octets, int port) except -1:
    address.family = 4 if len(octets) == 4 else 6
    address.port = <uint16_t>port
    memcpy(address.octets, <const uint8_t *>octets, len(octets))
    return 0


cdef str zone_text(const Zone *zone):
    return "" if zone == NULL else name_text(zone.wire[:zone.length])
