"""Upstreams and the questions under way to them: what the files of this folder share.

An `Upstream` belongs to an instance of forward and is shared by all workers. A worker keeps for each instance a `Share` with one `Peer` an upstream: its
sockets and connections. An `Exchange` is one question under way; the queries that wait for it hang from it. Below it stand the
ways to an upstream (_datagram, _connection), which know nothing of policies and report through `Share.answered` and `Share.failed`. What a connection
stands on, TCP with or without TLS or QUIC, is its `Transport` (_tcp, _doq).
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int32_t, int64_t
from fastdns.api.query cimport ERROR_MAX, Query
from fastdns.api.worker cimport WORKERS_MAX, Flush, Mail, Source, Timer, Worker
from fastdns.api.metrics cimport Buckets
from fastdns.api.network cimport iovec, mmsghdr
from fastdns.api.memory cimport List, ListNode, list_container, list_first
from fastdns.api.http cimport FrameScan, HttpChunks, nghttp2_session
from fastdns.api.quic cimport QuicClient, QuicClientConnection, QuicTicket
from fastdns.api.tls cimport TlsContext, TlsSession, TlsStream

cdef enum:
    UPSTREAMS_MAX = 64
    SOCKETS_MAX = 1024              # UDP sockets of a worker to one upstream: one takes questions, the others wait for replies
    SOCKET_SLOTS = 1024             # questions in flight on a socket, by the low bits of their id
    SEND_BATCH = 64
    RECEIVE_BATCH = 32
    RECEIVE_SIZE = 4096             # octets of a reply taken in a batch; clients that advertise more get sockets read singly
    REQUEST_INLINE = 512
    CLIENT_COOKIE = 8               # octets
    SERVER_COOKIE_LEAST = 8
    SERVER_COOKIE_MAX = 32
    COOKIE_SPACE = 11 + 4 + 40       # octets behind a request, for OPT, the option's head and both cookies
    CONNECTION_SLOTS = 256
    CONNECTION_DEPTH = 128          # questions in flight on one connection
    CONNECTIONS = 4                 # of a worker to an upstream, before questions share them
    CONNECTIONS_MAX = 64
    OUT_KEPT = 4096                 # octets of an output buffer that an idle connection keeps
    TICKET_READS = 8                # of a TLS connection, after which no session ticket is looked for any more
    RCODE_CELLS = 24
    MILLISECOND = 1000000           # ns
    LATENCY_CELLS = 128
    TOKEN_BUCKETS = 256             # as many as a uint8_t has values

    HTTP_BODY_MAX = 65535 + 9       # octets of a response: a message, and what gRPC puts around it
    HTTP_BODY_INLINE = 1024
    HTTP_PREFIX_MAX = 16

cdef enum Protocol:                 # of an upstream, as the Corefile has it
    PROTOCOL_DNS
    PROTOCOL_TLS
    PROTOCOL_HTTPS
    PROTOCOL_GRPC
    PROTOCOL_QUIC

cdef enum:                          # labels `proto` of metrics
    PROTO_UDP
    PROTO_TCP
    PROTO_TLS
    PROTO_QUIC
    PROTOS

cdef enum Excess:                   # what an upstream sends without end: labels `reason` of a metric
    EXCESS_MESSAGES                 # nobody has asked for
    EXCESS_OCTETS                   # of a reply
    EXCESS_FRAMES                   # of HTTP/2 that are no part of a reply
    EXCESSES

cdef enum Way:                      # how a question travels
    WAY_NONE
    WAY_UDP
    WAY_CONNECTION
    WAY_SHARED                       # over the connection of another worker
    WAY_PAUSE                       # before the next attempt

cdef enum Letters:                  # of a question, in the replies of an upstream
    LETTERS_UNKNOWN
    LETTERS_KEPT                    # and names are found in any case
    LETTERS_CHANGED                 # or names are found in one case alone

cdef enum Cookies:                  # of an upstream
    COOKIES_UNKNOWN
    COOKIES_KNOWN                   # it has sent a server cookie
    COOKIES_REFUSED                 # it cannot stand the option

cdef enum Outcome:
    BEGUN = 0                       # under way
    BROKEN = -1                     # failed at once; the exchange's error says why

cdef struct Share
cdef struct Peer
cdef struct Socket
cdef struct Connection
cdef struct Exchange
cdef struct Probe
cdef struct Transport
cdef struct Framing
cdef struct HttpStream
cdef struct Doq

cdef struct HttpService:            # what is asked over HTTP: DNS over HTTPS, or gRPC
    # Submits the request of a question (http2_submit). -1: out of memory.
    int (*ask)(HttpStream *stream, Exchange *e) noexcept nogil
    # The response is whole.
    void (*replied)(HttpStream *stream, Exchange *e) noexcept nogil
    # Nothing more comes: error is of RST_STREAM (RFC 9113 7). NULL: the exchange has failed as any other does.
    void (*broken)(HttpStream *stream, Exchange *e, const char *error) noexcept nogil

cdef struct Upstream:
    uint8_t address[128]            # a sockaddr
    uint32_t address_length
    uint8_t protocol                # Protocol
    uint8_t listed                  # position in the configuration
    TlsContext *tls                 # borrowed from the instance; NULL: clear text
    QuicClient *quic                # borrowed likewise; NULL: not QUIC
    const Transport *transport      # of connections
    const char *server_name         # that its certificate has to name; borrowed likewise
    const HttpService *service      # NULL: no HTTP
    const char *authority           # of HTTP, borrowed likewise
    char text[64]                   # address:port
    # ---- shared by the workers: atomic ----
    uint32_t fails                  # probes that failed, one after another
    uint32_t probing                # 1: a cycle of probes runs somewhere
    uint32_t host                   # the worker, counted from 1, that has a connection for all; 0: none
    int64_t dial                    # moving average of the time to connect, ns
    int64_t alive                   # when a probe was answered last, ns
    int64_t excess_logged           # when the log was told last that it sends without end, ns
    # What workers learn of it stands on nothing else that they write: no order is needed among these.
    uint32_t letters                # Letters
    uint32_t letters_trials         # that went well
    int64_t letters_changed         # when that was seen, ns
    # ---- metric cells ----
    uint32_t duration               # RCODE_CELLS histograms in a row
    uint32_t failures
    uint32_t evicted                # queries that waited for it when all slots were taken
    uint32_t hedged                 # second questions sent to it
    uint32_t hedge_wins             # and those that were answered first
    uint32_t hits[PROTOS]
    uint32_t misses[PROTOS]
    uint32_t exceeded[EXCESSES]     # connections that were ended

cdef struct Settings:               # of an instance
    const char *plugin              # the directive, for log lines
    Upstream *upstreams
    uint32_t count
    uint8_t source[128]             # sockaddr that sockets are bound to
    uint32_t source_length          # 0: none
    uint16_t *ports                 # that UDP sockets may have; owned by the instance
    uint32_t port_count
    uint32_t socket_uses            # questions of a UDP socket, after which another one is opened
    int64_t socket_age              # ns; likewise
    uint32_t sockets                # of all workers to one upstream, before sockets get more questions
    uint8_t force_tcp
    int64_t expire                  # ns
    int64_t max_age                 # ns; 0: none
    uint32_t max_idle               # connections; 0: no limit
    int64_t read_timeout            # ns
    uint8_t cookies                 # go with questions over UDP
    uint8_t mixed_case              # questions are sent in it where an upstream keeps letters
    uint8_t get                     # DNS over HTTPS by GET
    uint32_t max_fails              # 0: never down
    int64_t interval                # of probes, ns
    uint8_t probe_flags             # first octet of the header's flags
    uint8_t probe_name[256]
    uint32_t probe_name_length
    uint32_t hedge_percent          # second questions in a hundred; 0: there are none
    uint32_t hedge_quantile         # percent of the replies that come before a second question leaves; 0: hedge_delay says
    int64_t hedge_delay             # ns; likewise
    uint32_t hedge_labels           # of the names whose second questions are in one bucket
    uint32_t withheld               # metric cell: second questions for which a token was missing
    Buckets *buckets                # of durations
    uint32_t stride                 # cells of one histogram of durations

cdef struct TokenBuckets:           # of second questions, in hundredths of a token; see _hedge.pxd
    uint16_t networks[TOKEN_BUCKETS]
    uint16_t zones[TOKEN_BUCKETS]

cdef struct Share:                  # a worker's part of an instance
    Worker *worker
    Settings *settings
    void *owner                     # the instance, for the functions below
    void (*failed)(Exchange *e) noexcept nogil                  # e.error is set
    bint (*answered)(Exchange *e, const uint8_t *packet, uint32_t length, bint cut) noexcept nogil    # False: not the reply; the wait goes on
    void (*again)(Exchange *e) noexcept nogil                   # the same attempt anew: a kept connection was closed
    void (*sent)(Exchange *e) noexcept nogil                    # the time to wait for the reply begins
    void (*leave)(Exchange *e) noexcept nogil                   # takes the exchange from where it is
    int (*begin)(Exchange *e) noexcept nogil                    # sends the question to e.upstream: BEGUN or BROKEN
    Peer *peers
    Timer sweep                     # closes what is idle
    # ---- the exchanges' ----
    List pending                    # those that wait for a reply, all for the same time; oldest first
    Timer timeout
    Timer repeat
    List paused                     # oldest first
    Timer pause
    Exchange **equal                # questions in flight by hash
    TokenBuckets *hedge_buckets     # NULL: there are no second questions
    uint32_t waiting                # exchanges
    uint32_t spare                  # datagrams that may be repeated

cdef struct Probe:                  # the health check of one upstream, run by the worker that saw it fail
    Peer *peer
    Timer timer
    Source source                   # fd -1: none
    uint8_t running
    uint8_t asking                  # a reply is awaited
    uint8_t connected
    Exchange *exchange              # over TLS: its question, which takes a connection as any other does
    uint16_t id
    uint32_t size
    uint32_t got
    uint8_t request[300]
    uint8_t reply[514]              # the beginning of it

cdef struct Latencies:              # of an upstream's replies to a worker, the last ones most; see _hedge.pxd
    uint16_t cells[LATENCY_CELLS]   # replies
    uint32_t count
    uint32_t fresh                  # since the quantile was taken
    int64_t quantile                # ns; 0: there are too few

cdef struct Peer:                   # a worker's way to an upstream
    Share *share
    Upstream *upstream
    Probe probe
    # ---- second questions; see _hedge.pxd ----
    List expected                   # exchanges that may get one, oldest first
    Timer hedge
    Latencies latencies
    # ---- UDP ----
    Socket *current                 # takes the questions; NULL: none yet
    Socket *sockets[SOCKETS_MAX]    # all that are open
    uint32_t socket_count
    Exchange *batch[SEND_BATCH]     # queued on `current`
    uint32_t batched
    Flush flush
    int64_t replied                 # when the last reply came, ns
    uint32_t replies                # until a trial of letters
    uint32_t unanswered             # such trials whose replies had no answers, one after another
    int64_t quiet                   # when the first question since then was sent; 0: none was
    # ---- cookies; see _cookies.pxd ----
    uint8_t cookies                 # Cookies
    uint8_t client_cookie[CLIENT_COOKIE]
    uint8_t server_cookie[SERVER_COOKIE_MAX]
    uint8_t server_cookie_size      # 0: there is none yet
    uint8_t own_address[28]         # sockaddr that the cookies are for, port 0
    uint32_t cookies_missing        # replies, one after another
    int64_t cookies_refused         # when, ns
    # ---- connections ----
    List connections                # oldest first
    uint32_t connection_count
    TlsSession session              # of the connection made last: the next one resumes it
    QuicTicket ticket               # likewise
    uint32_t depth                  # questions that a connection takes, once known; 0: CONNECTION_DEPTH
    uint32_t shared_requests                 # questions with another worker

cdef struct Socket:                 # a UDP socket
    Source source
    Peer *peer
    Socket *next                # of free ones
    uint32_t place              # in peer.sockets
    int64_t since               # ns: when it began to take questions
    int64_t used
    uint32_t uses
    uint32_t left               # questions that it may still take
    uint32_t waiting            # exchanges in flight
    uint32_t large              # of them, those that take more than RECEIVE_SIZE octets
    uint8_t retired             # takes no more questions; closed when none is in flight
    uint8_t busy                # its replies are being handed out
    uint16_t slots[SOCKET_SLOTS]    # numbers of exchanges by the low bits of their id

cdef struct Transport:              # what a connection stands on
    int socket_type
    const char *network             # as Go's errors have it
    bint (*begin)(Connection *c) noexcept nogil                 # the socket is connecting; False: out of memory
    void (*ready)(Source *source, Worker *worker, uint32_t events) noexcept nogil
    void (*flush)(Connection *c) noexcept nogil                 # sends what is to be sent; the connection may be gone afterwards
    void (*end)(Connection *c) noexcept nogil                   # before the socket is closed

cdef struct Framing:                # how questions and replies stand on a connection
    # Puts a question behind what is to be sent. -1: e.error says why.
    int (*write)(Connection *c, Exchange *e) noexcept nogil
    # Hands out the replies in octets that came: how many of them are done with, the others come again with more behind them; -1: c.failure says why.
    int64_t (*read)(Connection *c, uint8_t *octets, uint32_t size) noexcept nogil
    uint32_t depth                      # questions at a time
    uint8_t independent                 # one slow reply holds up no other
    # ---- NULL where there is nothing to do ----
    bint (*begin)(Connection *c) noexcept nogil                 # the connection is open; False: out of memory
    int (*fill)(Connection *c) noexcept nogil                   # puts more into c.out, which is empty; -1: c.failure says why
    void (*forget)(Connection *c, Exchange *e) noexcept nogil   # nobody wants the reply any more, or it was handed out
    void (*ended)(Connection *c) noexcept nogil                 # the upstream has closed: c.partial is all that came
    void (*free)(Connection *c) noexcept nogil

cdef struct HttpStream:             # one request on a connection of HTTP/2; on HTTP/1.1 the one under way
    Connection *connection
    ListNode node                   # of the connection's
    HttpStream *next_free
    Exchange *exchange              # NULL: nobody waits
    int32_t id
    uint16_t status                 # of HTTP; 0: not there
    int32_t grpc_status             # -1: not there
    uint8_t ended                   # the response is whole
    uint32_t fields                 # octets of the response's
    # ---- the request's body: prefix, then the message ----
    uint8_t prefix[HTTP_PREFIX_MAX]
    uint32_t prefix_size
    uint32_t sent
    # ---- the response's ----
    uint8_t *body                   # `inner`, or malloc'ed
    uint32_t body_size
    uint32_t body_used
    uint8_t inner[HTTP_BODY_INLINE]
    char message[128]               # grpc-message, as it came, cut

cdef struct ResponsePlace:          # of a response of HTTP/1.1 that is not whole
    uint32_t head               # octets of the heads that are whole, of 1xx too
    uint32_t scanned            # octets behind those that are no head yet
    uint8_t chunked             # the body follows, in chunks
    uint8_t sized               # the body follows, of `length` octets; -1: to the end of the connection
    uint8_t close
    int64_t length
    HttpChunks chunks

cdef struct Connection:             # over TCP, TLS or QUIC
    Source source
    Peer *peer
    ListNode node               # of the peer's
    Connection *next_free
    const Framing *framing
    TlsStream *tls              # NULL: clear text, or not connected
    const char *failure         # why the upstream's octets make no sense
    Timer dial                  # the time to connect, and for the TLS handshake
    Flush flush                 # of the output
    Mail again                  # reads on in the worker's next turn: TLS has octets, of which epoll knows nothing
    int64_t opened
    int64_t used                # when it last became idle
    int64_t heard               # when octets came last
    uint32_t waiting            # exchanges
    uint32_t withheld           # of them, those whose questions wait until the upstream takes more
    uint32_t asked              # questions so far: each allows the upstream some octets
    uint32_t unasked            # messages that were no reply
    uint8_t again_posted
    uint8_t connected
    uint8_t open                # and the handshake is done: questions leave
    uint8_t retired             # takes no more questions
    uint8_t busy                # its replies are being handed out
    uint8_t watching_out
    uint8_t tickets             # reads until the session was kept
    uint8_t *out                # octets not yet sent
    uint32_t out_size
    uint32_t out_used
    uint32_t out_sent
    uint8_t *partial            # the beginning of a message
    uint32_t partial_size
    uint32_t partial_used
    uint16_t slots[CONNECTION_SLOTS]
    nghttp2_session *session    # of HTTP/2
    FrameScan frames            # likewise; the weight is of those that are no part of a reply
    uint64_t content            # octets of its DATA
    List streams                # HttpStreams, oldest first
    uint16_t current            # HTTP/1.1: number of the exchange under way
    Doq *doq                    # of QUIC
    ResponsePlace response      # of HTTP/1.1: as far as `partial` was read

cdef struct Partial:                # the beginning of a reply over QUIC
    uint32_t size
    uint32_t used
    uint8_t octets[1]           # in truth as many as `size`

cdef struct Doq:                    # DNS over QUIC on a connection; places are those of Connection.slots
    QuicClientConnection quic
    Timer timer
    uint32_t opened             # streams
    uint32_t unacknowledged     # datagrams that came since packets were sent
    uint32_t streams[CONNECTION_SLOTS]      # number of the stream, from 1; 0: it has none yet
    uint32_t sent[CONNECTION_SLOTS]         # octets of the question that have left
    uint8_t withheld[CONNECTION_SLOTS]
    uint8_t places[CONNECTION_SLOTS]        # by the low bits of a stream's number, where nothing newer has them
    Partial *partial[CONNECTION_SLOTS]

cdef enum Hedging:
    HEDGE_DUE = 1                   # it is in peer.expected
    HEDGE_FIRST = 2                 # its second question was sent, and its own fate is open
    HEDGE_SECOND = 4                # it is such a question, or has taken the first one's place, and its fate is open

cdef struct Exchange:
    Share *share
    uint32_t number                 # in the worker's stock, from 1
    uint32_t generation             # grows when it is given back
    Exchange *next_free
    # ---- the question ----
    uint32_t hash
    uint32_t size                   # of the request
    uint16_t question_length
    uint32_t limit                  # octets of a reply over UDP
    uint8_t by_tcp                  # the client's transport counts as TCP
    uint32_t bare_size              # of the request without its cookie
    uint8_t client_cookie[CLIENT_COOKIE]
    # ---- attempts ----
    int64_t begun                   # ns
    int64_t asked                   # when this attempt began
    uint8_t order[UPSTREAMS_MAX]
    uint32_t abandoned              # counts the requests to other workers that it has abandoned
    uint16_t id
    # ---- when its second question is due ----
    uint8_t network                 # number of the bucket
    uint8_t zone                    # likewise
    ListNode hedge_node
    int64_t hedge_at                # ns
    int64_t paired                  # of one of two questions: when the first one was asked
    # ---- those that wait, or pause ----
    ListNode node
    int64_t deadline
    # ---- zero in a new exchange: side by side, so that the compiler clears them by few instructions (exchange_take) ----
    Query *waiters                  # who waits
    void *shared                    # another worker's question: nobody waits here; see _shared.pxd
    Exchange *same                  # in the same slot of share.equal
    uint8_t *request                # octets or large
    uint8_t *large                  # malloc'ed
    Upstream *upstream
    Socket *socket
    Connection *connection
    HttpStream *stream              # over HTTP/2
    Exchange *second                # its second question; NULL: there is none. See _hedge.pxd
    Exchange *first                 # of a second question: the exchange that has the queries
    uint32_t failed                 # attempts
    uint16_t status                 # of gRPC, where the call has failed
    uint16_t cookie                 # octets of the option in the request; 0: there is none. See _cookies.pxd
    uint16_t opt                    # where the request has the length of its OPT's rdata; 0: there is no OPT
    uint8_t opt_added               # OPT was added for the cookie
    uint8_t opt_fixed               # it is not at the end
    uint8_t bad_cookies             # replies BADCOOKIE
    uint8_t probe                   # a health check's question: nobody waits
    uint8_t finishing
    uint8_t signed                  # not to be changed
    uint8_t step                    # next in order
    uint8_t known_down              # upstreams found down in this round
    uint8_t passed                  # silent ones that others went before
    uint8_t failovers
    uint8_t way                     # Way
    uint8_t way_tcp                 # this attempt goes over TCP after a truncated reply
    uint8_t alone                   # its next connection is a new one of its own
    uint8_t opened                  # its connection was made for it
    uint8_t queued                  # in peer.batch
    uint8_t repeats                 # of this attempt's datagram
    uint8_t plain                   # its letters stay; see _letters.pxd
    uint8_t mixed                   # the request has others than the client's
    uint8_t exact                   # the reply must have the request's
    uint8_t trial                   # Trial
    uint8_t refused                 # by a server that has not looked at it
    uint8_t hedging                 # Hedging, several
    uint8_t timed                   # it is in share.pending, or pauses
    char error[ERROR_MAX]           # begins with NUL in a new exchange
    uint8_t octets[REQUEST_INLINE]

cdef struct Stock:                  # a worker's memory for all instances; kept for the life of the process
    Exchange **chunks               # of 64
    uint32_t made
    Exchange *free
    Socket *free_sockets
    Connection *free_connections
    HttpStream *free_streams
    mmsghdr sent[SEND_BATCH]
    iovec sent_spans[SEND_BATCH]
    mmsghdr received[RECEIVE_BATCH]
    iovec received_spans[RECEIVE_BATCH]
    uint8_t octets[RECEIVE_BATCH][RECEIVE_SIZE]
    uint8_t big[131076]             # two whole messages of TCP with their lengths
    uint8_t records[32768]          # of TLS, as they came

cdef Stock *stocks[WORKERS_MAX]

cdef inline Peer *upstream_peer(Share *share, const Upstream *upstream) noexcept nogil:
    return &share.peers[upstream - share.settings.upstreams]

cdef inline Exchange *exchange_of(ListNode *node) noexcept nogil:
    return <Exchange *>list_container(node, <size_t>&(<Exchange *>NULL).node)

cdef inline Connection *connection_of(ListNode *node) noexcept nogil:
    return <Connection *>list_container(node, <size_t>&(<Connection *>NULL).node)

cdef inline HttpStream *stream_of(ListNode *node) noexcept nogil:
    return <HttpStream *>list_container(node, <size_t>&(<HttpStream *>NULL).node)

cdef inline Exchange *first_due(List *list, int64_t now) noexcept nogil:
    """Of exchanges in the order of their deadlines the first one, if that has passed."""
    cdef Exchange *e = exchange_of(list_first(list))
    return e if e != NULL and e.deadline <= now else NULL

cdef inline bint upstream_encrypts(const Upstream *upstream) noexcept nogil:
    return upstream.tls != NULL or upstream.quic != NULL

cdef inline Exchange *stock_exchange(Stock *stock, uint32_t number) noexcept nogil:
    return &stock.chunks[(number - 1) >> 6][(number - 1) & 63]

# The calling worker's memory, made when first asked for; NULL when there is none left.
cdef Stock *stock_make(Worker *worker) noexcept nogil

cdef inline Stock *stock_of(Worker *worker) noexcept nogil:
    return stocks[worker.id] if stocks[worker.id] != NULL else stock_make(worker)

# A share of zeros gets its peers, lists and what its timers are for; functions, and the timers' own, are its owner's. False without memory.
cdef bint share_begin(Share *share, Worker *worker, Settings *settings, void *owner) noexcept nogil

cdef Exchange *exchange_take(Share *share) noexcept nogil
cdef void exchange_give(Exchange *e) noexcept nogil
# The exchange ends at its deadline (Share.timeout). All of a share wait equally long, so the list is in the order of deadlines and one timer does for all.
cdef void exchange_wait(Exchange *e, int64_t deadline) noexcept nogil
cdef void exchange_unwait(Exchange *e) noexcept nogil
# What another worker or an HTTP server has to say of an exchange: its reply, or NULL and what went wrong. It is checked here.
cdef void exchange_returned(Exchange *e, const uint8_t *reply, uint32_t size, const char *error) noexcept nogil
# Sets e.error as Go words it: OPERATION NETWORK LOCAL->UPSTREAM: WHAT, with local the address of fd (-1: none, "" before it is bound).
cdef void upstream_error(Exchange *e, const char *operation, const char *network, int fd, const char *call, int error) noexcept nogil
# The network of its connections, as Go's errors have it.
cdef const char *upstream_network(const Upstream *upstream) noexcept nogil
# A socket of the instance: made, bound to the source address, not connected. -1 and errno.
cdef int upstream_socket(const Settings *settings, const Upstream *upstream, int type) noexcept nogil
# A probe was answered: the upstream is up.
cdef void upstream_alive(Upstream *upstream, int64_t now) noexcept nogil
