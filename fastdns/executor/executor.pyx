"""The Python lane. The contract is in executor/executor.pxd, what plugin authors see in plugin.py and query.py."""
import inspect
import os
import threading
import time as _time

from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from libc.errno cimport errno
from cpython.ref cimport Py_INCREF, Py_DECREF
from fastdns.system.atomic cimport atomic_add32, atomic_exchange32, atomic_load32, atomic_peek8, atomic_poke8
from fastdns.system.mailbox cimport (Mailbox, mailbox_begin_sleep, mailbox_clear, mailbox_end_sleep, mailbox_interrupt, mailbox_open, mailbox_post,
                                     mailbox_take)
from fastdns.walk.finish cimport finish_fit, finish_write
from fastdns.telemetry.metrics cimport Metric, metric_add
from fastdns.walk.query cimport AGAIN, ANSWERED, CHILD_CHAIN, CHILD_DONE, DROPPED, FAILED, NEXT, PARKED, TRANSPORT_TCP, Worker, query_scratch
from fastdns._mux cimport handler_init, mux_workers, query_child, query_fail, query_park, query_resume
from fastdns.message.reply cimport reply_clear, reply_limit_ttl, reply_parse
from fastdns.system.socket cimport EFD_CLOEXEC, POLLIN, eventfd, poll, pollfd, read, socket_clock, write
from fastdns._wire cimport FLAG_CD, FLAG_RD, RCODE_SERVFAIL, Name, load16, wire_name_copy
from fastdns.executor.result cimport outcome_report, outcome_write
from fastdns.executor.request cimport TICKET_ASK, TICKET_BELOW, TICKET_QUERY, TICKET_VERDICT, PluginQuery, Ticket
from fastdns.executor.verdict_cache cimport Memo, memos_find
from fastdns.executor.verdicts cimport MEMORY, flags_remember, verdicts_apply
from fastdns.index.zone_list cimport zones_hold
from fastdns._wire import name_wire
from fastdns.executor.query import PASS, Answer, Failure, Query as PythonQuery

cdef enum:
    FRAMES_MAX = 50                 # of a traceback in the log, the innermost
    HANG = 500000000                # ns at one ticket, with a deadline passing meanwhile, that make a thread a hung one

cdef struct Lane:                   # the one queue of the process
    Mailbox mailbox                 # of tickets; the lane's thread consumes it
    uint32_t waiting                # tickets out of a worker's hands
    uint32_t expired                # deadlines that passed since the watchman last looked
    int alarm                       # eventfd of the watchman

cdef Lane lane
lane.mailbox.wake = -1
lane.alarm = -1

cdef struct LaneScratch:            # in each query, for the handler that parked it
    Ticket *ticket
    uint8_t ready                   # `ticket` carries a verdict or a wish: resume was called for it


# ---- on the worker ----

cdef Verdict lane_query(Handler *self, Query *q) noexcept nogil:
    cdef PythonHandlerState *state = <PythonHandlerState *>self.state
    cdef LaneScratch *scratch = <LaneScratch *>query_scratch(self, q)
    cdef Ticket *ticket
    cdef Memo *memo
    if state.zones != NULL and not zones_hold(state.zones, q.name):
        return NEXT
    memo = recall(state, q)
    if memo != NULL:
        return verdicts_apply(memo, q)
    metric_add(state.queries, q.worker.id, 1)
    if atomic_add32(&lane.waiting, 1) > TICKETS_MAX:
        atomic_add32(&lane.waiting, <uint32_t>-1)
        metric_add(state.rejects, q.worker.id, 1)
        return query_fail(q, RCODE_SERVFAIL, b"too many queries wait for Python")
    ticket = take_ticket(self, q)
    if ticket == NULL:
        atomic_add32(&lane.waiting, <uint32_t>-1)
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    atomic_add32(&state.waiting, 1)
    if query_park(q, q.worker.now + state.deadline) < 0:
        give_ticket(ticket)
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    scratch.ticket = ticket
    scratch.ready = 0
    push(ticket)
    return PARKED


cdef inline Memo *recall(PythonHandlerState *state, Query *q) noexcept nogil:
    """What the plugin said already, for as long as it said."""
    cdef Memo *memo = NULL
    if flags_remember(q.flags):
        memo = memos_find(state.remembered, q.name, q.qtype, q.qclass, &q.client, q.worker.now)
        if memo != NULL:
            metric_add(state.hits, q.worker.id, 1)
    return memo


