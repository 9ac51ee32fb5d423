"""The offload queue: what a worker hands to a thread of the control side (signatures, transfers, NOTIFY, upstreams over TLS), and its way back.

A worker sends an `OffloadRequest`, for a query that it parks or for something else that waits. The consumer, a thread or an event loop of the
control side, takes all requests that wait, oldest first, and returns each to its worker. There the handler's `resume` hook runs, or, for a
request without a parked query, the queue's `ended`.

A request belongs to whoever has it. `query` is the worker's alone: its handler's `abandon` hook sets it to NULL when the query is gone.
"""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_load32
from fastdns.system.mailbox cimport Mailbox
from fastdns.walk.query cimport Mail, Query, Worker

cdef struct OffloadQueue

cdef struct OffloadRequest:     # begin your own struct with it
    Mail mail                   # first: its place in the queue, then the way back
    OffloadQueue *queue
    Worker *worker
    Query *query                # parked, or NULL

cdef struct OffloadQueue:       # static: a process has one for each purpose, and never closes it
    Mailbox mailbox
    uint32_t outstanding        # requests sent and not back on their workers; atomic
    uint32_t limit              # of them
    void (*ended)(OffloadRequest *request) noexcept nogil   # on the worker: a request without a query is back. It frees the request

# ---- on the control side ----

# Once, before any handler serves. OSError when there are no descriptors.
cdef int offload_open(OffloadQueue *queue, uint32_t limit, void (*ended)(OffloadRequest *request) noexcept nogil) except -1
# For a thread: sleeps until there are requests and takes them, oldest first, by offload_next.
cdef OffloadRequest *offload_wait(OffloadQueue *queue) noexcept nogil
# For an event loop that watches queue.mailbox.wake: takes what there is, or NULL.
cdef OffloadRequest *offload_collect(OffloadQueue *queue) noexcept nogil
# The request behind this one, or NULL. To be read before this one is returned.
cdef inline OffloadRequest *offload_next(const OffloadRequest *request) noexcept nogil:
    return <OffloadRequest *>request.mail.item.next
cdef void offload_return(OffloadRequest *request) noexcept nogil

# ---- on a worker ----

cdef inline bint offload_full(const OffloadQueue *queue) noexcept nogil:
    return atomic_load32(&queue.outstanding) >= queue.limit

# The rest of the struct is filled already. With a query: the caller parks it. False when too many are outstanding: the request is the caller's still.
cdef bint offload_send(OffloadQueue *queue, OffloadRequest *request, Worker *worker, Query *q) noexcept nogil
