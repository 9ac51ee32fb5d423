"""A TCP connection on its worker: socket, TLS, buffers, timers and bounds. What is spoken on it is a `StreamProtocol`: DNS over TCP (io/framing) and
HTTP (engine/http) are two.

Above the protocol's number of unanswered queries reading stops; idle time counts from the last reply with nothing outstanding; output is bounded, in
octets and in the time that a client takes for one message; transfers follow each other, and nothing is read meanwhile. Memory is bounded for all
connections of a worker: the one that holds most ends first.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.engine.io.transport cimport ListenSocket, TransportWorker
from fastdns.proxy.policy cimport ProxyRule
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.tls.context cimport TlsContext
from fastdns.tls.record cimport TlsStream
from fastdns.walk.query cimport Flush, Query, ServerTable, Source, Timer, Transport
from fastdns.system.address cimport Address
from fastdns.system.list cimport List, ListNode, list_container

cdef enum:
    BUFFER_SIZE = 4096              # octets of a connection's first buffers, of input and of output; a longer message gets a buffer of its size
    SPARE_BUFFERS = 16              # of that size that a worker keeps: a connection without octets has none
    OUTPUT_PAUSE = 131072           # pending output octets at which reading stops, and about as many more that the kernel holds
    OCTETS_MAX = 67108864           # that all connections of a worker hold; for more the one that holds most ends
    OCTETS_FREE = 32768             # of a protocol's octets for each connection that do not count: what an idle one needs
    STREAM_BATCH = 4                # messages of a transfer that a batch writes
    TLS_SIZE = 4096                 # octets of TLS that a batch decrypts for one connection: small records cost more than what they hold
    MILLISECOND = 1000000           # ns

cdef enum:
    NETWORKS = 256                  # classes of clients' networks (system/address: address_network), by a hash
    LARGE = 16384                   # octets of connections that end first where memory is out

cdef struct TcpConnection

cdef struct StreamProtocol:         # what is spoken on a connection. All functions run on its worker; those that may be NULL say so
    uint32_t size                   # octets of the struct of its connections, which begins with a TcpConnection; zeroed
    uint32_t outstanding_max        # queries of a connection under way at which reading stops
    uint8_t lingers                 # what the client sends after the last reply is read for a while: see io/linger
    # The connection has its socket and its TLS: -1 ends it. NULL: nothing to do.
    int (*begin)(TcpConnection *connection) noexcept nogil
    # The octets that the buffer should hold from input_done on, to take up what is under way.
    uint32_t (*wanted)(const TcpConnection *connection) noexcept nogil
    # Takes up what is whole of input, by input_done, as long as connection_may_read.
    void (*input)(TcpConnection *connection) noexcept nogil
    # At the end of a batch while `unsaid` is set: puts what it has to say into the output, up to OUTPUT_PAUSE, and clears it once that is all.
    # NULL: replies are there already.
    void (*fill)(TcpConnection *connection) noexcept nogil
    # Octets of the message that begins here, of those that are there: a client may take so long for it, and over TLS it is a record. NULL: all that
    # waits is one message.
    uint32_t (*message_size)(const uint8_t *octets, uint32_t size) noexcept nogil
    # The next message of connection.transfer into the output; False when there is none any more. NULL: no transfers.
    bint (*pull)(TcpConnection *connection) noexcept nogil
    # Takes no more queries: sets `last` now or when what is under way has ended. NULL: `last` is set.
    void (*finish)(TcpConnection *connection) noexcept nogil
    # `due` has come: ends what took too long, and sets `due` anew. NULL: it has no deadlines of its own.
    void (*expire)(TcpConnection *connection) noexcept nogil
    # Frees what it holds, but for the queries under way. Once, at the end, never while `parsing`. NULL: nothing.
    void (*free)(TcpConnection *connection) noexcept nogil

cdef struct AddressCount:           # of one listening address. The services that follow each other there share it
    uint32_t connections            # atomic: accepted and not ended, those in their handshake among them
    uint32_t references             # atomic: one for each service

cdef struct StreamService:          # what a listening address offers. Freed with its last reference (service_unref)
    TlsContext *context             # a reference; NULL: clear text
    const StreamProtocol *protocol
    const StreamProtocol *http2     # where ALPN has chosen h2; NULL: `protocol` then too
    Transport transport             # of its queries
    uint32_t max_connections        # of the address; 0: no limit but the workers'
    uint32_t max_streams            # requests of a connection under way; 0: no limit but the workers'
    uint32_t cells                  # of metrics, the first one; 0: none
    AddressCount *address
    uint32_t references             # atomic: the listener's, and one for each connection and each handshake

# A client that a socket has accepted, whose PROXY header is read, if there may be one; takes over the descriptor, a place of the service (NULL: DNS over
# TCP), of which it takes a reference of its own, and the reference of the header's TLVs (NULL: none). local: that the client has asked; NULL: the
# socket's. since: ns, monotonic, when it was accepted.
ctypedef void (*OpenFunc)(ListenSocket *sock, StreamService *service, int fd, const Address *client, const Address *local, int64_t since,
                          ProxyTlvs *tlvs) noexcept nogil

cdef struct TcpWorker:              # TCP's state on one worker
    TransportWorker base            # first; `connections`: how many are in the list
    List connections                # the newest first
    uint64_t octets                 # that all connections hold
    uint64_t held_by[NETWORKS]      # of these, those of connections of a class of networks
    void *spare                     # buffers that are free, each begins with the next one's address
    uint32_t spares

cdef struct TcpConnection:
    Source source                   # first
    TcpWorker *tcp                  # of its worker
    const StreamProtocol *protocol
    StreamService *service          # a reference, or NULL: DNS over TCP
    ListNode node                   # of the worker's
    uint32_t listener
    uint32_t generation             # of its listener, which may be closed long before it
    Address client
    Address local
    ProxyTlvs *tlvs                 # of its PROXY header: a reference; set by whoever begins it, after that
    uint8_t network                 # the client's class, < NETWORKS
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
    uint32_t held                   # octets of the protocol (connection_charge)
    uint32_t queries                # messages read so far
    uint32_t events                 # that epoll watches
    uint8_t eof                     # the client sends no more
    uint8_t last                    # no more messages are read (limit reached)
    uint8_t parsing
    uint8_t broken
    uint8_t unsaid                  # the protocol's `fill` has more for the output
    uint8_t closing                 # it ends once the output is out, whatever is under way
    uint8_t finishing               # it was idle for too long, and the protocol takes its leave
    int64_t idle_since              # ns
    int64_t limit                   # ns of idleness allowed now
    int64_t write_limit             # ns that the client may take for one message
    int64_t due                     # ns: when the protocol's `expire` is to be called; 0: not
    int64_t blocked_since           # ns; the message being sent waits for the client since then, 0: it does not
    Timer timer
    Flush flush
    TlsStream *tls                        # owned; NULL: in clear text
    Transport transport             # of its queries
    Query *transfer                 # whose stream is sent, or NULL
    Query *transfers_waiting        # whose streams are sent next, by Query.next
    uint32_t transferred            # octets of its messages so far
    # ---- while its PROXY header is awaited (io/proxied) ----
    ProxyRule rule
    ListenSocket *socket            # that has accepted it: its connections end before it
    OpenFunc opened

cdef inline TcpConnection *connection_of(ListNode *node) noexcept nogil:
    return <TcpConnection *>list_container(node, <size_t>&(<TcpConnection *>NULL).node)

# ---- on the worker's thread ----

# An accepted descriptor becomes a connection of a listener. service: NULL, or a reference that is the connection's from now on. client, local, since: see
# OpenFunc. NULL: out of memory, or the listener is not served; descriptor, TLS object and reference are the caller's still.
cdef TcpConnection *connection_begin(TcpWorker *tcp, const StreamProtocol *protocol, StreamService *service, TlsStream *tls, uint32_t listener,
                                     uint32_t generation, int fd, const Address *client, const Address *local, int64_t since) noexcept nogil
# Runs the queries that lie decrypted in the TLS object already.
cdef void connection_read_decrypted(TcpWorker *tcp, TcpConnection *connection) noexcept nogil
# Closes it at once. Its memory goes when the queries that are under way have ended.
cdef void connection_end(TcpWorker *tcp, TcpConnection *connection) noexcept nogil
# The same, but the descriptor stays open.
cdef void connection_forget(TcpWorker *tcp, TcpConnection *connection) noexcept nogil
# Reads no more queries. The connection ends once what was asked is answered.
cdef void connection_finish(TcpConnection *connection) noexcept nogil
# From any thread. A place of the address is taken before a connection is accepted, and left when it has ended.
cdef void service_ref(StreamService *service) noexcept nogil
cdef void service_unref(StreamService *service) noexcept nogil
cdef bint service_take_place(StreamService *service) noexcept nogil     # False: all of max_connections are taken
cdef void service_leave_place(StreamService *service) noexcept nogil

# ---- for protocols ----

# What serves the connection's listener now; NULL when nothing does, be it that another listener has its number.
cdef ServerTable *connection_server(const TcpConnection *connection) noexcept nogil
# A message has come whole: idle time counts from now, with the server's limits. A query of the client, for query_accept; the caller raises
# `outstanding` when it is taken. NULL: the address is no longer served, and the connection finishes, or memory is out, and it has ended.
cdef Query *connection_query(TcpConnection *connection) noexcept nogil
# A query has ended, with a reply or without.
cdef void connection_answered(TcpConnection *connection) noexcept nogil
# The stream of a query is sent, once those before it are.
cdef void connection_transfer(TcpConnection *connection, Query *q) noexcept nogil
# The stream of connection.transfer is closed; the next one follows.
cdef void connection_end_transfer(TcpConnection *connection) noexcept nogil
# Space for `size` octets at the end of the output; output_used is the caller's to raise. NULL: the connection has ended.
cdef uint8_t *connection_reserve(TcpConnection *connection, uint32_t size) noexcept nogil
# Counts octets that the protocol wants to hold: False when that is too much, even after the connection that holds most has ended.
cdef bint connection_charge(TcpConnection *connection, uint32_t size) noexcept nogil

cdef inline uint32_t counted_octets(uint32_t held) noexcept nogil:
    return held - OCTETS_FREE if held > OCTETS_FREE else 0

cdef inline void connection_count(TcpConnection *connection, int64_t more) noexcept nogil:
    """Octets that the connection holds from now on, or no longer (negative)."""
    connection.tcp.octets += <uint64_t>more
    connection.tcp.held_by[connection.network] += <uint64_t>more

cdef inline void connection_discharge(TcpConnection *connection, uint32_t size) noexcept nogil:
    connection_count(connection, <int64_t>counted_octets(connection.held - size) - counted_octets(connection.held))
    connection.held -= size

cdef inline bint connection_may_read(const TcpConnection *connection) noexcept nogil:
    return (connection.outstanding < connection.protocol.outstanding_max and connection.output_used - connection.output_sent < OUTPUT_PAUSE
            and connection.transfer == NULL and not connection.last and not connection.broken)
