"""A context of libunbound with the one thread that uses it, and the questions that workers send there.

A question is a `Request`: it travels to the thread by mailbox and back to its worker by mail, as handshakes do. The thread takes neither the GIL nor a lock
that others hold. libunbound cannot be told to forget a question: one that no query waits for any more is with it until its servers have answered or have been
given up. How many a context has is therefore bounded by itself (PENDING_MAX), on the worker: the thread may be slow. A client's address (of IPv6 its /64),
and a domain (the last two labels of the name), may hold as many as are still free: who floods leaves half to all others, and two that flood a third.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.memory cimport List, ListNode
from fastdns.api.names cimport NAME_MAX
from fastdns.api.query cimport Query
from fastdns.api.worker cimport Mail, Mailbox, MailboxItem, Worker
from fastdns.plugins.unbound._events cimport EventLoop
from fastdns.plugins.unbound._library cimport ub_ctx

cdef enum:
    PENDING_MAX = 1024          # questions of a context that are not answered; each may cost libunbound 70 KB
    BUCKETS = 4096              # that clients and domains are counted in
    PACKET_INLINE = 1232        # octets of an answer that need no memory of their own
    WHY_MAX = 192               # octets that are kept of why a validation failed, zero included
    NICENESS = 5                # of the thread, as of handshakes: what clients have it do is work of their choice

cdef enum RequestStatus:
    REQUEST_ANSWERED            # packet has the message
    REQUEST_FAILED              # no message: rcode
    REQUEST_ERROR               # libunbound did not take the question: error says why

cdef enum Security:             # as libunbound has it
    SECURITY_NONE               # not signed, or nothing is known
    SECURITY_BOGUS
    SECURITY_SECURE

cdef struct Request:
    Mail mail                   # first: to the thread, then back to the worker
    Request *next               # of those that the worker has for later use
    Worker *worker
    Query *query                # the worker's: NULL when nobody waits any more
    Resolver *resolver          # the thread's
    ListNode node               # the thread's: of those that libunbound has
    uint8_t abandoned           # nobody waits any more; atomic
    uint8_t status              # RequestStatus
    uint8_t security            # Security
    uint16_t qtype
    uint16_t qclass
    uint16_t rcode
    uint16_t reason             # INFO-CODE of an extended DNS error (RFC 8914), with SECURITY_BOGUS
    uint16_t client             # buckets
    uint16_t domain
    uint32_t length             # octets of the packet
    uint8_t *packet             # `octets`, or malloc'ed
    const char *error           # static
    uint8_t name[NAME_MAX]      # wire form
    char why[WHY_MAX]           # zero-terminated, "" for none
    uint8_t octets[PACKET_INLINE]

cdef struct Resolver:
    Mailbox mailbox             # of Requests, and of `end`
    EventLoop loop
    ub_ctx *context             # the thread's once it runs; NULL when it has ended
    List pending                # Requests that libunbound has
    uint32_t count              # Requests that are not answered; atomic, as are the following
    uint32_t by_client[BUCKETS]
    uint32_t by_domain[BUCKETS]
    MailboxItem end             # posted once: the thread ends

# ---- on a worker ----

# Sends q's question; q is parked. NULL: no memory, or (refused[0]) the client or the domain has too many questions under way.
cdef Request *resolver_ask(Resolver *resolver, Query *q, bint *refused) noexcept nogil
# The query no longer waits for a request that is not back.
cdef void request_abandon(Request *request) noexcept nogil
# A request that is back has been read.
cdef void request_give(Request *request) noexcept nogil

cdef class Context:
    cdef Resolver *resolver
    cdef object thread          # a threading.Thread while it runs
    cdef int _check(self, int status, str text) except -1
