"""From question to chain, and the walk of a chain. The contract is in _mux.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdlib cimport malloc, free
from libc.string cimport memcpy, memset, strcmp, strncpy
from libc.stdio cimport snprintf
from fastdns.system.atomic cimport atomic_bump32, atomic_bump64, atomic_bump_count, atomic_load32, atomic_load_pointer, atomic_store32
from fastdns.system.list cimport list_append, list_init, list_remove
from fastdns._wire cimport (Message, Name, CLASS_IN, OPCODE_UPDATE, RCODE_FORMERR, RCODE_NOERROR, RCODE_NOTIMP, RCODE_SERVFAIL, RCODE_REFUSED,
                            RCODE_BADVERS, EDNS_SIZE, OPTION_KEEPALIVE, REJECT_HEADER, flags_opcode, wire_accept_sections, wire_name_copy, wire_option)
from fastdns.message.reply cimport reply_begin, reply_clear, reply_end, reply_own
from fastdns.walk.finish cimport finish_fit, finish_write
from fastdns.walk.query cimport (AGAIN, ANSWERED, CHILD_DEPTH, CHILD_DETACHED, CHILD_DONE, CHILD_MADE, CHILD_MUX, CHILD_NONE, CHILD_RUNS, CHILD_WAITS,
                                 ERROR_MAX, FAILED, NEXT, PARKED, PHASE_DONE, PHASE_DOWN, PHASE_FREE, PHASE_UP, QUERY_DEADLINE, STREAM,
                                 TAILORED_REPLY, TRANSPORT_NONE, UP, Chain, ServerTable, Timer)
from fastdns.walk.prefetch cimport prefetch_batch
from fastdns.walk.match cimport match_zone
from fastdns.walk.observer cimport observe_wait
from fastdns.walk.request cimport request_write
from fastdns.walk.tally cimport tally_dropped, tally_reply
from fastdns.walk.waiting cimport waiting_begin, waiting_choose, waiting_end, waiting_relax

cdef enum:
    DROPPED_FUNCTIONS = 4

cdef void (*mux_dropped[DROPPED_FUNCTIONS])(Query *q) noexcept nogil
cdef uint32_t mux_dropped_count = 0     # atomic: a worker may run meanwhile
cdef Worker *mux_workers[WORKERS_MAX]
cdef uint32_t mux_worker_count = 0


cdef void mux_register(uint32_t id, Worker *worker) noexcept nogil:
    global mux_worker_count
    list_init(&worker.waiting)
    mux_workers[id] = worker
    if id >= mux_worker_count:
        mux_worker_count = id + 1


cdef void mux_count_dropped(void (*count)(Query *q) noexcept nogil) noexcept nogil:
    global mux_dropped_count
    cdef uint32_t i
    for i in range(mux_dropped_count):
        if mux_dropped[i] == count:
            return
    if mux_dropped_count < DROPPED_FUNCTIONS:
        mux_dropped[mux_dropped_count] = count
        atomic_store32(&mux_dropped_count, mux_dropped_count + 1)


# ---- slots ----

cdef Query *take_free(Worker *worker) noexcept nogil:
    cdef Query *q = worker.free
    if q != NULL:
        worker.free = q.next
    elif worker.pool_made < worker.pool_limit:
        q = <Query *>malloc(sizeof(Query))
        if q == NULL:
            return NULL
        atomic_bump32(&worker.pool_made, 1)
        q.generation = 0
        q.evicted = 0
        q.awaited = NULL
        q.fair.group = NULL
    else:
        return NULL
    q.generation += 1
    q.worker = worker
    q.phase = PHASE_DOWN
    q.depth = 0
    q.in_child = CHILD_NONE
    q.parked = 0
    q.parked_up = 0
    q.wildcard = 0
    q.options_made = 0
    q.tailored = 0
    q.packet_owned = 0
    q.cookie = 0
    q.position = 0
    q.deepest = 0
    q.writer = 0xFFFF
    q.floor = 0
    q.timer.deadline = 0
    q.deadline = 0
    q.parent = NULL
    q.child = NULL
    q.stream = NULL
    q.carrier = NULL
    q.connection = NULL
    q.zone = NULL
    q.chain = NULL
    q.error[0] = 0
    reply_begin(&q.reply, &worker.large)
    return q


cdef Query *query_take(Worker *worker) noexcept nogil:
    if worker.parked >= worker.park_limit or worker.free == NULL and worker.pool_made >= worker.pool_limit:
        evict(worker)
    return take_free(worker)


cdef void evict(Worker *worker) noexcept nogil:
    """Fresh questions beat stale ones: of the queries that hold most slots the oldest gets SERVFAIL."""
    cdef Query *q = waiting_choose(worker)
    if q != NULL:
        atomic_bump64(&worker.evicted, 1)
        q.evicted = 1
        fail_parked(q, b"too many queries are waiting")


cdef void unpark(Query *q) noexcept nogil:
    """Takes it out of the list of those that wait."""
    cdef Worker *worker = q.worker
    worker.ops.timer_stop(worker, &q.timer)
    waiting_end(q)
    list_remove(&q.node)
    atomic_bump32(&worker.parked, -1)
    atomic_bump_count(&q.set.parked[worker.id], -1)
    q.parked = 0
    if worker.parked < worker.crowded:
        waiting_relax(worker)


cdef void query_release(Query *q) noexcept nogil:
    cdef Worker *worker = q.worker
    if q.parked:
        unpark(q)
    if q.packet_owned:
        free(<void *>q.packet)
        q.packet_owned = 0
    reply_end(&q.reply)
    q.phase = PHASE_FREE
    q.generation += 1
    q.next = worker.free
    worker.free = q


# ---- the mux (spec/server.md 3) ----

cdef Zone *mux_match(Query *q) noexcept nogil:
    return match_zone(q)


cdef bint find_chain(Query *q) noexcept nogil:
    """Class, EDNS version, zone; False when no chain takes the query: it is answered then, and gone. What is refused counts as dropped."""
    if q.qclass != CLASS_IN and not q.server.any_class:
        refuse(q, RCODE_REFUSED)
        return False
    if q.edns.present and q.edns.version != 0:
        q.reply.written = 1
        q.reply.rcode = RCODE_BADVERS
        q.reply.edns.present = 1
        q.reply.edns.version = 0
        q.reply.edns.udp_size = EDNS_SIZE
        q.reply.edns.flags = 0
        q.message.edns.present = 0          # nothing of the client's OPT is reflected
        finish_fit(q)
        deliver(q)
        return False
    q.zone = match_zone(q)
    if q.zone == NULL:
        refuse(q, RCODE_REFUSED)
        return False
    q.chain = q.zone.chain
    if q.server.takes_updates and flags_opcode(q.message.flags) == OPCODE_UPDATE and (q.chain == NULL or not q.chain.takes_updates):
        refuse(q, RCODE_NOTIMP)
        return False
    memset(q.scratch, 0, q.chain.scratch)
    return True


cdef void refuse(Query *q, uint16_t rcode) noexcept nogil:
    cdef uint32_t i
    q.reply.rcode = rcode
    atomic_bump64(&q.worker.dropped, 1)
    finish_fit(q)
    for i in range(atomic_load32(&mux_dropped_count)):
        mux_dropped[i](q)
    deliver(q)


cdef bint query_enter(Query *q) noexcept nogil:
    return find_chain(q)


cdef bint message_fits_quic(const Message *message) noexcept nogil:
    return message.id == 0 and wire_option(&message.edns, OPTION_KEEPALIVE) == NULL


cdef Acceptance mux_accept_update(Query *q, uint8_t *rcode) noexcept nogil:
    cdef const ServerTable *server = q.worker.set.servers[q.listener]
    if flags_opcode(q.message.flags) != OPCODE_UPDATE or server == NULL or not server.takes_updates:
        return REJECT_HEADER
    rcode[0] = RCODE_FORMERR
    if q.message.counts[0] != 1:
        return REJECT_HEADER
    return wire_accept_sections(q.packet, q.packet_length, &q.message, &q.first_name, rcode)


cdef void query_run(Query *q) noexcept nogil:
    cdef Worker *worker = q.worker
    if find_chain(q):
        walk(q)
    if worker.pending != NULL:
        run_pending(worker)


cdef void query_run_all(Query **queries, uint32_t count) noexcept nogil:
    cdef Worker *worker
    cdef uint32_t i
    if count > 1:
        prefetch_batch(queries, count)
    for i in range(count):
        worker = queries[i].worker
        walk(queries[i])
        if worker.pending != NULL:
            run_pending(worker)


# ---- the walk ----

cdef void walk(Query *q) noexcept nogil:
    """Goes on from q.position in q.phase until the query parks or is complete."""
    cdef Chain *chain = q.chain
    cdef Handler *handler
    cdef Verdict verdict
    cdef uint32_t position
    while True:
        if q.phase == PHASE_DOWN:
            position = q.position
            while True:
                position = chain.next_query[position]
                q.position = position
                if position == chain.count:
                    break
                handler = chain.handlers[position]
                verdict = handler.query(handler, q)
                if verdict != NEXT:
                    break
                position += 1
            if position == chain.count:
                q.deepest = position - 1
                fail_at_end(q)
                verdict = FAILED
            elif position > q.deepest:
                q.deepest = position
        else:
            position = q.position
            while True:
                position = chain.next_reply[position]
                if position <= q.floor:
                    q.position = q.floor
                    complete(q)
                    return
                position -= 1
                q.position = position
                handler = chain.handlers[position]
                verdict = handler.reply(handler, q)
                if verdict != UP:
                    break
        if verdict == PARKED:
            verdict = run_child(q)
            if verdict == PARKED:
                return
        if not apply(q, verdict):
            return


cdef inline bint apply(Query *q, Verdict verdict) noexcept nogil:
    """Takes a verdict of the handler at q.position; False when the query is gone (or waits elsewhere)."""
    if verdict == NEXT:
        q.position += 1
    elif verdict == UP:
        pass
    elif verdict == ANSWERED:
        q.writer = q.position
        q.reply.written = 1
        q.phase = PHASE_UP
    elif verdict == FAILED:
        q.phase = PHASE_UP
    elif verdict == AGAIN:
        reply_clear(&q.reply)
        q.error[0] = 0
        q.phase = PHASE_DOWN
        q.position += 1
    elif verdict == STREAM:
        if q.parent != NULL:        # messages one by one are nothing that a child could hand to its parent
            q.stream.close(q.stream)
            q.stream = NULL
            query_fail(q, RCODE_REFUSED, b"a transfer cannot be asked for inside of another query")
            q.phase = PHASE_UP
            return True
        q.writer = q.position
        q.reply.written = 1
        begin_stream(q)
        return False
    else:
        drop(q)
        return False
    return True


cdef void begin_stream(Query *q) noexcept nogil:
    """The carrier has the query until query_streamed: it keeps its slot and its configuration, but waits in no list and has no deadline."""
    cdef uint32_t i = q.writer
    while i > q.floor:
        i -= 1
        if q.chain.handlers[i].stream != NULL:
            q.chain.handlers[i].stream(q.chain.handlers[i], q)
    q.phase = PHASE_DONE
    if q.parked:
        unpark(q)
    atomic_bump_count(&q.set.parked[q.worker.id], 1)
    if q.carrier != NULL and own_packet(q) == 0:
        q.carrier.stream(q)
    else:
        q.stream.close(q.stream)
        query_streamed(q, 0)


cdef void query_streamed(Query *q, uint32_t size) noexcept nogil:
    atomic_bump_count(&q.set.parked[q.worker.id], -1)
    q.reply.size = size
    q.reply.message_size = size
    run_done(q)
    query_release(q)


cdef void fail_at_end(Query *q) noexcept nogil:
    """No handler took it: spec/server.md 4, NextOrFailure."""
    q.reply.written = 0
    q.reply.rcode = RCODE_SERVFAIL
    snprintf(q.error, ERROR_MAX, b"plugin/%s: no next plugin found", q.chain.handlers[q.chain.count - 1].name)


cdef void run_done(Query *q) noexcept nogil:
    cdef const Chain *chain = q.chain
    cdef uint32_t i = chain.next_done[min(q.deepest + 1, chain.count)]
    cdef Handler *handler
    while i > q.floor:
        i -= 1
        handler = chain.handlers[i]
        handler.done(handler, q)
        i = chain.next_done[i]


cdef void drop(Query *q) noexcept nogil:
    q.phase = PHASE_DONE
    q.reply.written = 0
    q.reply.rcode = RCODE_NOERROR
    reply_clear(&q.reply)
    run_done(q)
    if q.parent != NULL:
        finish_child(q)
        return
    if q.carrier != NULL:
        tally_dropped(q)
        q.carrier.dropped(q)
    query_release(q)


cdef void complete(Query *q) noexcept nogil:
    q.phase = PHASE_DONE
    if not q.reply.written:
        q.reply.count = 0
        q.reply.flags = 0
        q.reply.verbatim = 0
        q.reply.edns.present = 0
        q.reply.overflow = 0
    # A child's reply is raw material, but a CHILD_MUX goes the way of any query, with sizes for metrics and log.
    if q.transport != TRANSPORT_NONE and (q.parent == NULL or q.child_kind == CHILD_MUX):
        finish_fit(q)
    run_done(q)
    deliver(q)


cdef void deliver(Query *q) noexcept nogil:
    if q.parent != NULL:
        finish_child(q)
        return
    if q.carrier != NULL:
        if atomic_load_pointer(<void **>&q.set.tallies) != NULL:
            tally_reply(q)
        q.carrier.send(q)
    query_release(q)


cdef Verdict query_fail(Query *q, uint16_t rcode, const char *error) noexcept nogil:
    q.reply.written = 0
    q.reply.rcode = rcode
    if error != NULL:
        strncpy(q.error, error, ERROR_MAX - 1)
        q.error[ERROR_MAX - 1] = 0
    else:
        q.error[0] = 0
    return FAILED


cdef void query_answer(Query *q, uint16_t rcode, uint16_t flags) noexcept nogil:
    reply_clear(&q.reply)
    q.reply.written = 1
    q.reply.rcode = rcode
    q.reply.flags = flags


# ---- parking ----

cdef void on_deadline(Timer *timer, Worker *worker) noexcept nogil:
    cdef Query *q = <Query *>timer.data
    fail_parked(q, b"too many queries are waiting" if q.evicted else b"deadline exceeded")


cdef int own_packet(Query *q) noexcept nogil:
    """The request's octets become the query's own: the worker's receive buffer is used again after the batch."""
    cdef uint8_t *copy
    if q.packet == q.packet_copy or q.packet_owned or q.packet == NULL:
        return 0
    if q.packet_length <= sizeof(q.packet_copy):
        copy = q.packet_copy
    else:
        copy = <uint8_t *>malloc(q.packet_length)
        if copy == NULL:
            return -1
        q.packet_owned = 1
    memcpy(copy, q.packet, q.packet_length)
    # A handler may have made others, in the query's memory: rewrite.
    if q.packet <= q.message.edns.options <= q.packet + q.packet_length:
        q.message.edns.options = copy + (q.message.edns.options - q.packet)
    if q.packet <= q.edns.options <= q.packet + q.packet_length:
        q.edns.options = copy + (q.edns.options - q.packet)
    q.packet = copy
    return 0