cdef Ticket *take_ticket(Handler *self, Query *q) noexcept nogil:
    cdef Ticket *ticket = <Ticket *>malloc(sizeof(Ticket) + q.packet_length + q.edns.options_length)
    if ticket == NULL:
        return NULL
    memset(ticket, 0, sizeof(Ticket) - sizeof(Name) - 8)
    ticket.kind = TICKET_QUERY
    ticket.transport = q.transport
    ticket.qtype = q.qtype
    ticket.qclass = q.qclass
    ticket.flags = q.flags
    ticket.debug = q.server.debug
    ticket.stacktrace = q.server.stacktrace
    ticket.worker = q.worker.id
    ticket.generation = q.generation
    ticket.query = q
    ticket.handler = self
    ticket.owner = (<PythonHandlerState *>self.state).owner
    ticket.client = q.client
    ticket.local = q.local
    ticket.received = q.received
    ticket.packet = <uint8_t *>(ticket + 1)
    ticket.packet_length = q.packet_length
    memcpy(ticket.packet, q.packet, q.packet_length)
    ticket.edns = q.edns
    if q.edns.options_length:
        ticket.edns.options = ticket.packet + q.packet_length
        memcpy(ticket.packet + q.packet_length, q.edns.options, q.edns.options_length)
    wire_name_copy(&ticket.name, q.name.wire, q.name.length)
    ticket.task = NULL
    return ticket


cdef void give_ticket(Ticket *ticket) noexcept nogil:
    atomic_add32(&lane.waiting, <uint32_t>-1)
    atomic_add32(&(<PythonHandlerState *>ticket.handler.state).waiting, <uint32_t>-1)
    free(ticket.message)
    free(ticket)


cdef void push(Ticket *ticket) noexcept nogil:
    """Hands a ticket to the lane."""
    mailbox_post(&lane.mailbox, &ticket.mail.item)


cdef void on_ticket(Mail *mail, Worker *worker) noexcept nogil:
    """The lane is through with a ticket, or wants the handlers below to answer."""
    cdef Ticket *ticket = <Ticket *>mail
    cdef Query *q = ticket.query
    if atomic_peek8(&ticket.abandoned) or q.generation != ticket.generation:
        atomic_poke8(&ticket.abandoned, 1)
        if ticket.kind == TICKET_ASK:       # a coroutine waits for this: it hears that nobody else does
            ticket.kind = TICKET_BELOW
            ticket.answered = 0
            push(ticket)
        else:
            give_ticket(ticket)
        return
    (<LaneScratch *>query_scratch(ticket.handler, q)).ready = 1
    query_resume(q)


cdef Verdict lane_resume(Handler *self, Query *q) noexcept nogil:
    cdef LaneScratch *scratch = <LaneScratch *>query_scratch(self, q)
    cdef PythonHandlerState *state = <PythonHandlerState *>self.state
    cdef Ticket *ticket = scratch.ticket
    cdef int status
    if q.in_child == CHILD_DONE and not scratch.ready:
        if carry_child(ticket, q.child) < 0 or query_park(q, q.worker.now + state.deadline) < 0:
            atomic_poke8(&ticket.abandoned, 1)      # the lane still waits for an answer from below: it finds out there
            push(ticket)
            scratch.ticket = NULL
            return query_fail(q, RCODE_SERVFAIL, b"out of memory")
        push(ticket)
        return PARKED
    scratch.ready = 0
    if ticket.kind == TICKET_ASK:
        if query_park(q, q.worker.now + state.deadline) < 0 or query_child(self, q, CHILD_CHAIN, &ticket.name, ticket.qtype) < 0:
            ticket.kind = TICKET_BELOW
            ticket.answered = 0
            ticket.rcode = RCODE_SERVFAIL
            push(ticket)
        return PARKED
    if ticket.verdict == AGAIN:
        return resume_again(self, q, ticket)
    scratch.ticket = NULL
    if ticket.verdict == NEXT:
        give_ticket(ticket)
        return NEXT
    if ticket.verdict == ANSWERED:
        reply_clear(&q.reply)
        status = reply_parse(&q.reply, ticket.message, ticket.message_length)
        if ticket.verbatim and status == 0:
            q.reply.flags |= load16(ticket.message + 2) & (FLAG_RD | FLAG_CD)
            q.reply.verbatim = 1
        if ticket.ttl_most:
            reply_limit_ttl(&q.reply, ticket.ttl_most)
        give_ticket(ticket)
        if status < 0:
            return query_fail(q, RCODE_SERVFAIL, b"the plugin's reply is malformed")
        return ANSWERED
    if ticket.verdict == DROPPED:
        give_ticket(ticket)
        return DROPPED
    query_fail(q, ticket.rcode, ticket.error)
    give_ticket(ticket)
    return FAILED


