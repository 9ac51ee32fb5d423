"""A call that a thread of the control side has a worker make, and waits for. Made before it is needed: at that time there may be no memory."""
from libc.stdint cimport uint32_t
from fastdns.walk.query cimport Mail, Worker

cdef struct WorkerCall:             # begin your own struct with it
    Mail mail                       # first: what the worker gets is the whole
    void (*run)(WorkerCall *call, Worker *worker) noexcept nogil    # on the worker
    uint32_t done                   # atomic: it has run; releases what it did to the thread that waits
