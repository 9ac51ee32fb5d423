"""TCP as a transport of the workers: listening sockets, and which connection ends where there is no place for another. A connection: io/connection.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.engine.io.connection cimport StreamService
from fastdns.engine.io.transport cimport ListenSocket, TransportOps
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.system.address cimport Address
from fastdns.tls.record cimport TlsStream
from fastdns.walk.query cimport Timer, Worker

cdef enum:
    CONNECTIONS_MAX = 20000         # of a process, and no more than three quarters of its descriptors, shared out among the workers
    ACCEPT_BATCH = 64
    ACCEPT_PAUSE = 100000000        # ns without accepting after EMFILE, ENFILE, ENOMEM
    PLACE_PAUSE = 5000000           # ns without accepting while the address has no place
    EVICT_SEARCH = 64               # of the oldest connections, among which the one to evict is chosen
    EVICT_GRACE = 20000000          # ns of idleness before a connection is evicted for another worker's client: both may have just come
    WORK_GRACE = 500000000          # ns that clients wait for a place before a connection at work is evicted
    WORK_SEARCH = 1024              # of the oldest connections of an address, among which it is chosen
    WORK_MANY = 16                  # a client network with no more of these loses none

cdef struct TcpListener:            # a worker's own, of one listening address
    ListenSocket base               # first
    uint8_t open
    StreamService *service          # atomic; NULL: DNS over TCP. Borrowed from the Listener
    Timer pause                     # after EMFILE: resumes accepting
    int64_t waiting_since           # ns; clients wait for places since then
    int64_t waiting_at              # ns; one was last seen to; 0: none since a place was free

cdef TransportOps tcp_transport
cdef uint32_t tcp_connections_max   # of a worker

# What clients get from now on. From any thread; workers may use the former one until they have passed a batch.
cdef void tcp_serve(ListenSocket *sock, StreamService *service) noexcept nogil
# A connection whose TLS handshake is done. Takes over the descriptor, the stream, a reference of the service and a place of its address, and the TLVs.
# client, local, since: as OpenFunc has them (io/connection). On the worker's thread.
cdef void tcp_adopt(Worker *worker, StreamService *service, int fd, TlsStream *tls, uint32_t listener, uint32_t generation, const Address *client,
                    const Address *local, int64_t since, ProxyTlvs *tlvs) noexcept nogil
