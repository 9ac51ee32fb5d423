"""The offload queue: what a worker hands to a thread of the control side (signatures, transfers, NOTIFY, upstreams over TLS), and its way back.

A worker sends an `OffloadRequest`, for a query that it parks or for something else that waits. The consumer, a thread or an event loop of the
control side, takes all requests that wait, oldest first, and returns each to its worker. There the handler's `resume` hook runs, or, for a
request without a parked query, the queue's `ended`.

A request belongs to whoever has it. `query` is the worker's alone: its handler's `abandon` hook calls offload_abandon when the query is gone. Where too many
queries wait one of them is evicted (walk/limit).
"""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.system.atomic cimport atomic_peek8
from fastdns.system.mailbox cimport Mailbox
from fastdns.walk.limit cimport WaitLimit
from fastdns.walk.query cimport Mail, Query, Worker

cdef struct OffloadQueue

cdef struct OffloadRequest:     # begin your own struct with it
    Mail mail                   # first: its place in the queue, then the way back
    OffloadQueue *queue
    Worker *worker
    Query *query                # parked, or NULL
    uint8_t abandoned           # no query waits for it any more; atomic

cdef struct OffloadQueue:       # static: a process has one for each purpose, and never closes it
    Mailbox mailbox
    WaitLimit limit
    void (*ended)(OffloadRequest *request) noexcept nogil   # on the worker: a request without a query is back. It frees the request

# ---- on the control side ----

# Once, before any handler serves; limit: queries that may wait. OSError when there are no descriptors.
cdef int offload_open(OffloadQueue *queue, uint32_t limit, void (*ended)(OffloadRequest *request) noexcept nogil) except -1
# For a thread: sleeps until there are requests and takes them, oldest first, by offload_next.
cdef OffloadRequest *offload_wait(OffloadQueue *queue) noexcept nogil
# The request behind this one, or NULL. To be read before this one is returned.
cdef inline OffloadRequest *offload_next(const OffloadRequest *request) noexcept nogil:
    return <OffloadRequest *>request.mail.item.next
cdef inline bint offload_wanted(const OffloadRequest *request) noexcept nogil:
    """Whether a query waits for it still, as far as is known: if not, it can be returned as it is."""
    return not atomic_peek8(&request.abandoned)
cdef void offload_return(OffloadRequest *request) noexcept nogil

# ---- on a worker ----

# The rest of the struct is filled already, and q is parked. False where q finds no place: the request is the caller's still.
cdef bint offload_send(OffloadQueue *queue, OffloadRequest *request, Query *q) noexcept nogil
# The query of a request that is not back is gone.
cdef void offload_abandon(OffloadRequest *request) noexcept nogil