cdef Verdict resume_again(Handler *self, Query *q, Ticket *ticket) noexcept nogil:
    """A query before this one had the plugin say what holds for both; unless that has gone in the meantime."""
    cdef PythonHandlerState *state = <PythonHandlerState *>self.state
    cdef LaneScratch *scratch = <LaneScratch *>query_scratch(self, q)
    cdef Memo *memo = recall(state, q)
    if memo == NULL and query_park(q, q.worker.now + state.deadline) == 0:
        ticket.kind = TICKET_QUERY
        ticket.insists = 1
        push(ticket)
        return PARKED
    scratch.ticket = NULL
    give_ticket(ticket)
    return query_fail(q, RCODE_SERVFAIL, b"out of memory") if memo == NULL else verdicts_apply(memo, q)


cdef int carry_child(Ticket *ticket, Query *child) noexcept nogil:
    """Puts what the handlers below answered into the ticket, as a message."""
    ticket.kind = TICKET_BELOW
    ticket.answered = child.reply.written
    ticket.rcode = child.reply.rcode
    free(ticket.message)
    ticket.message = NULL
    ticket.message_length = 0
    if not child.reply.written:
        memcpy(ticket.error, child.error, sizeof(ticket.error))
        return 0
    child.transport = TRANSPORT_TCP         # whole, whatever the client takes
    if finish_fit(child) < 0:
        ticket.answered = 0
        return 0
    ticket.message = <uint8_t *>malloc(child.reply.message_size)
    if ticket.message == NULL:
        return -1
    ticket.message_length = finish_write(child, ticket.message)
    return 0


cdef void lane_abandon(Handler *self, Query *q) noexcept nogil:
    """The deadline: the ticket stays with the lane, which learns here that nobody waits."""
    cdef LaneScratch *scratch = <LaneScratch *>query_scratch(self, q)
    cdef PythonHandlerState *state = <PythonHandlerState *>self.state
    cdef uint64_t one = 1
    metric_add(state.deadlines, q.worker.id, 1)
    if scratch.ticket == NULL:
        return
    atomic_poke8(&scratch.ticket.abandoned, 1)
    if q.child != NULL:                     # the lane waits for the handlers below: nobody will tell it any more but this
        scratch.ticket.kind = TICKET_BELOW
        scratch.ticket.answered = 0
        scratch.ticket.rcode = RCODE_SERVFAIL
        push(scratch.ticket)
    scratch.ticket = NULL
    atomic_add32(&lane.expired, 1)
    write(lane.alarm, &one, 8)


# ---- handlers ----

cdef class PythonHandler(NativeHandler):
    """The chain's handler for a plugin object that has `serve(query)` or `async serve(query, next)`; see plugin.Plugin.

    A plugin may say `zones` (names outside of them pass by without Python), `deadline` (seconds; default 5) and `memory` (verdicts that are
    remembered at most; default 65,536)."""

    def __init__(self, str name, plugin):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.plugin = plugin
        self.serve = plugin.serve
        self.waits = inspect.iscoroutinefunction(self.serve)
        self.deadline = <int64_t>(float(getattr(plugin, "deadline", 5.0)) * 1e9)
        zones = getattr(plugin, "zones", None)
        if zones is not None:
            self.zone_list = ZoneList(list(zones))
            self.state.zones = &self.zone_list.zones
        self.zones = self.zone_list
        self.verdicts = Verdicts(name, getattr(plugin, "memory", MEMORY))
        attach = getattr(plugin, "_attach", None)
        if attach is not None:          # what it may withdraw
            attach(self.verdicts)
        self.state.remembered = &self.verdicts.table
        self.state.hits = HITS.cell((name,))
        self.state.owner = <void *>self
        self.state.deadline = self.deadline
        self.state.queries = QUERIES.cell((name,))
        self.state.rejects = REJECTS.cell((name,))
        self.state.deadlines = DEADLINES.cell((name,))
        self.handler.scratch_size = sizeof(LaneScratch)
        self.handler.query = lane_query
        self.handler.resume = lane_resume
        self.handler.abandon = lane_abandon
        self.handler.detach = lane_detach
        self.handler.state = &self.state
        begin()

    cpdef close(self):
        self.verdicts.forget()
        closing = getattr(self.plugin, "close", None)
        if closing is not None:
            closing()


