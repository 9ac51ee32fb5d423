"""TCP as a transport of the workers: listening sockets, and which connection ends where there is no place for another. A connection: io/connection.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.engine.io.tls cimport SSL
from fastdns.engine.io.transport cimport ListenSocket, TransportOps
from fastdns.walk.query cimport Timer, Transport, Worker

cdef enum:
    CONNECTIONS_MAX = 20000         # of a process, shared out among the workers
    ACCEPT_BATCH = 64
    ACCEPT_PAUSE = 100000000        # ns without accepting after EMFILE, ENFILE, ENOMEM
    EVICT_SEARCH = 64               # of the oldest connections, among which the one to evict is chosen
    EVICT_GRACE = 20000000          # ns of idleness before a connection is evicted for another worker's client: both may have just come

cdef struct TcpListener:            # a worker's own, of one listening address
    ListenSocket base               # first
    uint8_t open
    Timer pause                     # after EMFILE: resumes accepting

cdef TransportOps tcp_transport

# A connection that a front end has accepted, whose TLS handshake is done. Takes over the descriptor and the TLS object (NULL: clear text).
# since: ns, monotonic, when it was accepted. On the worker's thread.
cdef void tcp_adopt(Worker *worker, int fd, SSL *tls, Transport transport, uint32_t listener, uint32_t generation, int64_t since) noexcept nogil
# The connections of a listener end once what they asked is answered. On the worker's thread.
cdef void tcp_finish(Worker *worker, uint32_t generation) noexcept nogil