cdef int query_park(Query *q, int64_t deadline) noexcept nogil:
    cdef Worker *worker = q.worker
    if own_packet(q) < 0 or reply_own(&q.reply) < 0:
        return -1
    if not q.parked:
        q.parked = 1
        list_append(&worker.waiting, &q.node)
        atomic_bump32(&worker.parked, 1)
        atomic_bump_count(&q.set.parked[worker.id], 1)
    q.parked_up = q.phase == PHASE_UP
    q.timer.fire = on_deadline
    q.timer.data = q
    if deadline == 0:
        deadline = worker.now + <int64_t>QUERY_DEADLINE * 1000000
    if q.deadline != 0 and q.deadline < deadline:
        deadline = q.deadline
    worker.ops.timer_start(worker, &q.timer, deadline)
    return 0


cdef void query_resume(Query *q) noexcept nogil:
    cdef Handler *handler
    cdef Verdict verdict
    cdef Worker *worker = q.worker
    if not q.parked or q.phase == PHASE_FREE:
        return
    worker.ops.timer_stop(worker, &q.timer)
    waiting_end(q)
    observe_wait(q, False)
    q.evicted = 0                           # what it waited for came first
    handler = q.chain.handlers[q.position]
    verdict = handler.resume(handler, q) if handler.resume != NULL else query_fail(q, RCODE_SERVFAIL, b"resumed a handler that cannot be")
    release_child(q)
    if verdict == PARKED:
        verdict = run_child(q)
    if verdict != PARKED and apply(q, verdict):
        walk(q)
    if worker.pending != NULL:
        run_pending(worker)


