"""The worker's side of a Python plugin. The contract is in executor/hooks.pxd."""
import inspect

from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from fastdns.system.atomic cimport atomic_add32, atomic_exchange32, atomic_load32, atomic_peek8, atomic_store32
from fastdns.telemetry.log import Log
from fastdns.walk.finish cimport finish_fit, finish_write
from fastdns.walk.limit cimport limit_enter, limit_leave
from fastdns.telemetry.metrics cimport Metric, metric_add
from fastdns.walk.query cimport (AGAIN, ANSWERED, CHILD_CHAIN, CHILD_DONE, FAILED, NEXT, PARKED, PREFETCH_PASS, TRANSPORT_TCP, Handler, Mail, Prefetch,
                                 Query, Verdict, Worker, query_scratch)
from fastdns.walk.waiting cimport query_await
from fastdns._mux cimport handler_init, query_child, query_fail, query_park, query_resume
from fastdns.message.reply cimport reply_clear, reply_limit_ttl, reply_parse
from fastdns.system.socket cimport write
from fastdns._wire cimport FLAG_CD, FLAG_RD, RCODE_SERVFAIL, Name, load16, wire_name_copy
from fastdns.executor.request cimport (REQUEST_ABANDONED, REQUEST_ANSWER, REQUEST_NEXT, REQUEST_PENDING, REQUEST_QUERY, Request,
                                       request_free, request_push)
from fastdns.executor.verdict_cache cimport CachedVerdict, verdict_find
from fastdns.executor.verdicts cimport MEMORY, flags_remember, verdicts_apply
from fastdns.index.name_map cimport name_map_holds, name_map_names, names_fetch
from fastdns.index.zone_list cimport zones_hold

QUERIES = Metric("fastdns_plugin_queries_total", "Counter of queries that a Python plugin was asked.", "counter", ("plugin",))
REJECTS = Metric("fastdns_plugin_rejects_total", "Counter of queries refused because too many waited for Python.", "counter", ("plugin",))
REFUSED = Metric("fastdns_plugin_refused_total", "Counter of queries answered SERVFAIL because the Python plugin hangs.", "counter", ("plugin",))
DEADLINES = Metric("fastdns_plugin_deadlines_total", "Counter of queries that a Python plugin did not answer in time.", "counter", ("plugin",))
EVICTED = Metric("fastdns_plugin_evicted_total", "Counter of queries that got SERVFAIL while they waited for a Python plugin, because all slots were taken.",
                 "counter", ("plugin",))
HITS = Metric("fastdns_plugin_remembered_hits_total", "Counter of queries that a remembered verdict of a Python plugin was applied to.", "counter",
              ("plugin",))

cdef double DEADLINE = 5.0              # seconds, where the plugin gives none

cdef enum:
    DEADLINE_MAX = 86400                # seconds

cdef struct Scratch:                # in each query, for the handler that parked it
    Request *request                # NULL: none is under way, or it is abandoned
    uint8_t ready                   # the executor has posted `request`, and resume runs for that


cdef Verdict plugin_query(Handler *self, Query *q) noexcept nogil:
    cdef RequestHandlerState *state = <RequestHandlerState *>self.state
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef Request *request
    cdef CachedVerdict *cached
    if state.zones != NULL and not zones_hold(state.zones, q.name) or state.names != NULL and not name_map_holds(state.names, q.name):
        return NEXT
    cached = find_cached(state, q)
    if cached != NULL:
        return verdicts_apply(cached, q)
    metric_add(state.queries, q.worker.id, 1)
    if atomic_peek8(&state.queue.refuses):
        metric_add(state.refused, q.worker.id, 1)
        return query_fail(q, RCODE_SERVFAIL, b"the Python plugin hangs")
    request = make_request(self, q)
    if request == NULL or query_park(q, q.worker.now + state.deadline) < 0:
        free(request)
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    if not limit_enter(&state.queue.limit, q):
        free(request)
        metric_add(state.rejects, q.worker.id, 1)
        return query_fail(q, RCODE_SERVFAIL, b"too many queries wait for Python")
    atomic_add32(&state.waiting, 1)
    scratch.request = request
    scratch.ready = 0
    request_push(state.queue, request)
    return PARKED


cdef Prefetch plugin_prefetch(Handler *self, Query *q) noexcept nogil:
    """Of a plugin whose zones are a NameMap: its table does not fit into a cache."""
    names_fetch(name_map_names((<RequestHandlerState *>self.state).names), q.name)
    return PREFETCH_PASS


cdef inline CachedVerdict *find_cached(RequestHandlerState *state, Query *q) noexcept nogil:
    """The cached verdict that holds for a query, counted as a hit; or NULL."""
    cdef CachedVerdict *cached = NULL
    if flags_remember(q.flags):
        cached = verdict_find(state.cached, q.name, q.qtype, q.qclass, &q.client, q.worker.now)
        if cached != NULL:
            metric_add(state.hits, q.worker.id, 1)
    return cached


