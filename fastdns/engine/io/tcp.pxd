"""DNS over TCP on the workers (RFC 7766): pipelined, replies may leave out of order, everything bounded.

At most 64 unanswered queries a connection, then reading stops; idle time counts from the last reply with nothing outstanding; output is bounded, in
octets and in the time that a client takes for one message; a transfer has the connection alone.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns.walk.query cimport Worker, Source, Timer, Query, Flush
from fastdns.system.address cimport Address

cdef enum:
    OUTSTANDING_MAX = 64
    INPUT_SIZE = 2048               # octets of a connection's first input buffer; a longer message gets a buffer of its size
    OUTPUT_PAUSE = 131072           # pending output octets at which reading stops, and about as many more that the kernel holds
    OUTPUT_MAX = 67108864           # octets that all connections of a worker hold: then those that want more are cut
    CONNECTIONS_MAX = 20000         # of a process, shared out among the workers
    STREAM_BATCH = 4                # messages of a transfer that a batch writes
    SECURE_SIZE = 16384             # octets of TLS that are read at once
    ACCEPT_BATCH = 64
    ROOM_SEARCH = 64                # of the oldest connections, looked at to end one where there is no room for another
    ROOM_GRACE = 20000000           # ns that a client has to ask something before another worker's gets its descriptor: both may have just come
    ACCEPT_PAUSE = 100000000        # ns without accepting after EMFILE, ENFILE, ENOMEM

cdef struct TcpListener:            # a worker's own, of one listening address
    Source source
    uint32_t listener
    uint32_t generation             # of the listener: its number is given to another once it is closed
    uint8_t open
    Timer pause                     # after EMFILE: resumes accepting

cdef struct TcpConnection:
    Source source
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
    void *secure                    # of TLS (_secure); NULL: in clear text
    uint8_t transport               # Transport of its queries
    Query *transfer                 # whose stream has the connection, or NULL
    uint32_t transferred            # octets of its messages so far

# What a listening socket hands down to its connections: the kernel holds little that was not sent yet, instead of megabytes, so that we
# see it when a client does not read. With the GIL.
cdef int tcp_options(sock) except -1
# Makes the socket known to the worker, without events yet: 0 or -errno.
cdef int tcp_listen_begin(TcpListener *listener, Worker *worker) noexcept nogil
cdef void tcp_listen_end(TcpListener *listener, Worker *worker) noexcept nogil      # on the worker's thread
# A connection that somebody else has accepted, who gives its descriptor and its TLS away; since (ns): when the client came. On the worker's thread.
cdef void tcp_adopt(Worker *worker, int fd, void *secure, uint8_t transport, uint32_t listener, uint32_t generation, int64_t since) noexcept nogil
# The connections of a listener end once what they asked is answered; on the worker's thread.
cdef void tcp_finish(Worker *worker, uint32_t generation) noexcept nogil
cdef void tcp_close_all(Worker *worker) noexcept nogil                              # on the worker's thread