cdef void fail_parked(Query *q, const char *error) noexcept nogil:
    """Ends the parking: the handler's `abandon` runs, and the client gets SERVFAIL."""
    cdef Handler *handler = q.chain.handlers[q.position]
    cdef Worker *worker = q.worker
    cdef Query *child = q.child
    worker.ops.timer_stop(worker, &q.timer)
    waiting_end(q)
    observe_wait(q, False)
    if handler.abandon != NULL:
        handler.abandon(handler, q)
    q.evicted = 0
    q.child = NULL
    q.in_child = CHILD_NONE
    if child != NULL:                       # its result is not wanted, nor what it waits for
        child.parent = NULL
        child.transport = TRANSPORT_NONE
        if child.parked:
            fail_parked(child, error)
    reply_clear(&q.reply)
    query_fail(q, RCODE_SERVFAIL, error)
    q.phase = PHASE_UP
    walk(q)
    if worker.pending != NULL:
        run_pending(worker)


# ---- children ----

cdef Query *make_child(Handler *self, Query *q, ChildKind kind, const Name *name, uint16_t qtype) noexcept nogil:
    cdef Query *child
    if q.depth >= CHILD_DEPTH:
        return NULL
    child = take_free(q.worker)
    if child == NULL:
        return NULL
    if name == NULL:
        name = q.name
        qtype = q.qtype
    child.depth = q.depth + 1
    child.child_kind = <uint8_t>kind
    child.transport = TRANSPORT_NONE if kind == CHILD_DETACHED else q.transport
    child.listener = q.listener
    child.client = q.client
    child.local = q.local
    if kind == CHILD_DETACHED:
        memset(&child.client, 0, sizeof(child.client))
        child.client.family = 4
    child.received = q.worker.now
    child.deadline = 0 if kind == CHILD_DETACHED else q.deadline
    child.set = q.set
    child.server = q.server
    wire_name_copy(&child.first_name, name.wire, name.length)
    child.name = &child.first_name
    child.qtype = qtype
    child.qclass = q.qclass if kind != CHILD_MUX else CLASS_IN
    child.flags = q.flags & 0x87FF
    child.message.id = 0
    child.message.flags = q.message.flags & 0x87FF
    child.message.qtype = qtype
    child.message.qclass = child.qclass
    child.message.tsig = 0
    child.message.soa_serial_found = 0
    memset(child.message.counts, 0, sizeof(child.message.counts))
    child.message.counts[0] = 1
    child.edns = q.edns
    child.client_edns = q.client_edns
    child.client_size = q.client_size
    request_write(child)
    if kind == CHILD_MUX:
        return child
    child.zone = q.zone
    child.chain = q.chain
    child.position = self.index + 1
    child.deepest = self.index + 1
    child.floor = self.index + 1
    memset(child.scratch, 0, q.chain.scratch)
    return child