cdef Request *make_request(Handler *self, Query *q) noexcept nogil:
    cdef Request *request = <Request *>malloc(sizeof(Request) + q.packet_length + q.edns.options_length)
    if request == NULL:
        return NULL
    memset(request, 0, sizeof(Request) - sizeof(Name) - 8)
    request.kind = REQUEST_QUERY
    request.state = REQUEST_PENDING
    request.transport = q.transport
    request.qtype = q.qtype
    request.qclass = q.qclass
    request.flags = q.flags
    request.debug = q.server.debug
    request.stacktrace = q.server.stacktrace
    request.worker = q.worker.id
    request.generation = q.generation
    request.query = q
    request.handler = self
    request.queue = (<RequestHandlerState *>self.state).queue
    request.owner = (<RequestHandlerState *>self.state).owner
    request.client = q.client
    request.local = q.local
    request.received = q.received
    request.packet = <uint8_t *>(request + 1)
    request.packet_length = q.packet_length
    memcpy(request.packet, q.packet, q.packet_length)
    request.edns = q.edns
    if q.edns.options_length:
        request.edns.options = request.packet + q.packet_length
        memcpy(request.packet + q.packet_length, q.edns.options, q.edns.options_length)
    wire_name_copy(&request.name, q.name.wire, q.name.length)
    request.task = NULL
    return request


cdef void end_request(Request *request) noexcept nogil:
    """Frees a request that the worker has. The handler may be freed as soon as it counts none."""
    cdef RequestHandlerState *state = <RequestHandlerState *>request.handler.state
    limit_leave(&request.queue.limit, request.worker)
    request_free(request)
    atomic_add32(&state.waiting, <uint32_t>-1)


cdef void abandon_request(Request *request) noexcept nogil:
    """Gives a request that the worker has back to the executor, without an answer from below: a coroutine waits for it."""
    cdef RequestHandlerState *state = <RequestHandlerState *>request.handler.state
    request.kind = REQUEST_ANSWER
    request.answered = 0
    request.rcode = RCODE_SERVFAIL
    limit_leave(&request.queue.limit, request.worker)
    atomic_store32(&request.state, REQUEST_ABANDONED)
    request_push(request.queue, request)
    atomic_add32(&state.waiting, <uint32_t>-1)


cdef void on_request(Mail *mail, Worker *worker) noexcept nogil:
    """The executor has posted a request: with a result, or because the handlers below are to answer."""
    cdef Request *request = <Request *>mail
    cdef Query *q = request.query
    if atomic_load32(&request.state) == REQUEST_ABANDONED or q.generation != request.generation:
        if request.kind == REQUEST_NEXT:
            abandon_request(request)
        else:
            end_request(request)
        return
    (<Scratch *>query_scratch(request.handler, q)).ready = 1
    query_resume(q)


