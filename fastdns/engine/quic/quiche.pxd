"""quiche's functions and BoringSSL's, as the other modules of this package call them: a table that the module `library` fills.

`library` alone is linked with the static library of `make quic`. The others are compiled without it, and do nothing while the table is empty.
A connection belongs to one worker. A config is one worker's too; a context and an HTTP/3 config may be read by all.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from posix.time cimport timespec
from fastdns.system.socket cimport sockaddr, socklen_t

cdef extern from "<stdbool.h>":
    ctypedef bint c_bool "bool"

cdef extern from *:
    """
    #include <stdbool.h>
    #include <sys/socket.h>
    #include <time.h>
    typedef struct quiche_config quiche_config;
    typedef struct quiche_conn quiche_conn;
    typedef struct quiche_connection_id_iter quiche_connection_id_iter;
    typedef struct quiche_path_event quiche_path_event;
    typedef struct quiche_socket_addr_iter quiche_socket_addr_iter;
    typedef struct quiche_stream_iter quiche_stream_iter;
    typedef struct quic_handshake quic_handshake;
    typedef struct quic_session quic_session;
    typedef struct quiche_h3_config quiche_h3_config;
    typedef struct quiche_h3_conn quiche_h3_conn;
    typedef struct quiche_h3_event quiche_h3_event;

    /* The layouts are compared with quiche's in library.pyx. */
    typedef struct { struct sockaddr *from; socklen_t from_length; struct sockaddr *to; socklen_t to_length; } quic_receive_info;
    typedef struct {
        struct sockaddr_storage from; socklen_t from_length; struct sockaddr_storage to; socklen_t to_length; struct timespec at;
    } quic_send_info;
    typedef struct { const uint8_t *name; size_t name_length; const uint8_t *value; size_t value_length; } quic_field;
    """
    cdef struct sockaddr_storage:
        unsigned short ss_family
    ctypedef struct quiche_config:
        pass
    ctypedef struct quiche_conn:
        pass
    ctypedef struct quiche_connection_id_iter:
        pass
    ctypedef struct quiche_path_event:
        pass
    ctypedef struct quiche_socket_addr_iter:
        pass
    ctypedef struct quiche_stream_iter:
        pass
    ctypedef struct quic_handshake:     # an SSL of BoringSSL
        pass
    ctypedef struct quic_session:       # an SSL_SESSION
        pass
    ctypedef struct quiche_h3_config:
        pass
    ctypedef struct quiche_h3_conn:
        pass
    ctypedef struct quiche_h3_event:
        pass
    ctypedef struct quic_receive_info:
        sockaddr *from_ "from"
        socklen_t from_length
        sockaddr *to
        socklen_t to_length
    ctypedef struct quic_send_info:
        sockaddr_storage from_ "from"
        socklen_t from_length
        sockaddr_storage to
        socklen_t to_length
        timespec at
    ctypedef struct quic_field:         # of a response
        const uint8_t *name
        size_t name_length
        const uint8_t *value
        size_t value_length

cdef enum:
    ERROR_DONE = -1                     # of quiche
    ERROR_SHORT = -2
    ERROR_PACKET = -5
    ERROR_CRYPTO = -9
    ERROR_STREAM_STOPPED = -15
    ERROR_STREAM_RESET = -16
    ERROR_H3_BLOCKED = -13
    SHUTDOWN_READ = 0
    SHUTDOWN_WRITE = 1
    PACKET_INITIAL = 1                  # of header_info
    PATH_MIGRATED = 5                   # of path_event_type
    CONNECTION_ID_MAX = 20
    VERIFIER_SIZE = 32                  # octets of HMAC-SHA256

cdef enum H3Event:
    H3_HEADERS
    H3_DATA
    H3_FINISHED
    H3_GOAWAY
    H3_RESET
    H3_PRIORITY

ctypedef int (*field_func)(uint8_t *name, size_t name_length, uint8_t *value, size_t value_length, void *argument) noexcept nogil

cdef struct Context:                    # it goes with the last connection that has it
    void *context                       # an SSL_CTX of BoringSSL
    char *keylog                        # path, or NULL
    uint8_t alpn[8]                     # the protocol, with its length in front

cdef struct QuicTicket:                 # a session that a client's next connection to the same server resumes
    quic_session *session               # NULL: none
    void *context                       # the SSL_CTX that it belongs to, held

cdef struct Quiche:
    # ---- configuration; from a control thread ----
    # With the GIL. credentials: engine/quic/listener.pyi; application: the protocol of ALPN. ValueError with BoringSSL's words, MemoryError.
    Context *(*context_new)(object credentials, bytes application) except NULL
    void (*context_free)(Context *context) noexcept nogil           # connections that have it keep it
    quiche_config *(*config_new)(uint32_t version) noexcept nogil
    void (*config_free)(quiche_config *config) noexcept nogil
    void (*config_set)(quiche_config *config, uint64_t idle_milliseconds, uint64_t streams, uint64_t connection_window, uint64_t stream_window,
                       uint64_t unidirectional, uint64_t receive_size, uint64_t send_size) noexcept nogil
    quiche_h3_config *(*h3_config_new)(uint64_t fields_size) noexcept nogil
    void (*h3_config_free)(quiche_h3_config *config) noexcept nogil
    # ---- clients ----
    # With the GIL: paths of certificate, key and CAs, b"" for none, and the protocol of ALPN. As context_new.
    Context *(*client_context_new)(bytes certificate, bytes key, bytes authority, bytes application) except NULL
    # server_name: an address or a host name that the certificate has to be for. The ticket, which is used up, gets those that the server sends; it
    # outlives the connection. handshake: for verify_failure.
    quiche_conn *(*connect)(const uint8_t *id, size_t id_length, const sockaddr *local, socklen_t local_length, const sockaddr *peer,
                            socklen_t peer_length, const quiche_config *config, Context *context, const char *server_name, QuicTicket *ticket,
                            quic_handshake **handshake) noexcept nogil
    void (*ticket_forget)(QuicTicket *ticket) noexcept nogil
    # Why the server's certificate was not taken; False: it was, or there was none.
    bint (*verify_failure)(quic_handshake *handshake, const char *server_name, char *out, size_t size) noexcept nogil
    const char *(*alert_text)(int alert) noexcept nogil
    # ---- packets without a connection ----
    int (*header_info)(const uint8_t *octets, size_t length, size_t id_length, uint32_t *version, uint8_t *type, uint8_t *source, size_t *source_length,
                       uint8_t *destination, size_t *destination_length, uint8_t *token, size_t *token_length) noexcept nogil
    c_bool (*version_is_supported)(uint32_t version) noexcept nogil
    ssize_t (*negotiate_version)(const uint8_t *source, size_t source_length, const uint8_t *destination, size_t destination_length,
                                 uint8_t *out, size_t size) noexcept nogil
    ssize_t (*retry)(const uint8_t *source, size_t source_length, const uint8_t *destination, size_t destination_length, const uint8_t *fresh,
                     size_t fresh_length, const uint8_t *token, size_t token_length, uint32_t version, uint8_t *out, size_t size) noexcept nogil
    # HMAC-SHA256 under a key of this process
    void (*authenticate)(const uint8_t *octets, size_t length, uint8_t *out) noexcept nogil
    # ---- a connection ----
    # original: the client's first destination after a Retry, else empty. The config is one worker's: it takes the token (16 octets) first.
    quiche_conn *(*accept)(const uint8_t *id, size_t id_length, const uint8_t *original, size_t original_length, const sockaddr *local,
                           socklen_t local_length, const sockaddr *peer, socklen_t peer_length, quiche_config *config,
                           const uint8_t *reset_token, Context *context) noexcept nogil
    void (*free)(quiche_conn *conn) noexcept nogil
    ssize_t (*receive)(quiche_conn *conn, uint8_t *octets, size_t length, const quic_receive_info *info) noexcept nogil
    ssize_t (*send)(quiche_conn *conn, uint8_t *out, size_t size, quic_send_info *info) noexcept nogil
    ssize_t (*stream_receive)(quiche_conn *conn, uint64_t stream, uint8_t *out, size_t size, c_bool *end, uint64_t *code) noexcept nogil
    ssize_t (*stream_send)(quiche_conn *conn, uint64_t stream, const uint8_t *octets, size_t length, c_bool end, uint64_t *code) noexcept nogil
    int (*stream_shutdown)(quiche_conn *conn, uint64_t stream, int direction, uint64_t code) noexcept nogil
    int64_t (*readable_next)(quiche_conn *conn) noexcept nogil
    quiche_stream_iter *(*readable)(const quiche_conn *conn) noexcept nogil
    c_bool (*stream_iter_next)(quiche_stream_iter *streams, uint64_t *stream) noexcept nogil
    void (*stream_iter_free)(quiche_stream_iter *streams) noexcept nogil
    uint64_t (*timeout)(const quiche_conn *conn) noexcept nogil     # ns; UINT64_MAX: none
    void (*on_timeout)(quiche_conn *conn) noexcept nogil
    int (*close)(quiche_conn *conn, c_bool application, uint64_t code, const uint8_t *reason, size_t length) noexcept nogil
    c_bool (*is_established)(const quiche_conn *conn) noexcept nogil
    c_bool (*is_draining)(const quiche_conn *conn) noexcept nogil
    c_bool (*is_closed)(const quiche_conn *conn) noexcept nogil
    c_bool (*local_error)(const quiche_conn *conn, c_bool *application, uint64_t *code, const uint8_t **reason, size_t *length) noexcept nogil
    c_bool (*peer_error)(const quiche_conn *conn, c_bool *application, uint64_t *code, const uint8_t **reason, size_t *length) noexcept nogil
    c_bool (*is_timed_out)(const quiche_conn *conn) noexcept nogil
    uint64_t (*streams_left)(const quiche_conn *conn) noexcept nogil    # bidirectional ones that the peer allows to open
    size_t (*ids_left)(quiche_conn *conn) noexcept nogil
    int (*new_id)(quiche_conn *conn, const uint8_t *id, size_t length, const uint8_t *reset_token, c_bool retire, uint64_t *sequence) noexcept nogil
    size_t (*retired_ids)(const quiche_conn *conn) noexcept nogil
    quiche_connection_id_iter *(*retired_iter)(quiche_conn *conn) noexcept nogil
    c_bool (*id_iter_next)(quiche_connection_id_iter *ids, const uint8_t **id, size_t *length) noexcept nogil
    void (*id_iter_free)(quiche_connection_id_iter *ids) noexcept nogil
    quiche_path_event *(*path_event)(quiche_conn *conn) noexcept nogil
    int (*path_event_type)(const quiche_path_event *event) noexcept nogil
    # Both ends of the path that the client uses now and that is validated; of PATH_MIGRATED.
    void (*path_migrated)(const quiche_path_event *event, sockaddr_storage *local, socklen_t *local_length, sockaddr_storage *peer,
                          socklen_t *peer_length) noexcept nogil
    void (*path_event_free)(quiche_path_event *event) noexcept nogil
    # Clients' ends of the paths from a local address; and a packet for one path alone.
    quiche_socket_addr_iter *(*paths)(const quiche_conn *conn, const sockaddr *local, size_t local_length) noexcept nogil
    c_bool (*paths_next)(quiche_socket_addr_iter *paths, sockaddr_storage *peer, size_t *length) noexcept nogil
    void (*paths_free)(quiche_socket_addr_iter *paths) noexcept nogil
    ssize_t (*send_on_path)(quiche_conn *conn, uint8_t *out, size_t size, const sockaddr *local, socklen_t local_length, const sockaddr *peer,
                            socklen_t peer_length, quic_send_info *info) noexcept nogil
    # ---- HTTP/3 ----
    quiche_h3_conn *(*h3_new)(quiche_conn *conn, quiche_h3_config *config) noexcept nogil
    void (*h3_free)(quiche_h3_conn *http) noexcept nogil
    int64_t (*h3_poll)(quiche_h3_conn *http, quiche_conn *conn, quiche_h3_event **event) noexcept nogil
    int (*h3_event_type)(quiche_h3_event *event) noexcept nogil
    int (*h3_event_fields)(quiche_h3_event *event, field_func take, void *argument) noexcept nogil
    c_bool (*h3_event_has_more)(quiche_h3_event *event) noexcept nogil
    void (*h3_event_free)(quiche_h3_event *event) noexcept nogil
    int (*h3_respond)(quiche_h3_conn *http, quiche_conn *conn, uint64_t stream, const quic_field *fields, size_t count, c_bool end) noexcept nogil
    ssize_t (*h3_send_body)(quiche_h3_conn *http, quiche_conn *conn, uint64_t stream, const uint8_t *octets, size_t length, c_bool end) noexcept nogil
    ssize_t (*h3_receive_body)(quiche_h3_conn *http, quiche_conn *conn, uint64_t stream, uint8_t *out, size_t size) noexcept nogil

cdef Quiche quiche                      # all NULL until `library` is imported
