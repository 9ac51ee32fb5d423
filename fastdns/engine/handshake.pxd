"""TLS handshakes of accepted clients, on a few native threads beside the workers.

A worker accepts and sends the descriptor; the finished connection comes back to that worker by mail. The threads have a lower priority than
workers, but share enough of a busy CPU to keep up with the read timeout. The number of handshakes under way is bounded: for one more client, of the
address that has the most under way the oldest one ends.
"""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.engine.io.connection cimport StreamService
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.system.address cimport Address
from fastdns.system.list cimport ListNode
from fastdns.tls.record cimport TlsStream
from fastdns.walk.query cimport Mail, Timer, Worker

cdef enum:
    HANDSHAKES_MAX = 1000           # of the process, and no more than a sixteenth of its descriptors
    THREADS_MAX = 4
    HANDSHAKE_GRACE = 500000000     # ns that a handshake may take although another client waits for its place
    HANDSHAKE_GRACE_MANY = 50000000     # likewise, where its address has more than HANDSHAKE_MANY under way
    HANDSHAKE_MANY = 16
    NICENESS = 5                    # a third of a worker's share of a CPU that both want
    INPUT_MAX = 16384               # octets that are read at once

cdef enum HandshakePlace:
    HANDSHAKE_NONE
    HANDSHAKE_SOON                  # many have just come, or are of one address; none has taken long enough yet
    HANDSHAKE_STOPPED

cdef struct Handshake:              # of one client, from acceptance until its worker has it
    Mail mail                       # first: to the thread, then back to the worker
    int fd
    StreamService *service          # of its listener as it was accepted: a reference, and a place of its address
    uint32_t listener
    uint32_t generation
    Address client
    Address local                   # that the client has asked; family 0: the socket's
    ProxyTlvs *tlvs                 # of its PROXY header: a reference, or NULL
    int64_t since                   # ns, monotonic: accepted
    int64_t deadline                # likewise
    Worker *worker                  # that has accepted it
    void (*finished)(Handshake *handshake, Worker *worker) noexcept nogil
    TlsStream *tls                  # NULL before the first octets have come
    Timer timer                     # of its thread: the read timeout
    uint32_t thread
    uint32_t events                 # that epoll watches
    uint32_t bucket                 # of its client's address
    uint8_t linked                  # it counts, and has its place; after that it was stopped, or has left its thread
    ListNode node                   # of all that are under way

# On a worker, for a client of a listener with a context, which has a place of the address. client, local, since, tlvs: as OpenFunc has them
# (io/connection). deadline: ns, monotonic. On this worker `finished` takes over descriptor, stream, place, a reference of the service and the TLVs; the
# struct is not its own. -1: descriptor, place and TLVs are the caller's still.
cdef int handshake_begin(Worker *worker, int fd, StreamService *service, uint32_t listener, uint32_t generation, const Address *client,
                         const Address *local, int64_t since, int64_t deadline, ProxyTlvs *tlvs,
                         void (*finished)(Handshake *handshake, Worker *worker) noexcept nogil) noexcept nogil
# Have the threads been given more than twice as many as may be under way? Those that were stopped keep their descriptors until their threads see it.
cdef bint handshake_is_behind() noexcept nogil
# Handshakes of a listener that is no longer served end. For control threads.
cdef void handshake_end(uint32_t generation) noexcept nogil
# Ends a handshake of a listener, for a client that waits for its place, which is free then: the oldest one of the address that has most of many, else the
# oldest one of all, once it has taken longer than its grace. Of an address that has more than half, the oldest one is waited for; so are the threads,
# where they have yet to see many. From any thread.
cdef HandshakePlace handshake_make_place(uint32_t generation, int64_t now) noexcept nogil
# Starts the threads, once. OSError.
cdef int handshake_open() except -1