cdef bint lane_detach(Handler *self, Worker *worker) noexcept nogil:
    """No query is in the chain any more, but the lane may still be at a ticket of this handler."""
    return atomic_load32(&(<PythonHandlerState *>self.state).waiting) == 0

QUERIES = Metric("fastdns_plugin_queries_total", "Counter of queries that a Python plugin was asked.", "counter", ("plugin",))
REJECTS = Metric("fastdns_plugin_rejects_total", "Counter of queries refused because too many waited for Python.", "counter", ("plugin",))
DEADLINES = Metric("fastdns_plugin_deadlines_total", "Counter of queries that a Python plugin did not answer in time.", "counter", ("plugin",))
HITS = Metric("fastdns_plugin_remembered_hits_total", "Counter of queries that a remembered verdict of a Python plugin was applied to.", "counter",
              ("plugin",))
PANICS = Metric("coredns_panics_total", "A metrics that counts the number of panics.", "counter")
REPLACED = Metric("fastdns_lane_replaced_total", "Counter of lane threads that hung and were replaced.", "counter", ())


# ---- the lane's thread ----

cdef object _thread = None          # that drains; another one means this one was replaced
cdef object _watchman = None
cdef object _starting = threading.Lock()
cdef int64_t _busy_since = 0        # ns; the drainer has been at one ticket since then
cdef object _loop = None            # asyncio's, once a plugin has a coroutine
cdef dict _tasks = {}               # asyncio task -> PluginQuery


cdef int begin() except -1:
    """Starts the lane with its first handler."""
    global _watchman
    with _starting:
        if lane.mailbox.wake < 0:
            lane.alarm = eventfd(0, EFD_CLOEXEC)
            if mailbox_open(&lane.mailbox) < 0 or lane.alarm < 0:
                raise OSError(errno, os.strerror(errno))
            start_thread()
            _watchman = threading.Thread(target=watch, name="lane-watch", daemon=True)
            _watchman.start()
    return 0


cdef int start_thread() except -1:
    global _thread
    _thread = threading.Thread(target=drain, name="lane", daemon=True)
    _thread.start()
    return 0


def drain():
    """The lane: serves tickets in the order in which they came, until it is replaced."""
    cdef Ticket *ticket
    cdef pollfd watched
    me = threading.current_thread()
    while _thread is None:
        _time.sleep(0.0001)
    watched.fd = lane.mailbox.wake
    watched.events = POLLIN
    while _thread is me and _loop is None:
        ticket = <Ticket *>mailbox_take(&lane.mailbox)
        if ticket == NULL:
            with nogil:
                if mailbox_begin_sleep(&lane.mailbox):
                    poll(&watched, 1, -1)
                mailbox_end_sleep(&lane.mailbox)
                mailbox_clear(&lane.mailbox)
            continue
        serve_all(ticket, me)
    if _thread is me and _loop is not None:
        run_loop()


cdef int serve_all(Ticket *ticket, me) except -1:
    """Serves tickets, the oldest first. When this thread is replaced midway its successor gets the rest."""
    global _busy_since
    cdef Ticket *ordered = ticket
    cdef Ticket *following
    while ordered != NULL:
        if _thread is not me:
            while ordered != NULL:
                following = <Ticket *>ordered.mail.item.next
                push(ordered)
                ordered = following
            return 0
        following = <Ticket *>ordered.mail.item.next
        _busy_since = socket_clock()
        serve_one(ordered)
        if _thread is me:           # or this thread was left behind, and the clock is its successor's
            _busy_since = 0
        ordered = following
    return 0


