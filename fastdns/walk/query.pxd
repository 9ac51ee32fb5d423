"""The query on its way: its chain of handlers, its worker, its verdicts. What a hook may read and set stands here; what it may call, in _mux.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns._wire cimport EDNS_DO, HEADER_SIZE, OPT_SIZE, Acceptance, Name, Edns, Message
from fastdns.message.reply cimport Reply, LargeReplyPool
from fastdns.proxy.policy cimport ProxyPolicy
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.system.address cimport Address
from fastdns.system.fairness cimport FairEntry, FairQueue
from fastdns.system.list cimport List, ListNode, list_container
from fastdns.system.mailbox cimport MailboxItem
from fastdns.system.random cimport Random
from fastdns.walk.trace cimport TraceContext

cdef enum:
    SCRATCH_MAX = 768           # octets of all handlers of a chain
    CHAIN_MAX = 64              # handlers in a chain
    CHILD_DEPTH = 10
    PREFETCH_QUERIES = 16       # of one batch, for which memory is fetched together
    PREFETCH_ROUNDS = 4
    ERROR_MAX = 192
    QUERY_DEADLINE = 10000      # milliseconds a query may be parked in all, where the handler gives none
    WORKERS_MAX = 64
    LISTENERS_MAX = 1024

cdef enum Verdict:
    NEXT                        # query: go on with the handler below
    ANSWERED                    # query: q.reply holds the message
    FAILED                      # query: nothing written; rcode in q.reply.rcode (query_fail sets it with the error's text)
    DROPPED                     # query: nothing is sent
    PARKED                      # query, reply, resume: wait; the handler's `resume` goes on (query_park was called)
    STREAM                      # query: q.stream takes the connection (zone transfer)
    UP                          # reply: go on upwards
    AGAIN                       # reply: drop this reply and go down again with the handler below me

cdef enum Prefetch:             # result of the prefetch hooks
    PREFETCH_PASS               # the query is likely to go on to the handler below: its prefetch hook is called
    PREFETCH_NEXT               # call `prefetch_next` in the next round: the memory that this round has fetched leads to more
    PREFETCH_END                # nothing further: all is fetched, or this handler will answer

cdef enum Transport:
    TRANSPORT_UDP
    TRANSPORT_TCP
    TRANSPORT_TLS
    TRANSPORT_HTTPS
    TRANSPORT_HTTPS3
    TRANSPORT_QUIC
    TRANSPORT_GRPC
    TRANSPORT_NONE              # a synthetic client: prefetch, stale refresh; counts as TCP, nothing is sent

cdef enum Phase:
    PHASE_FREE
    PHASE_DOWN
    PHASE_UP
    PHASE_DONE

cdef enum QueryTailored:        # Query.tailored (RFC 7871 2 calls such a response tailored)
    TAILORED_REPLY = 1          # the reply depends on the client: another one must not get it out of a cache
    TAILORED_WALK = 2           # a block or a policy was chosen by the client: so the reply of a parent, which has it in its own, depends on the client

cdef enum QueryCookie:          # Query.cookie (RFC 7873)
    COOKIE_IN_REPLY = 1         # the reply has cookie_option, where it fits
    COOKIE_VALID = 2            # the query has a server cookie of this server: it comes from its source address

cdef enum:
    CLIENT_OPT = 1              # Query.client_edns: the client sent an OPT record

cdef enum:
    COOKIE_OPTION = 28          # octets of the option with a cookie of each side: code, length, 8 and 16 (RFC 9018 4)

cdef enum ChildState:           # Query.in_child
    CHILD_NONE
    CHILD_MADE                  # by query_child; it starts when the hook has returned PARKED
    CHILD_RUNS                  # inside the walk of its parent
    CHILD_WAITS                 # parked itself
    CHILD_DONE                  # its reply is there for `resume`

cdef enum ChildKind:
    CHILD_MUX                   # from the top of the same server, with metrics and log
    CHILD_CHAIN                 # the handlers below me
    CHILD_DETACHED              # the handlers below me, no parent, a synthetic TCP client

cdef struct Query
cdef struct Handler
cdef struct Chain
cdef struct ChainSet
cdef struct Canary
cdef struct Tally
cdef struct Worker
cdef struct Timer
cdef struct Source

ctypedef Prefetch (*handler_prefetch_func)(Handler *self, Query *q) noexcept nogil
ctypedef Prefetch (*handler_prefetch_next_func)(Handler *self, Query *q, uint32_t step) noexcept nogil   # step: 1 in the first call
ctypedef Verdict (*handler_query_func)(Handler *self, Query *q) noexcept nogil
ctypedef Verdict (*handler_reply_func)(Handler *self, Query *q) noexcept nogil
ctypedef Verdict (*handler_resume_func)(Handler *self, Query *q) noexcept nogil
ctypedef void (*handler_done_func)(Handler *self, Query *q) noexcept nogil
ctypedef void (*handler_stream_func)(Handler *self, Query *q) noexcept nogil
ctypedef void (*handler_abandon_func)(Handler *self, Query *q) noexcept nogil
ctypedef bint (*handler_detach_func)(Handler *self, Worker *worker) noexcept nogil
ctypedef bint (*filter_func)(Handler *self, Query *q) noexcept nogil
ctypedef void (*handler_explain_func)(Handler *self, Query *q, Explanation *out) noexcept nogil

cdef struct Explanation:        # what a handler tells `fastdns explain` of a query; zero-terminated, "" for nothing
    char upstream[64]           # address of the server that it asked last
    char note[320]              # anything else, in a few words

cdef struct Handler:            # one for each plugin and server block; hooks a plugin lacks are NULL and cost nothing
    uint8_t accepted            # handler_init has run: plugin and core were built against the same headers
    uint8_t any_class           # the plugin's traits, see setup/traits.py: its servers take queries of every class
    uint8_t takes_updates       # likewise: UPDATE messages (RFC 2136) for its block come to it
    uint8_t side_effects        # its `done` hook counts, logs or sends: not called for a query that is explained
    uint8_t trace_context       # it calls query_trace_context: transports read the fields of traces for its servers
    uint32_t scratch_size       # octets of each query's scratch that the handler wants (zeroed when the query starts)
    uint32_t scratch            # offset given by the chain's builder
    uint32_t index              # position in its chain
    handler_prefetch_func prefetch
    handler_prefetch_next_func prefetch_next
    handler_query_func query
    handler_reply_func reply
    handler_resume_func resume
    handler_done_func done
    handler_stream_func stream
    handler_abandon_func abandon
    handler_explain_func explain    # after each hook of a query that `fastdns explain` asks; on the worker
    handler_detach_func detach  # run on each worker when the chain is retired and no query is in it: close sockets, stop timers; 1: done, 0: call me again
    void *state
    const char *name            # of the directive; borrowed from the NativeHandler
    Chain *chain                # the chain that it stands in

cdef struct Chain:              # of one server block
    Handler *handlers[CHAIN_MAX]
    uint32_t count
    uint8_t takes_updates       # a handler does; to others an UPDATE is not implemented
    uint32_t prefetch_count
    Handler *prefetch[CHAIN_MAX]    # those that have the hook
    # Where the walk goes on from a position: the first handler from it on that has the hook (count: none), and behind the last one before it (0: none).
    uint8_t next_query[CHAIN_MAX + 1]
    uint8_t next_reply[CHAIN_MAX + 1]
    uint8_t next_done[CHAIN_MAX + 1]
    uint32_t scratch            # octets in use

cdef struct Zone:               # a zone of a server: what a query's longest match finds
    uint32_t hash
    uint16_t index              # position in ServerTable.zones
    uint8_t length
    uint8_t wire[255]           # lower case
    Chain *chain                # NULL: a block without plugins (REFUSED)
    filter_func *filters        # all must hold
    Handler **filter_handlers
    uint32_t filter_count
    Zone *same                  # the next block of this zone, in Corefile order
    uint32_t label              # process-wide number of (server, zone, view), for metrics: see zone_labels()

cdef struct ServerTable:        # the zones of one listening address
    Zone **slots                # open addressing by hash; power of two
    uint32_t mask
    uint32_t longest            # labels of the longest zone
    Zone *root                  # "." or NULL
    Zone **zones
    uint32_t zone_count
    uint8_t any_class           # a block has a plugin that takes queries of every class
    uint8_t takes_updates       # a block has a plugin that takes UPDATE messages
    uint8_t trace_context       # a block has a handler with `trace_context`
    uint8_t debug               # a block has debug
    uint8_t stacktrace          # the last block has errors { stacktrace }
    uint32_t label              # process-wide number of the server's address, for metrics
    uint32_t max_tcp_queries    # 0: no limit
    uint32_t read_timeout       # milliseconds
    uint32_t idle_timeout
    uint32_t write_timeout
    int64_t latency             # ns that a worker may gather UDP queries for; 0: not at all
    const ProxyPolicy *proxy    # clients come through proxies that send PROXY headers; NULL: they do not. Owned by the Chains

cdef struct ChainSet:           # one configuration
    ServerTable *servers[LISTENERS_MAX]   # by Listener index; NULL: not served by this configuration
    uint32_t listeners[LISTENERS_MAX]     # the generations of the listeners that these are for
    int64_t parked[WORKERS_MAX]  # queries of each worker that hold this set; written by that worker only
    # Both are NULL but while a canary runs: atomic, stored by engine/engine.pyx, which releases what they point at to the workers. A configuration
    # that has been the canary is freed once an epoch has passed after `canary` was taken back, and no query is counted in its `parked`.
    Canary *canary              # of the configuration that serves: what a share of the clients gets
    Tally *tallies              # what was answered, by worker; memory of the Chains

cdef struct Canary:             # a configuration that is tried on some of the clients; constant, memory of its Chains
    ChainSet *set
    uint64_t key[2]             # of the hash of a client's address that chooses
    uint32_t threshold          # clients whose hash's upper half is below it

cdef enum:
    TALLY_OTHERS = 30           # rcodes from here on
    TALLY_DROPPED = 31
    TALLY_PLACES = 32

cdef struct Tally:              # of one worker, which alone writes; relaxed
    uint64_t replies[TALLY_PLACES]      # by rcode

cdef struct Timer:              # intrusive; belongs to one worker
    ListNode node               # first; of a slot of the wheel
    int64_t deadline            # ns, monotonic; 0: not running
    void (*fire)(Timer *timer, Worker *worker) noexcept nogil
    void *data

cdef struct Source:             # a descriptor in a worker's epoll
    int fd
    void (*ready)(Source *source, Worker *worker, uint32_t events) noexcept nogil
    void *data

cdef struct Mail:               # one message in a worker's mailbox; the sender allocates, the receiver frees (`run` does)
    MailboxItem item            # first
    void (*run)(Mail *mail, Worker *worker) noexcept nogil

cdef struct Flush:              # work to be done once at the end of a worker's batch, before its replies leave: see worker_flush
    Flush *next
    void (*run)(Flush *flush, Worker *worker) noexcept nogil
    void *data
    uint8_t queued

cdef struct Carrier:            # how replies leave: one for each kind of transport. All run on the query's worker
    # query_accept did not take the message; the query is released afterwards. how: IGNORE (send nothing), or which rejection wire_reject writes.
    void (*reject)(Query *q, Acceptance how, uint8_t rcode) noexcept nogil
    void (*unserved)(Query *q) noexcept nogil   # the configuration does not serve the listener any more; the query is released afterwards
    void (*send)(Query *q) noexcept nogil       # a fitted reply leaves (batched); the query is released afterwards
    void (*dropped)(Query *q) noexcept nogil    # no reply will come
    void (*stream)(Query *q) noexcept nogil     # q.stream takes the connection; query_streamed is called once when it is through
    # The trace that the request belongs to, which lives as long as the query; NULL: none. The pointer may be NULL: requests of this transport name no traces.
    const TraceContext *(*trace_context)(const Query *q) noexcept nogil
    # The TLVs of the PROXY header that the client is of, which live as long as the query; NULL: none. The pointer may be NULL.
    const ProxyTlvs *(*tlvs)(const Query *q) noexcept nogil

cdef struct WorkerOps:          # the loop's services
    int (*watch)(Worker *worker, Source *source, uint32_t events) noexcept nogil        # epoll add; 0 or -errno
    int (*rewatch)(Worker *worker, Source *source, uint32_t events) noexcept nogil      # epoll modify
    void (*unwatch)(Worker *worker, Source *source) noexcept nogil                      # epoll remove; close the fd afterwards yourself
    void (*timer_start)(Worker *worker, Timer *timer, int64_t deadline) noexcept nogil  # (re)arm; ns, monotonic
    void (*timer_stop)(Worker *worker, Timer *timer) noexcept nogil
    void (*post)(Worker *worker, Mail *mail) noexcept nogil                             # from any thread, wakes the worker if it sleeps

cdef struct Worker:             # what handlers may use of the worker that runs them; the loop's own struct begins with it
    uint32_t id
    uint32_t workers            # how many there are
    int64_t now                 # ns, monotonic, at the start of the batch
    const WorkerOps *ops
    LargeReplyPool large
    ChainSet *set               # of this batch
    Flush *flushes              # see worker_flush
    # ---- the pool of queries ----
    Query *free                 # a stack through Query.next
    Query *pending              # detached children that run when the query at work is through (through Query.next)
    List waiting                # parked queries, in order of parking
    uint32_t parked             # how many
    uint32_t pool_made
    uint32_t pool_limit
    uint32_t park_limit         # for so many parked one goes for each new query: the other slots are for children and for queries under way
    uint64_t evicted            # parked queries that got SERVFAIL because the pool was full
    FairQueue *fair             # parked queries in groups, while `crowded`; the loop's
    uint32_t crowded            # the pool was full, and at least so many queries are parked since (walk/waiting); 0: no
    uint8_t *message            # MESSAGE_MAX octets: a compressed message between fit and write
    uint64_t dropped            # queries that no chain took (metrics: zone "dropped")
    Random random

cdef struct Stream:             # a provider of messages that has a TCP connection alone (zone transfer)
    # Writes the next message into out (capacity octets): its length, 0 at the end, -1 to break the connection.
    int64_t (*pull)(Stream *stream, uint8_t *out, uint32_t capacity) noexcept nogil
    void (*close)(Stream *stream) noexcept nogil    # always called once
    void *state

cdef struct Query:
    # ---- as it came ----
    Worker *worker
    uint32_t generation         # grows with each reuse of the slot: stale posts are known by it
    uint8_t transport           # Transport
    uint8_t phase
    uint8_t depth               # of children
    uint8_t in_child            # ChildState: of the child in `child`
    uint8_t parked              # counted in set.parked and in the worker's list
    uint16_t client_edns        # CLIENT_OPT, and EDNS_DO: what the client's OPT asks for. `message.edns` and `edns` are for handlers to change
    uint32_t listener
    const uint8_t *packet       # the whole request, borrowed until the batch ends; a parked query owns a copy
    uint32_t packet_length
    uint8_t packet_owned        # malloc'ed: packet is too large for the slot (pool of the worker)
    uint8_t cookie              # of QueryCookie; set by the plugin cookies
    uint16_t client_size        # octets of a datagram that the client's OPT allows, with CLIENT_OPT
    Message message             # header and question as received; message.edns.options borrow from packet
    Address client              # behind a proxy that sends PROXY headers: of the header
    Address local
    int64_t received            # ns, monotonic
    # ---- as handlers see it: rewrite and its like may change these for the handlers below ----
    Name *name
    uint16_t qtype
    uint16_t qclass
    uint16_t flags              # header flags of the request (RD, CD, AD...), as handlers and upstreams should see them
    Edns edns                   # of the request
    # ---- where it is ----
    ChainSet *set
    ServerTable *server
    Zone *zone                  # NULL before the mux
    Chain *chain
    uint32_t position           # of the handler at work, or of the next one
    uint32_t deepest            # handlers [0, deepest] had their query hook called
    uint32_t writer             # position of the handler that answered
    uint32_t floor              # the walk up stops here: 0, or for children of CHILD_CHAIN the handler below the parent
    uint8_t parked_up           # it parked in a reply hook
    uint8_t evicted             # while `abandon` runs: the wait ends because all slots were taken, not at its deadline
    uint8_t wildcard            # a record "*" answered, below the last wildcard - 1 labels of wildcard_name (metadata zone/wildcard); 0: none did
    uint8_t options_made        # edns is not as it came: a handler has added an OPT or options
    uint8_t tailored            # of QueryTailored
    const Name *wildcard_name   # first_name or second_name
    # ---- parking ----
    ListNode node               # of Worker.waiting, while `parked`
    Query *next                 # of Worker.free or Worker.pending
    Timer timer                 # the deadline
    int64_t deadline            # ns; no parking of it or of its children lasts longer (cancel); 0: no limit of its own
    const void *awaited         # query_await; NULL: the handler that parked it, or it is not parked
    FairEntry fair              # of Worker.fair
    # ---- parent and child ----
    Query *parent               # or NULL
    uint32_t parent_generation
    Query *child                # of in_child; valid while `resume` runs, NULL there when the resume is no child's
    uint8_t child_kind
    # ---- outcome ----
    Reply reply
    char error[ERROR_MAX]       # of FAILED: zero-terminated, printable; "" for none
    Stream *stream
    const Carrier *carrier      # NULL: nothing is sent (detached children)
    void *connection            # the carrier's: UdpSocket, TcpConnection, HttpRequest, QuicStream
    Address peer                # the carrier's: whom the reply goes to, of a datagram with a PROXY header
    # ---- memory ----
    Name first_name             # of the packet
    Name second_name            # what rewrite made of it: q.name may point here
    uint8_t scratch[SCRATCH_MAX]
    uint8_t packet_copy[1024]
    const uint8_t *cookie_option    # COOKIE_OPTION octets, with COOKIE_IN_REPLY; in the query's scratch

cdef inline void worker_flush(Worker *worker, Flush *flush) noexcept nogil:
    """Has flush.run called once when this batch is through (collected sends of an upstream, for example)."""
    if not flush.queued:
        flush.queued = 1
        flush.next = worker.flushes
        worker.flushes = flush

cdef inline Query *query_of_node(ListNode *node) noexcept nogil:
    return <Query *>list_container(node, <size_t>&(<Query *>NULL).node)

cdef inline void *query_scratch(Handler *self, Query *q) noexcept nogil:
    """The handler's own octets in the query."""
    return &q.scratch[self.scratch]

