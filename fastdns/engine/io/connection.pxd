"""A TCP connection on its worker (RFC 7766): pipelined, replies may leave out of order, everything bounded.

At most 64 unanswered queries a connection, then reading stops; idle time counts from the last reply with nothing outstanding; output is bounded, in
octets and in the time that a client takes for one message; a transfer has the connection alone.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.engine.io.transport cimport TransportWorker
from fastdns.tls.record cimport TlsStream
from fastdns.walk.query cimport Flush, Query, Source, Timer, Transport
from fastdns.system.address cimport Address
from fastdns.system.socket cimport sockaddr_in6

cdef enum:
    OUTSTANDING_MAX = 64
    INPUT_SIZE = 2048               # octets of a connection's first input buffer; a longer message gets a buffer of its size
    OUTPUT_PAUSE = 131072           # pending output octets at which reading stops, and about as many more that the kernel holds
    OUTPUT_MAX = 67108864           # octets that all connections of a worker hold: then those that want more are cut
    STREAM_BATCH = 4                # messages of a transfer that a batch writes
    TLS_SIZE = 4096                 # octets of TLS that a batch decrypts for one connection: small records cost more than what they hold
    MILLISECOND = 1000000           # ns

cdef struct TcpConnection

cdef struct TcpWorker:              # TCP's state on one worker
    TransportWorker base            # first; `connections`: how many are in the list
    TcpConnection *connections      # the newest first, by `next`
    TcpConnection *last_connection  # the oldest
    uint64_t octets                 # in the buffers of all connections

cdef struct TcpConnection:
    Source source                   # first
    TcpWorker *tcp                  # of its worker
    TcpConnection *next
    TcpConnection *previous
    uint32_t listener
    uint32_t generation             # of its listener, which may be closed long before it
    Address client
    Address local
    uint8_t *input
    uint32_t input_size
    uint32_t input_used
    uint32_t input_done             # octets of input that are processed
    uint8_t *output
    uint32_t output_size
    uint32_t output_used
    uint32_t output_sent
    uint32_t output_end             # of the message that is being sent
    uint32_t outstanding            # queries without a reply yet
    uint32_t queries                # messages read so far
    uint32_t events                 # that epoll watches
    uint8_t eof                     # the client sends no more
    uint8_t last                    # no more messages are read (limit reached)
    uint8_t parsing
    uint8_t broken
    int64_t idle_since              # ns
    int64_t limit                   # ns of idleness allowed now
    int64_t write_limit             # ns that the client may take for one message
    int64_t blocked_since           # ns; the message being sent waits for the client since then, 0: it does not
    Timer timer
    Flush flush
    TlsStream *tls                  # owned; NULL: in clear text
    Transport transport             # of its queries
    Query *transfer                 # whose stream has the connection, or NULL
    uint32_t transferred            # octets of its messages so far

# ---- on the worker's thread ----

# An accepted descriptor becomes a connection of a listener. NULL: out of memory, or the listener is not served; the descriptor is the caller's still.
cdef TcpConnection *connection_begin(TcpWorker *tcp, uint32_t listener, uint32_t generation, int fd, const sockaddr_in6 *peer) noexcept nogil
# Runs the queries that lie decrypted in the TLS object already.
cdef void connection_read_decrypted(TcpWorker *tcp, TcpConnection *connection) noexcept nogil
# Closes it at once. Its memory goes when the queries that are under way have ended.
cdef void connection_end(TcpWorker *tcp, TcpConnection *connection) noexcept nogil
# The same, but the descriptor stays open.
cdef void connection_forget(TcpWorker *tcp, TcpConnection *connection) noexcept nogil
# Reads no more. The connection ends once what was asked is answered.
cdef void connection_finish(TcpConnection *connection) noexcept nogil
