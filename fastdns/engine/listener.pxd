"""A listening address: one or more sockets for each worker, of each transport that it has: UDP and TCP, with a service TCP alone, or QUIC."""
from libc.stdint cimport uint32_t
from fastdns.engine.call cimport WorkerCall
from fastdns.engine.service cimport Service
from fastdns.engine.io.transport cimport TRANSPORTS_MAX, ListenSocket
from fastdns.engine.loop cimport Workers
from fastdns.walk.query cimport Worker

cdef struct ListenEnd:                      # a worker stops listening on the sockets of one row
    WorkerCall call                         # first
    ListenSocket *sockets[TRANSPORTS_MAX]   # NULL: it has none of the transport

cdef class Listener:
    cdef readonly uint32_t index
    cdef readonly uint32_t generation       # of all that the engine has made: an index is used again, this is not
    cdef readonly str host
    cdef readonly int port
    cdef readonly bint watched
    cdef public list sockets                # Python socket objects, those of the first transport first
    cdef readonly Service service           # None: DNS over UDP and TCP
    cdef ListenSocket **rows[TRANSPORTS_MAX]    # of each transport `count` sockets, or NULL; socket i is of worker i % workers
    cdef uint32_t count
    cdef ListenEnd *ending                  # made beforehand: at the end there may be no memory
    cdef Workers workers
    cdef object forget                      # the engine's: called with the listener when it is closed
    cdef Worker *worker_of(self, uint32_t i) noexcept
    cdef bint has(self, uint32_t which) noexcept    # has sockets of this transport: UDP and TCP by default