cdef int serve_one(Ticket *ticket) except -1:
    cdef PythonHandler handler = <PythonHandler>ticket.owner
    cdef PluginQuery query
    if ticket.kind == TICKET_BELOW:
        query = <PluginQuery>ticket.task
        settle_below(query)
        return 0
    if atomic_peek8(&ticket.abandoned):
        finish(ticket, NEXT)
        return 0
    if handler.verdicts.table.count and not ticket.insists and flags_remember(ticket.flags) and (
            handler.verdicts.holds(&ticket.name, ticket.qtype, ticket.qclass, &ticket.client)):
        finish(ticket, AGAIN)
        return 0
    query = PythonQuery.__new__(PythonQuery)
    query.ticket = ticket
    query.debug = ticket.debug
    query.stacktrace = ticket.stacktrace
    query.handler = handler
    query.forgets = handler.verdicts.table.forgets
    try:
        if handler.waits:
            serve_coroutine(handler, query)
            return 0
        conclude(query, handler.serve(query))
    except BaseException as error:
        fail(query, error)
    return 0


cdef int conclude(PluginQuery query, outcome) except -1:
    """Posts what a plugin returned: PASS (or None), DROP, a Reply, a Failure, a dnslib record, a message's octets; or a verdict to be remembered."""
    cdef PythonHandler handler = query.handler
    if query.ticket == NULL:
        return 0
    if query._below is not None:    # it did not wait for the plugins below, and the ticket is theirs until they are through
        query._outcome = (outcome,)
        return 0
    settle(query, outcome_write(query, outcome, handler.verdicts, handler.name))
    return 0


cdef int fail(PluginQuery query, error) except -1:
    """An exception is SERVFAIL for its query, a line in the log and counts; with debug or stacktrace its traceback is logged too."""
    cdef PythonHandler handler = query.handler
    cancelled = type(error).__name__ == "CancelledError"
    if cancelled and query.ticket != NULL and atomic_peek8(&query.ticket.abandoned):
        conclude(query, PASS)
        return 0
    if not query.debug and not cancelled:       # CoreDNS counts what it recovers from: with debug nothing, and a cancelled context is no panic
        PANICS.add(())
    text = f"{type(error).__name__}: {error}"
    if not isinstance(error, Exception) and not cancelled:
        text = f"RuntimeError: {text}"
    frame = error.__traceback__
    place = ""
    while frame is not None:
        place = f" ({os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno})"
        frame = frame.tb_next
    log = outcome_report(handler.name, f"{text}{place}")
    if query.debug or query.stacktrace:
        import traceback
        # Each line as one of ours: an exception's text may come from the network.
        for part in traceback.format_exception(error, limit=-FRAMES_MAX):
            for line in part.splitlines():
                log.error(line)
    if query.ticket == NULL:
        return 0
    conclude(query, Failure(RCODE_SERVFAIL, f"plugin/{handler.name}: {text}"))
    return 0


cdef void settle(PluginQuery query, Verdict verdict):
    cdef Ticket *ticket = query.ticket
    query.ticket = NULL
    if ticket.task != NULL:
        Py_DECREF(<object>ticket.task)
        ticket.task = NULL
    finish(ticket, verdict)


cdef void finish(Ticket *ticket, Verdict verdict) noexcept:
    """Back to the worker, which frees it."""
    cdef Worker *worker = mux_workers[ticket.worker]
    ticket.kind = TICKET_VERDICT
    ticket.verdict = <uint8_t>verdict
    ticket.mail.run = on_ticket
    worker.ops.post(worker, &ticket.mail)


# ---- coroutines ----

cdef int serve_coroutine(PythonHandler handler, PluginQuery query) except -1:
    """Runs `async def serve(query, next)` as a task of the lane's event loop, which starts with the first of them."""
    global _loop
    if _loop is None:
        import asyncio
        try:
            import uvloop
            _loop = uvloop.new_event_loop()
        except ImportError:
            _loop = asyncio.new_event_loop()
    task = _loop.create_task(run_coroutine(handler, query))
    _tasks[task] = query
    task.add_done_callback(forget)
    return 0


def forget(task):
    _tasks.pop(task, None)


async def run_coroutine(PythonHandler handler, PluginQuery query):
    try:
        conclude(query, await handler.serve(query, Next(query)))
    except BaseException as error:
        fail(query, error)


def run_loop():
    """The lane's thread once there are coroutines: asyncio's loop, woken by the same eventfd."""
    me = threading.current_thread()
    loop = _loop
    loop.add_reader(lane.mailbox.wake, on_readable, me, loop)
    mailbox_begin_sleep(&lane.mailbox)
    loop.call_soon(on_readable, me, loop)
    loop.run_forever()


