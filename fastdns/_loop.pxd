"""The workers: a thread each, with sockets, timers, an inbox and batches of their own. Nothing on a query's way is shared between two of them.

I/O stands behind small tables of functions: `Source.ready` brings queries in, `Carrier` takes replies out.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns._chains cimport Chains
from fastdns._mux cimport Worker, ChainSet, Source, Flush, Mail, Address, Query
from fastdns._socket cimport iovec, mmsghdr, sockaddr_in6
from fastdns._timer cimport Wheel

cdef enum:
    BATCH = 64                      # messages in one recvmmsg or sendmmsg
    RECEIVE_SIZE = 4096             # octets of a query that UDP takes; more is cut by the kernel and answered FORMERR
    RECEIVE_STRIDE = 4160           # one more cache line, or all buffers would fall into the same cache sets
    SEND_SIZE = 4096                # replies up to this wait for the batch; bigger ones leave at once
    SEND_STRIDE = 4160
    CONTROL_SIZE = 64               # of PKTINFO
    QUERIES_MAX = 4096              # slots of the process, shared out among the workers
    LARGE_MAX = 64                  # large reply buffers of the process, likewise

cdef struct UdpSocket:              # a worker's own, of one listener
    Source source
    uint32_t listener
    uint8_t family                  # 4 or 6, of the socket
    uint8_t wildcard                # replies name the address that the query came to
    Address local

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
    # ---- UDP in ----
    mmsghdr received[BATCH]
    iovec received_iov[BATCH]
    sockaddr_in6 peers[BATCH]
    uint8_t *received_control
    uint8_t *received_octets
    # ---- UDP out ----
    mmsghdr sent[BATCH]
    iovec sent_iov[BATCH]
    sockaddr_in6 sent_peers[BATCH]
    int sent_fd[BATCH]
    uint32_t sent_count
    uint8_t *sent_control
    uint8_t *sent_octets
    uint8_t *big                    # a reply over SEND_SIZE, before it leaves
    uint64_t send_errors
    # ---- TCP ----
    void *connections               # list of TcpConnection, the newest first
    void *last_connection           # its end
    uint32_t connection_count
    uint64_t connection_octets      # held in their buffers

cdef class Listener:
    cdef readonly uint32_t index
    cdef readonly str host
    cdef readonly int port
    cdef readonly bint watched
    cdef public list sockets        # Python socket objects: UDP and TCP of each worker
    cdef UdpSocket *udp
    cdef void *tcp                  # TcpListener, one each worker
    cdef uint32_t workers
    cdef object engine

cdef class Engine:
    cdef Loop **loops
    cdef readonly uint32_t workers
    cdef ChainSet *published
    cdef readonly Chains chains
    cdef uint64_t generation
    cdef list threads
    cdef set listeners
    cdef set indexes
    cdef readonly list retired      # Chains whose queries are not all answered yet
    cdef object lock
    cdef bint running
    cdef int64_t _parked(self, Chains chains)