cdef inline const TraceContext *query_trace_context(const Query *q) noexcept nogil:
    """What the client says of a trace; NULL: nothing. For handlers with `trace_context`."""
    return q.carrier.trace_context(q) if q.carrier != NULL and q.carrier.trace_context != NULL else NULL

cdef inline const ProxyTlvs *query_tlvs(const Query *q) noexcept nogil:
    """The TLVs of the client's PROXY header, for a child too; NULL: none, or *proxyproto* keeps none."""
    while q.parent != NULL:
        if q.parent.generation != q.parent_generation:
            return NULL
        q = q.parent
    return q.carrier.tlvs(q) if q.carrier != NULL and q.carrier.tlvs != NULL else NULL

cdef inline bint transport_is_udp(uint8_t transport) noexcept nogil:
    """Is "udp" the protocol in logs and metrics? DNS over QUIC and over HTTP/3 count as UDP, as in CoreDNS."""
    return transport == TRANSPORT_UDP or transport == TRANSPORT_QUIC or transport == TRANSPORT_HTTPS3

cdef inline bint query_is_udp(const Query *q) noexcept nogil:
    return transport_is_udp(q.transport)

cdef inline bint query_do(const Query *q) noexcept nogil:
    return q.edns.present and (q.edns.flags & EDNS_DO) != 0

