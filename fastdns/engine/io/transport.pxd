"""What the worker loop and the listeners know of a transport: one table of operations for each kind of socket that workers own.

UDP is in io/udp, TCP in io/tcp. A further transport is a module with a table like theirs, and a line in `loop.pyx` (transport_register). How replies
leave is no business of the loop: each query has a `Carrier` (walk/query.pxd).

A transport has a `TransportWorker` on each worker, and a `ListenSocket` for each worker (or more) of each listening address. All functions are called on
the worker's thread, or while it does not run, unless stated otherwise.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from fastdns.walk.query cimport Source, Worker

cdef enum:
    TRANSPORTS_MAX = 4
    POLL_ALWAYS = 1

cdef struct TransportOps

cdef struct TransportWorker:        # the transport's state on one worker; a transport's own struct begins with it. Never freed
    const TransportOps *ops
    Worker *worker
    int64_t poll_at                 # ns of Worker.now: when `poll` is wanted; POLL_ALWAYS: in each turn of the loop; 0: not
    uint32_t connections            # open; other threads read it
    uint64_t send_errors            # replies that the kernel did not take; other threads read it

cdef struct ListenSocket:           # a listening socket of one worker; a transport's own struct begins with it
    Source source                   # first: what epoll gives is the whole
    TransportWorker *transport      # of its worker
    uint32_t listener               # index of the listener (Query.listener)
    uint32_t generation             # of the listener: its index is given to another once it is closed

ctypedef int (*transport_options_func)(object sock, bint wildcard) except -1

cdef struct TransportOps:
    int socket_type                 # SOCK_DGRAM, SOCK_STREAM
    # ---- a worker ----
    TransportWorker *(*init)(Worker *worker) noexcept nogil         # NULL: out of memory
    void (*poll)(TransportWorker *transport) noexcept nogil         # when `poll_at` has come; or NULL
    void (*flush)(TransportWorker *transport) noexcept nogil        # at the end of each turn: collected replies leave; or NULL
    void (*close_all)(TransportWorker *transport) noexcept nogil    # ends all connections; or NULL
    # ---- a listening socket ----
    ListenSocket *(*socket_new)() noexcept nogil                    # zeroed; NULL: out of memory
    void (*socket_free)(ListenSocket *sock) noexcept nogil          # no worker uses it any more
    # With the GIL: sets options of a Python socket, before it is bound, or when it was handed over. wildcard: all addresses of the machine. OSError.
    transport_options_func options
    # Has the kernel give what a reuseport group of n sockets gets to one of them by its content; 0 or -1. NULL: to any of them, at random.
    int (*spread)(int fd, unsigned n) noexcept nogil
    # The socket is bound; `base` is filled. family: 4 or 6.
    void (*describe)(ListenSocket *sock, uint8_t family, bint wildcard) noexcept nogil
    # Makes it known to the worker's epoll without events: 0 or -errno. Events follow by WorkerOps.rewatch. From any thread.
    int (*listen_begin)(ListenSocket *sock) noexcept nogil
    # Takes no more queries or connections. What was asked is answered.
    void (*listen_end)(ListenSocket *sock) noexcept nogil
