"""From question to chain: what a native plugin cimports.

A plugin's handler is a `NativeHandler` that owns a `Handler`: C function pointers (hooks) and a state pointer. A chain is an array of
handlers; the walk is a loop, so a query parks by remembering its position. Only the worker that owns a query walks it.

    prefetch        before `query`, for the queries of one batch in turn: has the CPU fetch what `query` will read, and does nothing else
    prefetch_next   in the next round, after `prefetch` or `prefetch_next` returned PREFETCH_NEXT
    query   going down: answer it, pass it on, fail, drop, park or stream
    reply   coming up, for every handler passed on the way down, in reverse: there is a message (q.reply.written) or a failure
    resume  the handler that parked goes on: its child is done, its answer came (query_post), or whatever it waited for
    done    after the message is fitted: final rcode, sizes; also for dropped queries (not written, rcode 0). For handlers passed or answering, innermost first
    stream  the connection is given to q.stream, for every handler passed on the way down, in reverse: it may put a stream around it
    abandon parked here, and the query has ended (deadline, client gone); it must not be touched afterwards
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns._wire cimport ACCEPT, IGNORE, RCODE_NOTIMP, REJECT_HEADER, Acceptance, Message, Name, wire_accept
from fastdns.system.atomic cimport atomic_load_pointer
from fastdns.walk.canary cimport canary_choose
from fastdns.walk.layout cimport FASTDNS_API_FINGERPRINT, FASTDNS_API_VERSION, api_layout
from fastdns.walk.query cimport (TRANSPORT_QUIC, WORKERS_MAX, Canary, Carrier, ChainSet, ChildKind, Handler, Query, Transport, Verdict, Worker, Zone,
                                 filter_func, query_note_client)

cdef Worker *mux_workers[WORKERS_MAX]   # all that run
cdef uint32_t mux_worker_count
cdef void mux_register(uint32_t id, Worker *worker) noexcept nogil      # the engine, as it makes them

# ---- what hooks call ----

# Nothing written: rcode SERVFAIL, REFUSED, FORMERR or NOTIMP, and the error's text for errors and log (NULL or "" for none). Returns FAILED.
cdef Verdict query_fail(Query *q, uint16_t rcode, const char *error) noexcept nogil
# Begins an answer: written, flags (AA...) and rcode set, no records.
cdef void query_answer(Query *q, uint16_t rcode, uint16_t flags) noexcept nogil
# Before PARKED: the query keeps its slot; packet and borrowed spans are copied. deadline in ns,
# monotonic (0: QUERY_DEADLINE from now). -1: cannot park (answer at once or fail).
cdef int query_park(Query *q, int64_t deadline) noexcept nogil
# Goes on with a parked query, on its worker: calls `resume` of the handler that parked. Only from that worker (a Source, Timer or Mail).
cdef void query_resume(Query *q) noexcept nogil
# A child of a parked query (query_park was called; return PARKED afterwards). When it is done, `resume` of the parking handler runs with q.child
# set, and the child is gone when that returns. name NULL: my own. -1: no slot, or too deep. CHILD_DETACHED needs no parking, and its result goes nowhere.
cdef int query_child(Handler *self, Query *q, ChildKind kind, const Name *name, uint16_t qtype) noexcept nogil
# The same for CHILD_DETACHED, giving the child (to mark its scratch; it runs when the query at work is through), or NULL when there is no slot.
cdef Query *query_detached(Handler *self, Query *q) noexcept nogil

# ---- what the loop calls ----

# `count` is called for every query that no chain took (refused, no question), after it was fitted: metrics of zone "dropped".
cdef void mux_count_dropped(void (*count)(Query *q) noexcept nogil) noexcept nogil

# A fresh query for the next packet; NULL only when memory is out.
cdef Query *query_take(Worker *worker) noexcept nogil
cdef void query_release(Query *q) noexcept nogil
# A transfer has ended (or was cut): `size` octets went out. The done hooks run now, and the query is gone.
cdef void query_streamed(Query *q, uint32_t size) noexcept nogil
# The block that answers q.name, q.qtype at q.server, or NULL: REFUSED. DS goes to the least specific matching zone below the root.
cdef Zone *mux_match(Query *q) noexcept nogil
# Runs an accepted query through mux, chain and send.
cdef void query_run(Query *q) noexcept nogil
# The same for queries of one batch, PREFETCH_QUERIES at most: query_enter for each, then query_run_all. False when no chain takes the query: it is gone.
cdef bint query_enter(Query *q) noexcept nogil
cdef void query_run_all(Query **queries, uint32_t count) noexcept nogil
# RFC 9250 4.2.1 and 5.5.2: over QUIC an id other than 0 and the option edns-tcp-keepalive are errors of the protocol.
cdef bint message_fits_quic(const Message *message) noexcept nogil
# What becomes of a message whose opcode wire_accept does not implement: an UPDATE is accepted where a block of the server takes it.
cdef Acceptance mux_accept_update(Query *q, uint8_t *rcode) noexcept nogil

cdef inline bint query_accept(Query *q, const uint8_t *packet, uint32_t length, Transport transport, uint32_t listener, uint32_t generation,
                              const Carrier *carrier, void *connection) noexcept nogil:
    """The one way in: makes a received message a query, for each transport. query_run, or query_enter and query_run_all, follow.

    q is of query_take, with `client` and `local` filled by the transport. packet is borrowed until the batch ends. False: the carrier's
    `reject` or `unserved` has run, and the query is gone."""
    cdef uint8_t rcode
    cdef Acceptance how
    cdef const Canary *canary
    cdef ChainSet *set
    q.packet = packet
    q.packet_length = length
    q.transport = <uint8_t>transport
    q.listener = listener
    q.carrier = carrier
    q.connection = connection
    q.received = q.worker.now
    how = wire_accept(packet, length, &q.message, &q.first_name, &rcode)
    if how == REJECT_HEADER and rcode == RCODE_NOTIMP:
        how = mux_accept_update(q, &rcode)
    if how == ACCEPT and transport == TRANSPORT_QUIC and not message_fits_quic(&q.message):
        how = IGNORE
    if how != ACCEPT:
        carrier.reject(q, how, rcode)
        query_release(q)
        return False
    set = q.worker.set
    canary = <const Canary *>atomic_load_pointer(<void **>&set.canary)
    if canary != NULL:
        set = canary_choose(q, set, canary, listener)
    q.set = set
    q.server = set.servers[listener]
    if q.server == NULL or set.listeners[listener] != generation:
        carrier.unserved(q)
        query_release(q)
        return False
    q.name = &q.first_name
    q.qtype = q.message.qtype
    q.qclass = q.message.qclass
    q.flags = q.message.flags
    q.edns = q.message.edns
    query_note_client(q)
    return True

# The writer of the fitted reply: into out, which has q.reply.message_size octets (at most 65,535). Returns the length.
cdef uint32_t query_write(Query *q, uint8_t *out) noexcept nogil

# ---- the Python side ----

# A handler that a plugin's set-up gives to controller.config.add_handler(). Subclasses set the hooks of `handler` in __cinit__, free their state in
# __dealloc__ (never before every worker has left the chain), and may override:
#   attach(servers, view)   before the chain is published: servers is a list of (label, address) for each server that serves the block
#                           (label = q.server.label, address = "dns://:53"), once for each configuration; make metric cells here
#   attach_zones(zones)     likewise, for who counts by zone: a list of (label, address, zone, view), label = q.zone.label
#   close()                 after the chain was retired and every worker has run `detach`
cdef class NativeHandler:
    cdef Handler handler
    cdef filter_func filter         # of a plugin that chooses among blocks of one zone (view): given to config.add_filter
    cdef readonly str name
    cdef readonly object traits     # a Traits, or None
    cdef bytes _name
    cdef public object plugin       # the plugin's own object, if it wants one kept alive
    cpdef set_name(self, str name)
    cpdef attach(self, list servers, str view)
    cpdef attach_zones(self, list zones)
    cpdef close(self)
    # What the plugin declares of itself (setup/traits.py), as the chain's builder and `explain` read it.
    cpdef set_traits(self, traits)

# The largest label of the servers that `attach` gets, and one: for arrays that q.server.label leads into.
cdef uint32_t label_count(list servers) except 0

# Refuses a handler whose module was compiled against other headers or laid out otherwise: ValueError, which says what to build anew.
cdef int handler_accept(NativeHandler handler, const char *version, const char *fingerprint, uint64_t layout) except -1

cdef inline int handler_init(NativeHandler handler) except -1:
    """First in a subclass's __cinit__: gives what this module was compiled with to the core. A handler with hooks and without it is in no chain."""
    return handler_accept(handler, FASTDNS_API_VERSION, FASTDNS_API_FINGERPRINT, api_layout())
