"""Queries of front ends in Python (DoT, DoH, DoQ, gRPC): from their event loop to the workers and back.

A `Request` carries a message to a worker, which makes it a query like any other, and the result back to the event loop. The loop's thread (with the
GIL) makes and frees it. A worker owns it from the post of its mail until the worker has put it into the front's mailbox.
A worker wakes the loop once a batch, however many requests it returns, and never takes the GIL.
"""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from cpython.ref cimport PyObject
from fastdns.system.address cimport Address
from fastdns.system.mailbox cimport Mailbox
from fastdns.walk.query cimport Flush, Mail, Query, Transport, WORKERS_MAX
from fastdns._wire cimport HEADER_SIZE

cdef enum:
    REQUESTS_MAX = 8192             # of the process that are under way; one more is answered SERVFAIL on the spot
    REQUESTS_SPARE = 256            # kept for the next ones
    HELD_MAX = 32                   # posted together to one worker, so that many are spread over all
    PACKET_SIZE = 512               # octets of a message, and of a reply, that a request holds itself
    REPLY_SIZE = 1232
    REFUSAL_SIZE = HEADER_SIZE + 260
    PART_SIZE = 262144              # of a transfer, fetched at once: at least the largest message

cdef enum RequestResult:
    REPLIED                         # reply holds the message
    DROPPED_SILENTLY                # no reply will come
    IGNORED                         # too short, or a response: what UDP leaves without a reply
    REJECTED                        # by wire_accept: reply holds what UDP sends back
    UNSERVED                        # the address is no longer served
    TRANSFER                        # a transfer (DoT only) begins: request_continue fetches its first part, request_cancel ends it
    PART                            # reply holds messages of it, each with its length in front; request_continue fetches more
    LAST_PART                       # the same, and nothing follows: request_free
    BROKEN                          # the transfer failed midway

cdef struct Request:
    Mail mail                       # first: to the worker, and its place in the front's mailbox on the way back
    Request *next                   # posted together
    PyObject *owner                 # a reference of the loop's: an asyncio.Future, or a Recipient
    uint8_t *packet                 # packet_octets, or malloc'ed
    uint32_t packet_length
    uint8_t *reply                  # reply_octets, or malloc'ed
    uint32_t reply_length
    uint32_t listener
    uint32_t generation
    Transport transport
    uint8_t result                  # RequestResult
    uint8_t native                  # the owner is a Recipient
    uint8_t cancelled               # the rest of the transfer is not wanted
    Query *query                    # whose transfer this is; its worker's
    uint32_t transferred            # octets so far
    Address client
    Address local
    uint8_t packet_octets[PACKET_SIZE]
    uint8_t reply_octets[REPLY_SIZE]

cdef struct Front:                  # the one of the process
    Mailbox mailbox                 # of requests that workers return; the event loop watches its eventfd
    Flush flushes[WORKERS_MAX]      # wake the loop at the end of a worker's batch

cdef class Recipient:
    """What takes requests back without a future for each: for front ends that keep many of a connection under way."""
    # One request, in the order in which workers returned them; it is the recipient's from now on. An exception is logged.
    cdef int take(self, Request *request) except -1
    # Once after the takes of a round.
    cdef int end_round(self) except -1
    cdef bint taking                # some requests of this round are its own

cdef class Gate:
    """The way of one front end to the workers."""
    cdef readonly object loop
    cdef readonly uint32_t listener
    cdef readonly uint32_t generation
    cdef readonly uint32_t transport
    cdef bint holding
    cdef Request *held              # asked since `hold`, by next; the gate's until they are posted
    cdef Request *newest            # the last of them
    cdef uint32_t held_count
    cdef void post_held(self) noexcept
    # A request with a copy of the message, for request_next and post.
    cdef Request *make(self, const uint8_t *packet, uint32_t length, const Address *client, const Address *local, object owner, bint native) except NULL
    # Hands a list of them (by next) to a worker. They come back each by itself.
    cdef void post(self, Request *request) noexcept

cdef bint request_crowded() noexcept                    # REQUESTS_MAX are under way
# Without any worker: SERVFAIL, or what a rejected message gets. Into out with REFUSAL_SIZE octets; returns the length, 0 where nothing is sent.
cdef uint32_t request_refuse(const uint8_t *packet, uint32_t length, uint8_t *out) noexcept
cdef void request_continue(Request *request) noexcept   # after TRANSFER or PART: the next one
cdef void request_cancel(Request *request) noexcept     # after TRANSFER or PART: it ends, and comes back with BROKEN
cdef void request_free(Request *request) noexcept       # its owner's reference goes too
# (host, port, ...) as sockets give it. ValueError.
cdef int address_from_pair(Address *address, tuple pair) except -1
