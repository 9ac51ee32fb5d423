"""A request: a query on its way from a worker to the executor of a Python plugin and back; and what the plugin sees of it.

A `Request` holds copies of what the plugin may read and, on the way back, the result. One side has it at a time, as `state` says. The query itself is
touched by its worker only. When the deadline passes while the executor has the request, the worker marks it abandoned and forgets it: from then on it
belongs to the executor, which frees it and uses no memory of the handler for it.

Memory order. Mailboxes pass a request on. `state` is exchanged by both sides, and who finds the other one's value has acquired what it wrote. The handler
goes when it has acquired a count of 0, which each request that ends has released.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns.walk.limit cimport WaitLimit
from fastdns.walk.query cimport ERROR_MAX, Handler, Mail, Query
from fastdns.system.mailbox cimport Mailbox
from fastdns.system.address cimport Address
from fastdns._wire cimport Edns, Name

cdef enum:
    REQUESTS_MAX = 2048             # queries that may wait for one executor

cdef enum RequestKind:
    REQUEST_QUERY                   # worker -> executor: call the plugin
    REQUEST_ANSWER                  # worker -> executor: what the handlers below answered
    REQUEST_RESULT                  # executor -> worker
    REQUEST_NEXT                    # executor -> worker: have the handlers below answer

cdef enum RequestState:
    REQUEST_PENDING                 # the executor has it
    REQUEST_POSTED                  # it is in the worker's inbox, or the worker has it
    REQUEST_ABANDONED               # no query waits for it: whoever has it frees it

cdef struct RequestQueue:           # of one executor
    Mailbox mailbox                 # of requests: workers post, the executor's thread takes all at once
    WaitLimit limit
    uint32_t expired                # atomic: deadlines that passed since the watchdog last looked
    uint8_t refuses                 # atomic: requests are answered SERVFAIL by the worker
    int alarm                       # eventfd of the watchdog

cdef struct Request:
    Mail mail                       # first; in the executor's mailbox or the worker's
    uint8_t kind                    # RequestKind
    uint8_t verdict                 # Verdict
    uint8_t transport
    uint8_t answered                # REQUEST_ANSWER: there is a message
    uint8_t debug                   # of the server: see ServerTable
    uint8_t stacktrace
    uint8_t call                    # the plugin is called even where a cached verdict holds
    uint8_t verbatim                # the reply is a whole message: RD and CD are its own
    uint32_t state                  # atomic: RequestState
    uint16_t rcode
    uint16_t qtype                  # REQUEST_NEXT: of the question for the handlers below
    uint16_t qclass
    uint16_t flags
    uint32_t worker
    uint32_t generation
    Query *query                    # the worker's only
    Handler *handler                # the worker's only
    RequestQueue *queue
    void *owner                     # the PythonHandler; not to be used once the request is abandoned
    Address client
    Address local
    int64_t received                # ns, monotonic
    uint32_t packet_length
    uint8_t *packet                 # the DNS message of the query; in the request's own block
    uint8_t *message                # malloc'ed: the plugin's reply, or the reply from below
    uint32_t message_length
    uint32_t ttl_max                # seconds; of a verdict to be cached: no TTL is longer. 0: not cached
    Edns edns                       # as the handlers see it; its options follow the packet
    char error[ERROR_MAX]
    Name name                       # as the handlers see it
    void *task                      # a reference to the PluginQuery while the handlers below answer

# Gives a request to the executor.
cdef void request_push(RequestQueue *queue, Request *request) noexcept nogil
# Frees one that no handler counts.
cdef void request_free(Request *request) noexcept nogil

cdef class PluginQuery:
    cdef int _check(self) except -1
    cdef Request *request           # NULL: the result is on its way
    cdef object _message
    cdef object _name
    cdef object _below              # future of the answer from below: the worker has the request meanwhile
    cdef object _asked              # (name, type) of the query itself meanwhile
    cdef object _result             # (what the plugin returned,) before that answer came
    cdef bint debug                 # of the request
    cdef bint stacktrace
    cdef uint64_t forgets           # of the handler's Verdicts, when the call began
    cdef bint alone                 # the request is this object's, and no executor knows it (tests)
    cdef public object _given       # of `alone`: what stands for the rest of the server, see testing.make
    cdef readonly object handler    # the PythonHandler