def on_readable(me, loop):
    """Serves what waits. A thread that was left behind has no more say: it ends its own loop, never its successor's."""
    cdef Ticket *ticket
    if _thread is not me:
        leave(loop)
        return
    mailbox_clear(&lane.mailbox)
    if atomic_exchange32(&lane.expired, 0):
        for task, query in list(_tasks.items()):
            if task.get_loop() is loop and (<PluginQuery>query).ticket != NULL and atomic_peek8(&(<PluginQuery>query).ticket.abandoned):
                task.cancel()
    while True:
        mailbox_end_sleep(&lane.mailbox)
        ticket = <Ticket *>mailbox_take(&lane.mailbox)
        if ticket != NULL:
            serve_all(ticket, me)
        if _thread is not me:
            leave(loop)
            return
        if mailbox_begin_sleep(&lane.mailbox):
            return


def leave(loop):
    """Ends the loop of a thread that hung: its coroutines are cancelled, and a wake-up it may have taken goes to its successor."""
    loop.remove_reader(lane.mailbox.wake)
    mailbox_interrupt(&lane.mailbox)
    for task in list(_tasks):
        if task.get_loop() is loop:
            task.cancel()
    loop.call_soon(loop.call_soon, loop.stop)


class Next:
    """What ``async def serve(self, query, next)`` awaits to have the plugins below answer: ``answer = await next(query)``.

    Another name (text) or type (number) may be asked instead of the query's own. The answer is a query.Answer."""

    __slots__ = ("_query",)

    def __init__(self, query):
        self._query = query

    async def __call__(self, query=None, *, name=None, qtype=None):
        return await ask_below(self._query, name, qtype)


def ask_below(PluginQuery query, name, qtype):
    """A future for what the handlers below answer."""
    cdef Ticket *ticket
    cdef Worker *worker
    query._check()
    if query._below is not None:
        raise RuntimeError("the query is below already: await one next() after the other")
    ticket = query.ticket
    query._asked = (query.name_wire, ticket.qtype)
    if name is not None:
        wire = name_wire(name)
        wire_name_copy(&ticket.name, wire, <int>len(wire))
    if qtype is not None:
        ticket.qtype = qtype
    import asyncio
    query._below = future = asyncio.get_running_loop().create_future()
    if ticket.task == NULL:
        Py_INCREF(query)
        ticket.task = <void *>query
    ticket.kind = TICKET_ASK
    ticket.mail.run = on_ticket
    worker = mux_workers[ticket.worker]
    worker.ops.post(worker, &ticket.mail)
    return future


cdef int settle_below(PluginQuery query) except -1:
    cdef Ticket *ticket = query.ticket
    cdef bytes asked
    future, query._below = query._below, None
    # The query is its own again, whatever was asked below.
    asked, ticket.qtype = query._asked
    wire_name_copy(&ticket.name, asked, <int>len(asked))
    if query._outcome is not None:
        outcome, query._outcome = query._outcome[0], None
        if not future.done():
            future.cancel()
        try:
            conclude(query, outcome)
        except Exception as error:
            fail(query, error)
        return 0
    if atomic_peek8(&ticket.abandoned):
        if not future.done():
            future.cancel()
        return 0
    message = ticket.message[:ticket.message_length] if ticket.answered else None
    error = (<bytes>ticket.error).decode("utf-8", "replace")
    answer = Answer(message, ticket.rcode, error)
    if future.get_loop() is _loop:
        hand_over(future, answer)
    else:                           # of a thread that was left behind
        future.get_loop().call_soon_threadsafe(hand_over, future, answer)
    return 0


def hand_over(future, answer):
    if not future.done():
        future.set_result(answer)


# ---- the watchman ----

def watch():
    """Woken by a deadline that passed: when the lane's thread has been at one ticket for that long, another thread takes over."""
    cdef uint64_t count
    cdef int64_t since
    while True:
        with nogil:
            read(lane.alarm, &count, 8)
        loop, thread = _loop, _thread
        since = _busy_since
        if since and socket_clock() - since > HANG:
            REPLACED.add(())
            replace_thread()
        elif loop is not None:
            loop.call_soon_threadsafe(on_readable, thread, loop)


cdef int replace_thread() except -1:
    global _busy_since, _loop
    from fastdns.telemetry.log import Log
    Log().error("a Python plugin hangs: its thread is left behind, and another takes the queries that wait")
    _busy_since = 0
    _loop = None
    start_thread()
    return 0