cdef inline uint32_t query_length(const Query *q) noexcept nogil:
    """Octets of the request, with the options that handlers gave it (rewrite): what CoreDNS logs and counts as its size."""
    if not q.options_made or q.message.counts[1] or q.message.counts[2] or q.message.counts[3] > 1 or (q.message.counts[3] and q.message.tsig):
        return q.packet_length
    return HEADER_SIZE + q.message.question_length + (OPT_SIZE + q.edns.options_length if q.edns.present else 0)

cdef inline void query_note_client(Query *q) noexcept nogil:
    """Keeps the limits of the received message: they hold for the reply, whatever handlers make of the query."""
    q.client_edns = 0
    if q.message.edns.present:
        q.client_edns = CLIENT_OPT | (q.message.edns.flags & EDNS_DO)
        q.client_size = q.message.edns.udp_size

cdef inline uint32_t query_bufsize(const Query *q) noexcept nogil:
    """Returns the UDP size, in octets, of the OPT record that handlers gave the query: CoreDNS's bufsize."""
    if not query_is_udp(q):
        return 65535
    return q.edns.udp_size if q.edns.present and q.edns.udp_size > 512 else 512

cdef inline uint32_t query_size(const Query *q) noexcept nogil:
    """Returns the most octets of the reply: the client's limit, or less if handlers lowered that of `edns`."""
    cdef uint32_t limit
    if not query_is_udp(q):
        return 65535
    limit = q.client_size if q.client_edns and q.client_size > 512 else 512
    return min(limit, query_bufsize(q))