cdef Verdict plugin_resume(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef RequestHandlerState *state = <RequestHandlerState *>self.state
    cdef Request *request = scratch.request
    if q.in_child == CHILD_DONE and not scratch.ready:
        if copy_answer(request, q.child) < 0 or query_park(q, q.worker.now + state.deadline) < 0:
            scratch.request = NULL
            abandon_request(request)
            return query_fail(q, RCODE_SERVFAIL, b"out of memory")
        return push_again(request)
    scratch.ready = 0
    if request.kind == REQUEST_NEXT:
        if query_park(q, q.worker.now + state.deadline) < 0 or query_child(self, q, CHILD_CHAIN, &request.name, request.qtype) < 0:
            request.kind = REQUEST_ANSWER
            request.answered = 0
            request.rcode = RCODE_SERVFAIL
            return push_again(request)
        return PARKED
    if request.verdict == AGAIN:
        return resume_again(self, q, request)
    scratch.request = NULL
    return apply_result(q, request)


cdef inline Verdict push_again(Request *request) noexcept nogil:
    query_await(request.query, &request.queue.limit)
    atomic_store32(&request.state, REQUEST_PENDING)
    request_push(request.queue, request)
    return PARKED


cdef Verdict apply_result(Query *q, Request *request) noexcept nogil:
    """What the plugin decided; frees the request."""
    cdef Verdict verdict = <Verdict>request.verdict
    cdef int status = 0
    if verdict == ANSWERED:
        reply_clear(&q.reply)
        status = reply_parse(&q.reply, request.message, request.message_length)
        if request.verbatim and status == 0:
            q.reply.flags |= load16(request.message + 2) & (FLAG_RD | FLAG_CD)
            q.reply.verbatim = 1
        elif not q.message.edns.present:
            q.reply.edns.present = 0
        if request.ttl_max:
            reply_limit_ttl(&q.reply, request.ttl_max)
        if status < 0:
            verdict = query_fail(q, RCODE_SERVFAIL, b"the plugin's reply is malformed" if status == -1 else b"the plugin's reply is too large")
    elif verdict == FAILED:
        query_fail(q, request.rcode, request.error)
    end_request(request)
    return verdict


cdef Verdict resume_again(Handler *self, Query *q, Request *request) noexcept nogil:
    """The verdict on an earlier query was cached and holds for this one too, unless it has been withdrawn since."""
    cdef RequestHandlerState *state = <RequestHandlerState *>self.state
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef CachedVerdict *cached = find_cached(state, q)
    if cached == NULL and query_park(q, q.worker.now + state.deadline) == 0:
        request.kind = REQUEST_QUERY
        request.call = 1
        return push_again(request)
    scratch.request = NULL
    end_request(request)
    return query_fail(q, RCODE_SERVFAIL, b"out of memory") if cached == NULL else verdicts_apply(cached, q)


cdef int copy_answer(Request *request, Query *child) noexcept nogil:
    """Puts what the handlers below answered into the request, as a message. -1: no memory."""
    request.kind = REQUEST_ANSWER
    request.answered = child.reply.written
    request.rcode = child.reply.rcode
    free(request.message)
    request.message = NULL
    request.message_length = 0
    if not child.reply.written:
        memcpy(request.error, child.error, sizeof(request.error))
        return 0
    child.transport = TRANSPORT_TCP         # the whole message, whatever size the client takes
    finish_fit(child)
    request.message = <uint8_t *>malloc(child.reply.message_size)
    if request.message == NULL:
        return -1
    request.message_length = finish_write(child, request.message)
    return 0


cdef void plugin_abandon(Handler *self, Query *q) noexcept nogil:
    """The deadline has passed, or all slots were taken. A request that the executor has is its own from now on."""
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef RequestHandlerState *state = <RequestHandlerState *>self.state
    cdef Request *request = scratch.request
    cdef RequestQueue *queue = state.queue
    cdef uint64_t one = 1
    metric_add(state.evicted if q.evicted else state.deadlines, q.worker.id, 1)
    if request == NULL:
        return
    scratch.request = NULL
    atomic_add32(&queue.expired, 1)
    if q.child != NULL:                     # the worker has it while the handlers below answer
        abandon_request(request)
        write(queue.alarm, &one, 8)
        return
    if atomic_exchange32(&request.state, REQUEST_ABANDONED) == REQUEST_PENDING:
        # From the exchange on the executor may free the request, and after the last count the handler may go.
        write(queue.alarm, &one, 8)
        limit_leave(&queue.limit, q.worker.id)
        atomic_add32(&state.waiting, <uint32_t>-1)


cdef bint plugin_detach(Handler *self, Worker *worker) noexcept nogil:
    """No query is in the chain any more, but a request may still be in a worker's inbox."""
    return atomic_load32(&(<RequestHandlerState *>self.state).waiting) == 0


cdef double read_deadline(value) except -1:
    seconds = float(value)
    if not 0 < seconds <= DEADLINE_MAX:
        raise ValueError(f"the deadline of a plugin is more than 0 and at most {DEADLINE_MAX} seconds, not {seconds:g}")
    return seconds


cdef object read_memory(str name, value):
    """The number of verdicts. The attribute has a common name: what is no number is the plugin's own business."""
    if isinstance(value, int):
        return value
    Log(f"plugin/{name}").warning(f"its attribute 'memory' is {type(value).__name__} and no number of verdicts: at most {MEMORY} are remembered")
    return MEMORY


cdef class RequestHandler(NativeHandler):
    """The worker's side of PythonHandler."""

    def __init__(self, str name, plugin):
        NativeHandler.__init__(self, name)
        handler_init(self)
        self.plugin = plugin
        self.serve = plugin.serve
        self.waits = inspect.iscoroutinefunction(self.serve)
        self.deadline = <int64_t>(read_deadline(getattr(plugin, "deadline", DEADLINE)) * 1e9)
        zones = getattr(plugin, "zones", None)
        if isinstance(zones, NameMap):
            self.zones = zones
            self.state.names = &(<NameMap>zones).core
            self.handler.prefetch = plugin_prefetch
        elif zones is not None:
            self.zones = ZoneList(list(zones))
            self.state.zones = &(<ZoneList>self.zones).zones
        self.verdicts = Verdicts(name, read_memory(name, getattr(plugin, "memory", MEMORY)))
        attach = getattr(plugin, "_attach", None)
        if attach is not None:          # for Plugin.forget
            attach(self.verdicts)
        self.state.cached = &self.verdicts.table
        self.state.owner = <void *>self
        self.state.deadline = self.deadline
        self.state.queries = QUERIES.cell((name,))
        self.state.rejects = REJECTS.cell((name,))
        self.state.refused = REFUSED.cell((name,))
        self.state.deadlines = DEADLINES.cell((name,))
        self.state.evicted = EVICTED.cell((name,))
        self.state.hits = HITS.cell((name,))
        self.handler.scratch_size = sizeof(Scratch)
        self.handler.query = plugin_query
        self.handler.resume = plugin_resume
        self.handler.abandon = plugin_abandon
        self.handler.detach = plugin_detach
        self.handler.state = &self.state
