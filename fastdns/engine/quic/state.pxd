"""What QUIC knows on a worker: the structs of connections, streams and sockets. connection.pxd says how they are used."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.engine.io.transport cimport TransportWorker
from fastdns.engine.io.datagram cimport UdpSocket
from fastdns.engine.quic.output cimport Output
from fastdns.engine.quic.quiche cimport Context, quiche_config, quiche_conn, quiche_h3_config, quiche_h3_conn
from fastdns.engine.quic.table cimport IdTable
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.system.address cimport Address
from fastdns.system.list cimport List, ListNode, list_container, list_first
from fastdns.walk.query cimport PREFETCH_QUERIES, WORKERS_MAX, Flush, Query, Timer, Transport, Worker
from fastdns.walk.trace cimport TraceContext

cdef enum:
    ID_LENGTH = 8                   # octets of our connection ids: socket, tag of the listener, six random ones
    PATHS_MAX = 8                   # of a connection, one after the other: quiche keeps those that a client has left
    IDS_MAX = 4                     # names of a connection in the table
    STREAM_WINDOW = 98304           # octets that a client may send on a stream: more than the longest message with its length
    CONNECTION_WINDOW = 131072      # octets of a connection that wait to be read
    RESETS_MAX = 1000               # requests of a connection that were given up
    KEPT_MAX = 98304                # octets kept of requests that are not complete, above which no more are read
    BACKLOG_MAX = 262144            # octets of replies that a client does not take
    HANDSHAKES_MAX = 256            # under way in the process, shared out among the workers
    NETWORKS = 256                  # classes of clients' networks (system/address: address_network), by a hash
    SHARE = 64                      # a network may have one 64th of `working_max`, also where others have all of it
    STREAM_BUCKETS = 4096
    ARENA_SIZE = 131072             # octets of messages of a batch
    REPLY_SIZE = 65792              # octets of the longest reply, and more
    STATUSES = 8                    # of a protocol, that are counted

cdef struct QuicPath:               # of a datagram
    Address client                  # whom it is from: as its PROXY header says, where one counts
    Address peer                    # whom the kernel has it from, and replies go to: the client, or a proxy
    Address local
    uint8_t proxied                 # client and peer are not the same

cdef struct Proxies:                # of a connection: which proxy reaches a client's address
    Address clients[PATHS_MAX]
    Address peers[PATHS_MAX]
    uint32_t count
    uint32_t next                   # place that the next one takes when there is no other

cdef enum Stage:
    STAGE_HANDSHAKE
    STAGE_SERVED
    STAGE_ENDED                     # closed by either side, until its timer says that it may be forgotten

cdef struct QuicConnection
cdef struct QuicSocket
cdef struct QuicStream

cdef struct QuicProtocol:           # what is spoken over the connections of a listener
    Transport transport
    uint64_t no_error               # with which a connection is closed for no fault of anybody
    uint64_t excessive_load         # with which one is closed that costs too much
    bint (*begin)(QuicConnection *connection) noexcept nogil    # it is served from now on; False: out of memory
    void (*input)(QuicConnection *connection) noexcept nogil    # streams have something to read
    void (*expire)(QuicStream *stream) noexcept nogil           # its request is not complete in time
    void (*output)(QuicStream *stream) noexcept nogil           # sends the rest of a reply, as much as goes
    void (*end)(QuicConnection *connection) noexcept nogil      # before its memory goes
    # ---- of a query that is over, as Carrier has them; the stream is released afterwards ----
    void (*send)(QuicStream *stream, Query *q) noexcept nogil
    void (*reject)(QuicStream *stream) noexcept nogil
    void (*unserved)(QuicStream *stream) noexcept nogil
    void (*dropped)(QuicStream *stream) noexcept nogil

cdef struct Offer:                  # what connections to come get: of a configuration
    Context *context
    quiche_config *configs[WORKERS_MAX]     # each worker's own: `accept` writes to it
    quiche_h3_config *http
    uint32_t streams_max            # of a connection
    uint32_t connections_max        # of the listener
    uint32_t refusal                # the protocol closes what is one too many with no_error (0) or excessive_load (1)
    uint32_t working_max            # queries that wait for their answers at a time, of each socket; 0: any number

cdef struct QuicGroup:              # the sockets of a listener
    const QuicProtocol *protocol
    uint32_t listener
    uint32_t generation
    uint8_t tag                     # second octet of the connection ids: that of the process
    uint64_t name                   # by which a process that takes over knows the same address
    uint32_t count
    QuicSocket **sockets
    Offer *offer                    # atomic: a reload replaces it
    uint32_t connections            # served; atomic
    uint32_t cells[STATUSES]        # metric of responses, by the protocol's numbers of them

cdef struct Moderation:             # of a socket's wake-ups (moderation.pxd)
    uint32_t joined                 # of a batch: datagrams whose connection had another one within MODERATION_INTERVAL before
    int32_t score                   # batches with such datagrams, less those without
    uint8_t waiting                 # epoll does not watch the socket
    QuicSocket *next

cdef struct ReadRates:              # of a worker's moderated sockets (moderation.pxd)
    uint8_t rare                    # they are read at the longer interval
    uint8_t tried                   # in this sample, to see whether the interval is better than the other one
    uint32_t reads                  # of this sample
    uint32_t samples                # since the other interval was tried
    uint64_t asked                  # queries of this sample
    int64_t begun                   # ns; of this sample
    uint64_t rates[2]               # queries a second, by `rare`

cdef struct QuicNetwork:            # what clients of a class of networks have on a socket
    uint32_t served                 # connections; atomic: other workers look at it
    uint32_t working                # queries that wait for their answers
    List waiting                    # connections with queries that wait for their turn; the next one first
    ListNode node                   # of the socket's `waiting`, while there are such

cdef struct QuicSocket:             # a worker's own
    UdpSocket udp                   # first
    QuicGroup *group
    uint32_t index                  # in the group: the first octet of the connection ids, modulo the count
    uint32_t working                # queries that wait for their answers
    List waiting                    # networks with queries that wait for their turn; the next one first
    Flush flush                     # has them asked
    Moderation moderation
    QuicNetwork networks[NETWORKS]

cdef struct QuicWorker:             # QUIC's state on one worker
    TransportWorker base            # first; `connections`: all in the list
    IdTable ids
    List connections                # the one used last first
    List handshakes                 # those under way, the newest first
    uint32_t handshake_count
    uint16_t holding[NETWORKS]      # handshakes under way, by class of address_prefix
    QuicSocket *moderated           # sockets that epoll does not watch, by `moderation.next`
    int64_t resume                  # ns; when these are read
    ReadRates read_rates
    QuicConnection *fed             # got datagrams in this batch, by `next_fed`
    QuicStream *buckets[STREAM_BUCKETS]     # streams that more may come of
    QuicStream *spare               # by `next_in_bucket`
    Query *queries[PREFETCH_QUERIES]
    uint32_t query_count
    uint8_t *arena                  # ARENA_SIZE; messages that queries of this batch borrow
    uint32_t arena_used
    uint8_t *reply                  # a reply on its way to quiche: REPLY_SIZE octets
    Output output

cdef struct QuicStream:
    QuicConnection *connection
    uint64_t id
    QuicStream *next_in_bucket
    ListNode node                   # of the connection's streams
    ListNode read_node              # of the connection's `reading`
    ListNode waiting_node           # of the connection's `waiting`, while `is_waiting`
    int64_t deadline                # ns; of its request, while `reading`
    uint8_t reading
    uint8_t in_bucket               # more may come of it
    uint8_t outstanding             # its query is under way
    uint8_t is_waiting              # for its turn
    uint8_t cancelled               # the client does not want the reply, or the connection is over
    uint8_t blocked                 # `output` has a rest
    uint8_t method                  # of HTTP
    uint8_t headless                # of HTTP: its fields are not there yet
    uint8_t is_head                 # of HTTP: the response has no body
    int64_t content_length          # of HTTP: -1: unknown
    uint8_t *input                  # malloc'ed: what has come of a request
    uint32_t input_size
    uint32_t input_used
    uint8_t *output                 # malloc'ed: the rest of a reply
    uint32_t output_size
    uint32_t output_sent
    uint16_t status                 # of HTTP: headers of such a response are to be sent before `output`, 0: none
    uint32_t max_age                # seconds; of HTTP, as the next one
    uint8_t is_private              # not for caches between client and server
    TraceContext trace              # of HTTP: zeroed where nobody wants it

cdef struct QuicConnection:
    quiche_conn *quic               # NULL: over; its memory goes when no query is under way
    quiche_h3_conn *http
    QuicWorker *owner
    QuicSocket *socket
    const QuicProtocol *protocol
    ListNode node                   # of the worker's connections
    ListNode handshake_node         # of the worker's handshakes
    QuicConnection *next_fed
    uint64_t keys[IDS_MAX]          # in the table; the first is that of its first id
    uint32_t key_count
    uint64_t initial_key            # of the client's first destination, 0: none, or forgotten
    uint8_t stage                   # Stage
    uint8_t is_fed
    uint8_t finishing               # its listener goes: it ends once what was asked is answered
    uint8_t overloaded              # it asks more than it may: it is closed at the end of the batch
    uint8_t moved                   # it has had more paths than one
    uint8_t network                 # class of the client's, as it began
    uint8_t prefix                  # class of its address_prefix
    uint32_t listener
    uint32_t generation
    Address client                  # of the path that was validated last
    Address peer                    # where its last datagram came from, and where to
    Address local
    Proxies *proxies                # malloc'ed; NULL: no datagram had a PROXY header
    ProxyTlvs *tlvs                 # of the PROXY header of its first datagram: a reference, or NULL
    Timer timer
    Flush flush
    int64_t begun_at                # ns; its first datagram
    int64_t used_at                 # ns; its last datagram
    uint32_t outstanding            # queries under way
    uint32_t headless               # streams of HTTP without fields
    uint32_t resets                 # requests that were given up
    uint32_t streams_max            # queries under way, also those whose client has gone
    uint32_t kept                   # octets of requests that are not complete
    uint32_t backlog                # octets of replies that are not taken yet
    List streams                    # the newest first
    List reading                    # streams whose requests are not complete, the earliest deadline first
    List waiting                    # streams whose queries wait for their turn
    ListNode waiting_node           # of its network's `waiting`, while there are such
    uint8_t *last_words             # malloc'ed: the packet that closed it, for a client that goes on to send
    uint32_t last_words_size
    uint32_t unheard                # datagrams since then


cdef inline QuicConnection *quic_connection_of(ListNode *node) noexcept nogil:
    return <QuicConnection *>list_container(node, <size_t>&(<QuicConnection *>NULL).node)


cdef inline QuicStream *quic_stream_of(ListNode *node) noexcept nogil:
    return <QuicStream *>list_container(node, <size_t>&(<QuicStream *>NULL).node)


cdef inline QuicStream *quic_first_reading(const QuicConnection *connection) noexcept nogil:
    """That with the earliest deadline; NULL: none."""
    return <QuicStream *>list_container(list_first(&connection.reading), <size_t>&(<QuicStream *>NULL).read_node)