cdef int query_child(Handler *self, Query *q, ChildKind kind, const Name *name, uint16_t qtype) noexcept nogil:
    cdef Query *child
    if kind == CHILD_DETACHED:
        return -1 if query_detached(self, q) == NULL else 0
    if not q.parked or q.in_child == CHILD_MADE or q.in_child == CHILD_WAITS:
        return -1
    child = make_child(self, q, kind, name, qtype)
    if child == NULL:
        return -1
    release_child(q)
    child.parent = q
    child.parent_generation = q.generation
    q.child = child
    q.in_child = CHILD_MADE
    return 0


cdef Query *query_detached(Handler *self, Query *q) noexcept nogil:
    cdef Query *child = make_child(self, q, CHILD_DETACHED, NULL, 0)
    if child != NULL:
        child.next = q.worker.pending
        q.worker.pending = child
    return child


cdef void start(Query *child) noexcept nogil:
    if child.chain != NULL or find_chain(child):
        walk(child)


cdef void run_pending(Worker *worker) noexcept nogil:
    cdef Query *child
    while worker.pending != NULL:
        child = worker.pending
        worker.pending = child.next
        start(child)


cdef Verdict run_child(Query *q) noexcept nogil:
    """After a hook returned PARKED: runs the child it made, if any, and the handler's resume when that is through at once."""
    cdef Handler *handler
    cdef Verdict verdict
    while q.in_child == CHILD_MADE:
        q.in_child = CHILD_RUNS
        start(q.child)
        if q.in_child != CHILD_DONE:
            q.in_child = CHILD_WAITS
            return PARKED
        q.worker.ops.timer_stop(q.worker, &q.timer)
        handler = q.chain.handlers[q.position]
        verdict = handler.resume(handler, q)
        release_child(q)
        if verdict != PARKED:
            return verdict
    waiting_begin(q)
    observe_wait(q, True)
    return PARKED


