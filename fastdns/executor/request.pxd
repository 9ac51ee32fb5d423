"""A query on its way through the Python lane, and what a plugin sees of it.

A `Ticket` carries what the plugin may look at and, on the way back, its verdict. It is the lane's until it is posted to the worker; the query it speaks
of is touched by its worker only, and a ticket whose query is gone (deadline, eviction) is thrown away there.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns.walk.query cimport ERROR_MAX, Handler, Mail, Query
from fastdns.system.address cimport Address
from fastdns._wire cimport Edns, Name

cdef enum TicketKind:
    TICKET_QUERY                    # worker -> lane: serve this
    TICKET_BELOW                    # worker -> lane: what the handlers below answered
    TICKET_VERDICT                  # lane -> worker
    TICKET_ASK                      # lane -> worker: have the handlers below answer

cdef struct Ticket:
    Mail mail                       # next serves both queues
    uint8_t kind
    uint8_t verdict                 # Verdict
    uint8_t transport
    uint8_t abandoned               # set by the worker: nobody waits any more
    uint8_t answered                # TICKET_BELOW: there is a message
    uint8_t debug                   # of the server: see ServerTable
    uint8_t stacktrace
    uint8_t insists                 # the plugin is to be asked, whatever is remembered
    uint8_t verbatim                # the reply is a whole message: RD and CD are its own
    uint16_t rcode
    uint16_t qtype                  # TICKET_ASK: of the question to ask
    uint16_t qclass
    uint16_t flags
    uint32_t worker
    uint32_t generation
    Query *query                    # the worker's only
    Handler *handler
    void *owner                     # the PythonHandler; it outlives its tickets
    Address client
    Address local
    int64_t received                # ns, monotonic
    uint32_t packet_length
    uint8_t *packet                 # the request, malloc'ed with the ticket
    uint8_t *message                # malloc'ed: the plugin's reply, or the reply from below
    uint32_t message_length
    uint32_t ttl_most               # seconds that a verdict to be remembered is good for: no TTL is longer; 0: it is none
    Edns edns                       # as the handlers see it; its options stand behind the packet
    char error[ERROR_MAX]
    Name name                       # as the handlers see it
    void *task                      # the lane's: a Python object while the plugin is at it

cdef class PluginQuery:
    cdef int _check(self) except -1
    cdef Ticket *ticket
    cdef object _message
    cdef object _name
    cdef object _below              # future of what the plugins below answer: the ticket is away meanwhile
    cdef object _asked              # (name, type) of the query itself meanwhile
    cdef object _outcome            # (what the plugin returned,) before it had that answer
    cdef bint debug                 # of the ticket
    cdef bint stacktrace
    cdef uint64_t forgets           # of the handler's Verdicts, when the plugin began to think
    cdef bint alone                 # no lane knows the ticket: it is this object's (tests)
    cdef readonly object handler
