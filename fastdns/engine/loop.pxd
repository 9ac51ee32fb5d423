"""The workers: a thread each, with an event loop (epoll), sockets, timers and a mailbox of its own. Nothing on a query's way is shared by two of them.

I/O is behind tables of functions: a transport (io/transport.pxd) brings queries in through the `Source.ready` of its sockets, and a `Carrier` takes
replies out. One turn of the loop is a batch: events, mail, timers, then `Flush` work and the transports' `flush`.
"""
from libc.stdint cimport uint32_t
from fastdns.engine.call cimport WorkerCall
from fastdns.engine.io.transport cimport TRANSPORTS_MAX, TransportOps, TransportWorker
from fastdns.engine.timer cimport Wheel
from fastdns.system.mailbox cimport Mailbox
from fastdns.walk.query cimport ChainSet, Source, Worker

cdef enum:
    QUERIES_MAX = 4096              # slots of the process, shared out among the workers
    LARGE_MAX = 64                  # large reply buffers of the process, likewise

# All transports that workers have, in the order in which a listener opens its sockets.
cdef const TransportOps *transports[TRANSPORTS_MAX]
cdef uint32_t transport_count

cdef struct Loop:                   # a worker's whole state
    Worker base                     # first
    int epoll
    Source wake_source              # of the mailbox
    Mailbox mailbox                 # of Mail
    uint32_t stopping               # atomic
    ChainSet **published            # the engine's current configuration
    Wheel wheel
    TransportWorker *transports[TRANSPORTS_MAX]     # as in the list of all

cdef class Workers:                 # of an engine; the loops live as long as the process
    cdef Loop **loops
    cdef readonly uint32_t count
    cdef readonly bint running
    cdef list threads
    cdef WorkerCall *closing        # close_connections

    # published: where the engine's current configuration stands. MemoryError, OSError.
    @staticmethod
    cdef Workers make(uint32_t count, ChainSet **published)
    # Has worker i run the call, and waits; the call is at rest on return. False: the workers do not run, or have ended meanwhile.
    cdef bint call(self, uint32_t i, WorkerCall *call) except -1