cdef void release_child(Query *q) noexcept nogil:
    """The child whose reply `resume` has seen goes back to the pool."""
    if q.in_child == CHILD_DONE:
        query_release(q.child)
        q.child = NULL
        q.in_child = CHILD_NONE


cdef void finish_child(Query *child) noexcept nogil:
    cdef Query *parent = child.parent
    child.phase = PHASE_DONE
    if parent.generation != child.parent_generation or parent.child != child:
        query_release(child)
        return
    if child.tailored:
        parent.tailored |= TAILORED_REPLY
    if parent.in_child == CHILD_RUNS:
        parent.in_child = CHILD_DONE
        return
    parent.in_child = CHILD_DONE
    query_resume(parent)


cdef uint32_t query_write(Query *q, uint8_t *out) noexcept nogil:
    return finish_write(q, out)


# ---- the Python side ----

cdef class NativeHandler:
    def __cinit__(self, *args, **kwargs):
        memset(&self.handler, 0, sizeof(Handler))
        self.set_name("")

    def __init__(self, str name=""):
        if name:
            self.set_name(name)

    cpdef set_name(self, str name):
        self.name = name
        self._name = name.encode()
        self.handler.name = self._name

    cpdef attach(self, list servers, str view):
        pass

    cpdef attach_zones(self, list zones):
        pass

    cpdef close(self):
        pass

    cpdef set_traits(self, traits):
        self.traits = traits
        self.handler.any_class = traits.any_class
        self.handler.takes_updates = traits.takes_updates
        self.handler.side_effects = traits.side_effects


cdef uint32_t label_count(list servers) except 0:
    return max([label for label, _ in servers], default=0) + 1


cdef int handler_accept(NativeHandler handler, const char *version, const char *fingerprint, uint64_t layout) except -1:
    if strcmp(fingerprint, FASTDNS_API_FINGERPRINT) != 0:
        raise ValueError(
            "%s was built against fastdns %s with API fingerprint %s; this is fastdns %s with API fingerprint %s: rebuild it against this one"
            % (type(handler).__module__, version.decode(), fingerprint.decode(), FASTDNS_API_VERSION.decode(), FASTDNS_API_FINGERPRINT.decode()))
    if layout != api_layout():
        raise ValueError("%s was built with a compiler or options that lay out structs otherwise than fastdns %s (layout %016x, here %016x): "
                         "rebuild it with those of this build" % (type(handler).__module__, FASTDNS_API_VERSION.decode(), layout, api_layout()))
    handler.handler.accepted = 1
    return 0


def api():
    return FASTDNS_API_VERSION.decode(), FASTDNS_API_FINGERPRINT.decode()
