"""The workers: a thread each, with sockets, timers, an inbox and batches of their own. Nothing on a query's way is shared between two of them.

I/O stands behind small tables of functions: `Source.ready` brings queries in, `Carrier` takes replies out.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.engine.chains cimport Chains
from fastdns.walk.query cimport Worker, ChainSet, Source, Flush, Mail
from fastdns.engine.io.tcp cimport TcpListener
from fastdns.engine.timer cimport Wheel
from fastdns.engine.io.udp cimport UdpBatch, UdpSocket

cdef enum:
    QUERIES_MAX = 4096              # slots of the process, shared out among the workers
    LARGE_MAX = 64                  # large reply buffers of the process, likewise

cdef struct Room:                   # a worker's, for when descriptors are out and another has more connections than it has
    Mail mail                       # to that one and back; belongs to whom it is with
    Worker *asker
    TcpListener *listener           # whose next client the room is for, or NULL: nobody waits any more
    int fd                          # of a connection that the other has ended, open until it is needed, so that nobody else gets it; -1: all are at work
    uint8_t asked                   # the mail is under way
    uint8_t refused

cdef struct Loop:                   # a worker's whole state
    Worker base
    int epoll
    int wake                        # eventfd
    Source wake_source
    Mail *inbox                     # pushed by anyone, taken whole by the worker
    uint32_t asleep                 # 1 while it is (about to be) in epoll_wait
    uint32_t stopping
    ChainSet **published            # the engine's current configuration
    Wheel wheel
    UdpBatch udp
    # ---- TCP ----
    void *connections               # list of TcpConnection, the newest first
    void *last_connection           # its end
    uint32_t connection_count
    uint64_t connection_octets      # held in their buffers
    Room room

cdef class Listener:
    cdef readonly uint32_t index
    cdef readonly uint32_t generation       # of all that the engine has made: an index is used again, this is not
    cdef readonly str host
    cdef readonly int port
    cdef readonly bint watched
    cdef public list sockets        # Python socket objects: TCP, then UDP
    cdef UdpSocket *udp
    cdef void *tcp                  # TcpListener
    cdef void *ask                  # mail to the workers, for when there may be no memory
    cdef uint32_t workers
    cdef uint32_t count             # of each kind; the worker of socket i is i % workers
    cdef object engine

cdef class Engine:
    cdef Loop **loops
    cdef readonly uint32_t workers
    cdef ChainSet *published
    cdef readonly Chains chains
    cdef uint32_t bound             # listeners so far
    cdef list threads
    cdef set listeners
    cdef set indexes
    cdef readonly list retired      # Chains whose queries are not all answered yet
    cdef object lock
    cdef bint running
    cdef void *ask                  # mail to the workers, for when there may be no memory
    cdef int64_t _parked(self, Chains chains)
    cdef int _end_listening(self, uint32_t i, UdpSocket *udp, TcpListener *tcp, void *mail) except -1
