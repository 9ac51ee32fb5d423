"""A request and its response, in any version of HTTP; what a version and a service do stands in the modules of each (http1, session; doh, grpc).

A version of HTTP makes an `HttpRequest` and calls `ask` of its connection's service (doh, grpc) once it is whole, or too large. The service has a query
made of it (http_query) and calls the version's `respond` then or later. A request whose client has gone stays until its query has ended, and counts as
one of the connection's.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int32_t, int64_t
from fastdns.engine.http.frames cimport FrameScan
from fastdns.engine.http.message cimport BODY_MAX, ENCODED_MAX
from fastdns.engine.http.head cimport HttpChunks
from fastdns.engine.io.connection cimport TcpConnection
from fastdns.system.list cimport List, ListNode, list_container
from fastdns.walk.query cimport Query
from fastdns.walk.trace cimport TraceContext

cdef extern from *:
    """
    typedef struct nghttp2_session nghttp2_session;
    """
    ctypedef struct nghttp2_session:    # libnghttp2's own
        pass

cdef enum:
    FIELDS_MAX = 16384              # octets of a request's fields, and 32 for each, its target aside
    HEAD_MAX = FIELDS_MAX + ENCODED_MAX

cdef enum HttpMethod:
    METHOD_OTHER
    METHOD_GET
    METHOD_POST
    METHOD_HEAD

cdef enum HttpContent:              # the content-type of a response
    CONTENT_NONE
    CONTENT_TEXT                    # text/plain, as Go's http.Error writes it
    CONTENT_PLAIN                   # text/plain
    CONTENT_DNS                     # application/dns-message
    CONTENT_GRPC                    # application/grpc

cdef struct HttpRequest
cdef struct HttpConnection

cdef struct HttpResponse:
    uint16_t status
    HttpContent content
    uint32_t max_age                # seconds; of CONTENT_DNS, as the next one
    uint8_t is_private              # not for caches between client and server
    const uint8_t *body             # of the request's `reply`, or constant
    uint32_t length
    int grpc_status                 # -1: none. With a body it follows in trailers
    const char *grpc_message        # of grpc_status above 0; encoded

ctypedef void (*http_respond_func)(HttpRequest *request, const HttpResponse *response) noexcept nogil

cdef struct HttpService:            # what is asked by requests
    uint32_t fields_max             # octets of a request's fields, and 32 for each, its target among them
    uint32_t body_max               # octets of a body
    void (*field)(HttpRequest *request, const uint8_t *name, uint32_t name_length, const uint8_t *value, uint32_t length) noexcept nogil
    void (*ask)(HttpRequest *request) noexcept nogil            # it is whole, or too large. It is answered now or later
    void (*refuse_fields)(HttpRequest *request) noexcept nogil  # they are too large
    void (*expire)(HttpRequest *request) noexcept nogil         # its `timeout` is over
    # How the query of a request ends: its message is none that is served, no query could be made, or it has a reply. replied False: it was dropped.
    void (*reject)(HttpRequest *request, const Query *q) noexcept nogil
    void (*fail)(HttpRequest *request) noexcept nogil
    void (*reply)(HttpRequest *request, Query *q, bint replied) noexcept nogil

cdef struct HttpRequest:
    HttpConnection *connection      # stays while a query of it is under way
    ListNode node                   # of the connection
    int32_t stream                  # of HTTP/2; 0: HTTP/1.1
    uint8_t method                  # HttpMethod
    uint8_t ended                   # the client has sent all of it
    uint8_t asked                   # it was whole, or too large: nothing more of it is read
    uint8_t answered                # it has its response
    uint8_t under_way               # a query
    uint8_t gone                    # nobody waits for the response
    uint8_t too_large               # its body
    uint8_t has_status              # trailers with grpc-status 0 follow the body
    # ---- what the client sent ----
    uint32_t fields                 # octets of the fields, and 32 for each, without the target
    uint8_t *target                 # owned
    uint32_t target_length
    uint8_t *body                   # owned; GET: the message that was encoded
    uint32_t body_size
    uint32_t body_length
    uint32_t kept                   # octets of the body that the connection's window has not got back
    TraceContext trace              # zeroed where nobody wants it
    # ---- gRPC ----
    uint8_t grpc_content            # its content-type is gRPC's
    char encoding[32]               # grpc-encoding, cut; "" for none or identity
    int64_t timeout                 # ns, of grpc-timeout; 0: none, -1: malformed
    # ---- what it gets ----
    int64_t since                   # ns: when it began, or was answered
    uint8_t *reply                  # owned
    const uint8_t *out              # what of the response's body has not left yet
    uint32_t out_length

cdef struct HttpConnection:
    TcpConnection base              # first
    const HttpService *service
    http_respond_func respond       # of its version of HTTP
    int64_t read_limit              # ns that a request may take to come
    uint32_t streams_max            # requests at a time, those counted whose client has gone; 0: the pool of queries is the bound
    uint32_t requests               # of `all`
    uint32_t open                   # those of them whose client waits
    List all                        # its requests, the oldest first
    uint32_t opened                 # requests so far
    # ---- HTTP/1.1 ----
    uint32_t needed                 # octets of input from input_done on that the request has at least
    uint32_t scanned                # of these, those in which no head ends
    uint32_t chunked                # octets of the head of a request whose body has chunks, of which more have to come; 0: there is none
    HttpChunks chunks               # those that have come
    uint8_t continued               # 100 (Continue) was sent
    uint8_t close                   # the response is the last
    # ---- HTTP/2 ----
    nghttp2_session *session        # owned
    FrameScan frames                # the weight is of those that ask for nothing
    int32_t newest_reset            # the stream that the client has reset last
    uint32_t resets                 # of streams, by either side
    uint32_t waiting                # octets of replies that wait for the client's windows
    int64_t window_max              # the most that the SETTINGS that come may set as the window of streams
    uint8_t draining                # no further requests
    uint8_t has_reset               # this side has reset a stream: what comes on streams that are not there may be of one
    uint8_t greeted                 # the client's SETTINGS have come

cdef inline HttpRequest *http_request_of(ListNode *node) noexcept nogil:
    return <HttpRequest *>list_container(node, <size_t>&(<HttpRequest *>NULL).node)

cdef HttpConnection *http_connection_begin(TcpConnection *base, const HttpService *service) noexcept nogil      # what versions have in common
cdef void http_connection_free(HttpConnection *connection) noexcept nogil           # its requests, but for those under way
cdef HttpRequest *http_request_begin(HttpConnection *connection) noexcept nogil     # NULL: out of memory
cdef void http_request_free(HttpRequest *request) noexcept nogil
# Nobody waits for it: it goes, now or when its query has ended.
cdef void http_request_leave(HttpRequest *request) noexcept nogil
# A copy of the target. False: out of memory.
cdef bint http_request_target(HttpRequest *request, const uint8_t *octets, uint32_t length) noexcept nogil
# More of the body; above `most` it is dropped, and `too_large`. False: out of memory.
cdef bint http_request_body(HttpRequest *request, const uint8_t *octets, uint32_t length, uint32_t most) noexcept nogil
# The query of a request has ended. False: nobody waits for its response, and the request may be gone. connection_answered follows.
cdef bint http_query_ended(HttpRequest *request) noexcept nogil
# Whether the configuration wants to know the traces of requests.
cdef bint http_reads_traces(const TcpConnection *connection) noexcept nogil
# Space for a reply of this many octets. NULL: the connection has ended.
cdef uint8_t *http_reply_alloc(HttpRequest *request, uint32_t size) noexcept nogil
# The field `date` of now (RFC 9110 6.6.1), 29 octets.
cdef const char *http_reason(uint16_t status) noexcept nogil
