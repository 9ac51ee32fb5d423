"""Errands: queries that a thread of the control side has to see to, and their way back.

A worker parks a query and sends an errand to a desk. The desk's thread takes all errands that wait there, oldest first, and returns each
as mail to its worker, where the handler's `resume` hook finds it done. An errand belongs to whoever has it; `query` is the worker's
alone, which sets it to NULL when nobody waits any more.
"""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_load32
from fastdns.walk.query cimport Mail, Query, Worker

cdef struct Desk

cdef struct Errand:             # begin your own struct with it
    Mail mail                   # comes first: the way back
    Errand *next
    Desk *desk
    Worker *worker
    Query *query                # NULL: nobody waits

cdef struct Desk:               # static: a process has one for each purpose, and never closes it
    uint32_t away               # errands that are not back; atomic
    uint32_t most               # of them
    Errand *inbox               # newest first; atomic
    int bell                    # eventfd: there is something in the inbox
    void (*drop)(Errand *errand) noexcept nogil     # frees one that nobody waits for; on a worker

# ---- on the control side ----

# Once, before any handler serves; OSError when there are no descriptors.
cdef int desk_open(Desk *desk, uint32_t most, void (*drop)(Errand *errand) noexcept nogil) except -1
# Sleeps until there are errands and takes them, oldest first, by `next`.
cdef Errand *desk_wait(Desk *desk) noexcept nogil
cdef void errand_return(Errand *errand) noexcept nogil

# ---- on a worker ----

cdef inline bint desk_full(const Desk *desk) noexcept nogil:
    return atomic_load32(&desk.away) >= desk.most

# The rest of the struct is filled already; the caller parks the query. False when too many are away: the errand is the caller's still.
cdef bint errand_send(Desk *desk, Errand *errand, Query *q) noexcept nogil
