"""BoringSSL's contexts of servers and clients, and the table of quiche's functions. The contract is in engine/quic/quiche.pxd.

The one module that is linked with quiche and BoringSSL: nothing else sees a symbol of theirs.
"""
import os

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset, strdup, strlen
from posix.fcntl cimport O_APPEND, O_CLOEXEC, O_CREAT, O_WRONLY, open
from posix.unistd cimport close, write
from fastdns.engine.quic.boringssl cimport (CRYPTO_EX_DATA, SSL, SSL_CTX, SSL_CTX_get0_param, SSL_CTX_sess_set_new_cb, SSL_CTX_set_alpn_protos,
                                            SSL_CTX_set_session_cache_mode, SSL_CTX_up_ref, SSL_SESSION, SSL_SESSION_free, SSL_SESS_CACHE_CLIENT,
                                            SSL_SESS_CACHE_NO_INTERNAL, SSL_alert_desc_string_long, SSL_get0_param, SSL_get_ex_data,
                                            SSL_get_ex_new_index, SSL_get_verify_result, SSL_set1_host, SSL_set_ex_data, SSL_set_hostflags,
                                            SSL_set_session, SSL_set_tlsext_host_name, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                                            X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, X509_VERIFY_PARAM_set1_ip_asc, X509_VERIFY_PARAM_set_flags,
                                            X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_INVALID_CALL, X509_V_ERR_IP_ADDRESS_MISMATCH, X509_V_FLAG_PARTIAL_CHAIN,
                                            X509_V_OK, X509_verify_cert_error_string)
from fastdns.engine.quic.quiche cimport VERIFIER_SIZE, Context, QuicTicket, quic_handshake, quic_session, quiche, quiche_config, quiche_conn, quiche_h3_config
from fastdns.engine.quic.state cimport PATHS_MAX
from fastdns.system.socket cimport sockaddr, socklen_t
from fastdns.tls.stores import system_store

cdef extern from *:
    """
    #include <stddef.h>
    #include <openssl/err.h>
    #include <openssl/evp.h>
    #include <openssl/hmac.h>
    #include <openssl/rand.h>
    #include <openssl/ssl.h>
    #include <quiche.h>

    void fastdns_config_set_initial_rtt(quiche_config *config, uint64_t milliseconds);      /* of the crate */

    _Static_assert(sizeof(quic_receive_info) == sizeof(quiche_recv_info) && offsetof(quic_receive_info, to) == offsetof(quiche_recv_info, to), "quiche");
    _Static_assert(sizeof(quic_send_info) == sizeof(quiche_send_info) && offsetof(quic_send_info, at) == offsetof(quiche_send_info, at), "quiche");
    _Static_assert(QUICHE_PATH_EVENT_PEER_MIGRATED == 5, "quiche");
    _Static_assert(sizeof(quic_field) == sizeof(quiche_h3_header) && offsetof(quic_field, value) == offsetof(quiche_h3_header, value), "quiche");

    static enum ssl_verify_result_t take_any(SSL *ssl, uint8_t *alert) { return ssl_verify_ok; }
    """
    ctypedef struct SSL_METHOD:
        pass
    ctypedef struct EVP_MD:
        pass
    ctypedef struct Names "STACK_OF(X509_NAME)":
        pass
    ctypedef enum ssl_verify_result_t "enum ssl_verify_result_t":
        pass
    enum:
        SSL_FILETYPE_PEM
        SSL_VERIFY_NONE
        SSL_VERIFY_PEER
        SSL_VERIFY_FAIL_IF_NO_PEER_CERT
        SSL_OP_NO_TICKET
        SSL_TLSEXT_ERR_OK
        SSL_TLSEXT_ERR_ALERT_FATAL
        TLS1_3_VERSION
        QUICHE_PROTOCOL_VERSION
        QUICHE_CC_CUBIC
    const SSL_METHOD *TLS_method()
    SSL_CTX *SSL_CTX_new(const SSL_METHOD *method)
    void SSL_CTX_free(SSL_CTX *context) nogil
    SSL *SSL_new(SSL_CTX *context) nogil
    void SSL_set_shed_handshake_config(SSL *ssl, int enable) nogil
    void SSL_free(SSL *ssl) nogil
    SSL_CTX *SSL_get_SSL_CTX(const SSL *ssl) nogil
    int SSL_CTX_set_ex_data(SSL_CTX *context, int index, void *data)
    void *SSL_CTX_get_ex_data(const SSL_CTX *context, int index) nogil
    int SSL_CTX_get_ex_new_index(long number, void *pointer, void *unused, void *copy,
                                 void (*release)(void *parent, void *data, CRYPTO_EX_DATA *others, int index, long number, void *pointer) noexcept nogil)
    int SSL_CTX_use_certificate_chain_file(SSL_CTX *context, const char *path)
    int SSL_CTX_use_PrivateKey_file(SSL_CTX *context, const char *path, int kind)
    int SSL_CTX_check_private_key(const SSL_CTX *context)
    int SSL_CTX_load_verify_locations(SSL_CTX *context, const char *file, const char *folder)
    void SSL_CTX_set_client_CA_list(SSL_CTX *context, Names *names)
    Names *SSL_load_client_CA_file(const char *file)
    void SSL_CTX_set_verify(SSL_CTX *context, int mode, void *callback)
    void SSL_CTX_set_custom_verify(SSL_CTX *context, int mode, ssl_verify_result_t (*callback)(SSL *ssl, uint8_t *alert))
    ssl_verify_result_t take_any(SSL *ssl, uint8_t *alert)
    int SSL_CTX_set_min_proto_version(SSL_CTX *context, int version)
    uint32_t SSL_CTX_set_options(SSL_CTX *context, uint32_t options)
    int SSL_CTX_set_tlsext_ticket_keys(SSL_CTX *context, const void *keys, size_t length)
    int SSL_CTX_set_session_id_context(SSL_CTX *context, const uint8_t *octets, size_t length)
    void SSL_CTX_set_keylog_callback(SSL_CTX *context, void (*callback)(const SSL *ssl, const char *line) noexcept nogil)
    ctypedef int (*alpn_func)(SSL *ssl, const uint8_t **out, uint8_t *out_length, const uint8_t *offered, unsigned int length, void *argument) noexcept nogil
    void SSL_CTX_set_alpn_select_cb(SSL_CTX *context, alpn_func callback, void *argument)
    void SSL_CTX_set_default_passwd_cb(SSL_CTX *context, int (*callback)(char *out, int size, int writing, void *data) noexcept nogil)
    uint32_t ERR_get_error()
    void ERR_clear_error() nogil
    const char *ERR_reason_error_string(uint32_t error)
    int RAND_bytes(uint8_t *out, size_t length)
    const EVP_MD *EVP_sha256() nogil
    uint8_t *HMAC(const EVP_MD *kind, const void *key, size_t key_length, const uint8_t *octets, size_t length, uint8_t *out, unsigned int *size) nogil

    quiche_config *quiche_config_new(uint32_t version) nogil
    void quiche_config_free(quiche_config *config) nogil
    void quiche_config_grease(quiche_config *config, bint grease) nogil
    void quiche_config_enable_pacing(quiche_config *config, bint pacing) nogil
    void quiche_config_set_cc_algorithm(quiche_config *config, int algorithm) nogil
    void quiche_config_set_max_idle_timeout(quiche_config *config, uint64_t milliseconds) nogil
    void quiche_config_set_max_recv_udp_payload_size(quiche_config *config, size_t size) nogil
    void quiche_config_set_max_send_udp_payload_size(quiche_config *config, size_t size) nogil
    void quiche_config_set_initial_max_data(quiche_config *config, uint64_t octets) nogil
    void quiche_config_set_initial_max_stream_data_bidi_local(quiche_config *config, uint64_t octets) nogil
    void quiche_config_set_initial_max_stream_data_bidi_remote(quiche_config *config, uint64_t octets) nogil
    void quiche_config_set_initial_max_stream_data_uni(quiche_config *config, uint64_t octets) nogil
    void quiche_config_set_initial_max_streams_bidi(quiche_config *config, uint64_t count) nogil
    void quiche_config_set_initial_max_streams_uni(quiche_config *config, uint64_t count) nogil
    void quiche_config_set_max_connection_window(quiche_config *config, uint64_t octets) nogil
    void quiche_config_set_max_stream_window(quiche_config *config, uint64_t octets) nogil
    void quiche_config_set_active_connection_id_limit(quiche_config *config, uint64_t count) nogil
    void fastdns_config_set_initial_rtt(quiche_config *config, uint64_t milliseconds) nogil
    void quiche_config_set_stateless_reset_token(quiche_config *config, const uint8_t *token) nogil
    quiche_conn *quiche_conn_new_with_tls(const uint8_t *id, size_t id_length, const uint8_t *original, size_t original_length, const sockaddr *local,
                                          socklen_t local_length, const sockaddr *peer, socklen_t peer_length, const quiche_config *config, void *ssl,
                                          bint is_server) nogil
    void *quiche_header_info
    void *quiche_version_is_supported
    void *quiche_negotiate_version
    void *quiche_retry
    void *quiche_conn_free
    void *quiche_conn_recv
    void *quiche_conn_send
    void *quiche_conn_stream_recv
    void *quiche_conn_stream_send
    void *quiche_conn_stream_shutdown
    void *quiche_conn_stream_readable_next
    void *quiche_conn_readable
    void *quiche_stream_iter_next
    void *quiche_stream_iter_free
    void *quiche_conn_timeout_as_nanos
    void *quiche_conn_on_timeout
    void *quiche_conn_close
    void *quiche_conn_is_established
    void *quiche_conn_is_draining
    void *quiche_conn_is_closed
    void *quiche_conn_local_error
    void *quiche_conn_peer_error
    void *quiche_conn_is_timed_out
    void *quiche_conn_peer_streams_left_bidi
    void *quiche_conn_scids_left
    void *quiche_conn_new_scid
    void *quiche_conn_retired_scids
    void *quiche_conn_retired_scid_iter
    void *quiche_connection_id_iter_next
    void *quiche_connection_id_iter_free
    void *quiche_conn_path_event_next
    void *quiche_path_event_type
    void *quiche_path_event_peer_migrated
    void *quiche_path_event_free
    void *quiche_conn_paths_iter
    void *quiche_socket_addr_iter_next
    void *quiche_socket_addr_iter_free
    void *quiche_conn_send_on_path
    quiche_h3_config *quiche_h3_config_new() nogil
    void quiche_h3_config_free(quiche_h3_config *config) nogil
    void quiche_h3_config_set_max_field_section_size(quiche_h3_config *config, uint64_t size) nogil
    void quiche_h3_config_set_qpack_max_table_capacity(quiche_h3_config *config, uint64_t size) nogil
    void quiche_h3_config_set_qpack_blocked_streams(quiche_h3_config *config, uint64_t count) nogil
    void *quiche_h3_conn_new_with_transport
    void *quiche_h3_conn_free
    void *quiche_h3_conn_poll
    void *quiche_h3_event_type
    void *quiche_h3_event_for_each_header
    void *quiche_h3_event_headers_has_more_frames
    void *quiche_h3_event_free
    void *quiche_h3_send_response
    void *quiche_h3_send_body
    void *quiche_h3_recv_body

cdef enum:
    TICKET_KEYS_SIZE = 48               # of BoringSSL
    # ms: what a round trip is taken to last until one has been measured. It is the third part of RFC 9002's (6.2.2): a first flight that is lost is sent again
    # after 0.3 s instead of 1 s, as quic-go does.
    INITIAL_RTT = 100

cdef uint8_t ticket_keys[TICKET_KEYS_SIZE]      # of all contexts of the process: tickets outlive reloads
cdef uint8_t secret[VERIFIER_SIZE]              # of `authenticate`
cdef int context_index

if RAND_bytes(ticket_keys, TICKET_KEYS_SIZE) != 1 or RAND_bytes(secret, VERIFIER_SIZE) != 1:
    raise ImportError("no random numbers")


# ---- the process that takes over ----

def handed() -> bytes:
    """See engine/quic/library.pyi."""
    return (<char *>ticket_keys)[:TICKET_KEYS_SIZE] + (<char *>secret)[:VERIFIER_SIZE]


def adopt(bytes octets not None) -> None:
    """See engine/quic/library.pyi."""
    if len(octets) != TICKET_KEYS_SIZE + VERIFIER_SIZE:
        raise ValueError("secrets of QUIC: %d octets" % len(octets))
    memcpy(ticket_keys, <char *>octets, TICKET_KEYS_SIZE)
    memcpy(secret, <char *>octets + TICKET_KEYS_SIZE, VERIFIER_SIZE)


# ---- callbacks of BoringSSL ----

cdef void release_context(void *parent, void *data, CRYPTO_EX_DATA *others, int index, long number, void *pointer) noexcept nogil:
    """The SSL_CTX goes."""
    cdef Context *context = <Context *>data
    if context != NULL:
        free(context.keylog)
        free(context)

context_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, release_context)


cdef int select_protocol(SSL *ssl, const uint8_t **out, uint8_t *out_length, const uint8_t *offered, unsigned int length, void *argument) noexcept nogil:
    """RFC 7301: the context's protocol, or the alert no_application_protocol."""
    cdef Context *context = <Context *>argument
    cdef unsigned int at = 0
    while at + 1 + offered[at] <= length:
        if offered[at] == context.alpn[0] and memcmp(&offered[at + 1], &context.alpn[1], offered[at]) == 0:
            out[0] = &context.alpn[1]
            out_length[0] = context.alpn[0]
            return SSL_TLSEXT_ERR_OK
        at += 1 + offered[at]
        if at >= length:
            break
    return SSL_TLSEXT_ERR_ALERT_FATAL


cdef void log_secret(const SSL *ssl, const char *line) noexcept nogil:
    """The file is opened for each line: nothing keeps it open over reloads."""
    cdef Context *context = <Context *>SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), context_index)
    cdef char text[1024]
    cdef size_t length = strlen(line)
    cdef int fd
    if length >= sizeof(text):
        return
    memcpy(text, line, length)
    text[length] = 10
    fd = open(context.keylog, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    if fd >= 0:
        write(fd, text, length + 1)
        close(fd)


cdef int no_password(char *out, int size, int writing, void *data) noexcept nogil:
    return 0


# ---- contexts ----

cdef Context *context_new(object credentials, bytes application) except NULL:
    cdef Context *context = context_of(application)
    cdef SSL_CTX *tls = <SSL_CTX *>context.context
    cdef bytes keylog = os.fsencode(credentials.keylog)
    try:
        load(tls, credentials)
        SSL_CTX_set_alpn_select_cb(tls, select_protocol, context)
        SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION)
        check(SSL_CTX_set_session_id_context(tls, context.alpn, context.alpn[0]))
        if keylog:
            context.keylog = strdup(keylog)
            if context.keylog == NULL:
                raise MemoryError
            SSL_CTX_set_keylog_callback(tls, log_secret)
    except BaseException:
        SSL_CTX_free(tls)
        raise
    return context


cdef Context *context_of(bytes application) except NULL:
    """For one protocol, without anything else. It is freed with its SSL_CTX."""
    cdef SSL_CTX *tls = SSL_CTX_new(TLS_method())
    cdef Context *context = <Context *>calloc(1, sizeof(Context))
    if tls == NULL or context == NULL or SSL_CTX_set_ex_data(tls, context_index, context) != 1:
        free(context)
        if tls != NULL:
            SSL_CTX_free(tls)
        raise MemoryError
    context.context = tls
    context.alpn[0] = <uint8_t>len(application)
    memcpy(&context.alpn[1], <const char *>application, len(application))
    return context


cdef int load(SSL_CTX *tls, credentials) except -1:
    """Certificate, key, whom to trust, and tickets."""
    cdef bytes certificate = os.fsencode(credentials.certificate)
    cdef bytes key = os.fsencode(credentials.key)
    cdef bytes authority = os.fsencode(credentials.authority)
    kind = credentials.client_auth
    SSL_CTX_set_default_passwd_cb(tls, no_password)
    try:
        check(SSL_CTX_use_certificate_chain_file(tls, certificate))
        check(SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM))
        check(SSL_CTX_check_private_key(tls))
    except ValueError:
        if not credentials.awaited:     # until they come every handshake fails
            raise
    if kind == "nocert":
        return check(SSL_CTX_set_tlsext_ticket_keys(tls, ticket_keys, TICKET_KEYS_SIZE))
    SSL_CTX_set_options(tls, SSL_OP_NO_TICKET)          # a resumed session shows no certificate
    if authority:
        check(SSL_CTX_load_verify_locations(tls, authority, NULL))
        SSL_CTX_set_client_CA_list(tls, SSL_load_client_CA_file(authority))
    else:
        trust_system(tls)
    mode = SSL_VERIFY_PEER | (SSL_VERIFY_FAIL_IF_NO_PEER_CERT if kind in ("require", "require_and_verify") else 0)
    if kind in ("request", "require"):
        SSL_CTX_set_custom_verify(tls, mode, take_any)
    else:
        SSL_CTX_set_verify(tls, mode, NULL)
    return 0


cdef int trust_system(SSL_CTX *tls) except -1:
    """The certificates that Python's OpenSSL trusts: SSL_CERT_FILE, SSL_CERT_DIR or the system's."""
    import ssl
    paths = ssl.get_default_verify_paths()
    cdef bytes file = os.fsencode(paths.cafile or "")
    cdef bytes folder = os.fsencode(paths.capath or "")
    if file or folder:
        check(SSL_CTX_load_verify_locations(tls, <const char *>file if file else NULL, <const char *>folder if folder else NULL))
    return 0


cdef int check(int status) except -1:
    """Raises ValueError with what BoringSSL says of a call that failed."""
    cdef uint32_t error
    cdef const char *reason
    if status == 1:
        return 0
    error = ERR_get_error()
    reason = ERR_reason_error_string(error)
    ERR_clear_error()
    raise ValueError((<bytes>reason).decode() if reason != NULL else "unknown")


cdef void context_free(Context *context) noexcept nogil:
    SSL_CTX_free(<SSL_CTX *>context.context)


# ---- functions of the table that are more than quiche's own ----

cdef void authenticate(const uint8_t *octets, size_t length, uint8_t *out) noexcept nogil:
    HMAC(EVP_sha256(), secret, VERIFIER_SIZE, octets, length, out, NULL)


cdef void config_set(quiche_config *config, uint64_t idle_milliseconds, uint64_t streams, uint64_t connection_window, uint64_t stream_window,
                     uint64_t unidirectional, uint64_t receive_size, uint64_t send_size) noexcept nogil:
    quiche_config_grease(config, False)
    quiche_config_enable_pacing(config, False)
    quiche_config_set_cc_algorithm(config, QUICHE_CC_CUBIC)
    quiche_config_set_max_idle_timeout(config, idle_milliseconds)
    quiche_config_set_max_recv_udp_payload_size(config, receive_size)
    quiche_config_set_max_send_udp_payload_size(config, send_size)
    quiche_config_set_initial_max_data(config, connection_window)
    quiche_config_set_max_connection_window(config, connection_window)
    quiche_config_set_initial_max_stream_data_bidi_local(config, stream_window)
    quiche_config_set_initial_max_stream_data_bidi_remote(config, stream_window)
    quiche_config_set_initial_max_stream_data_uni(config, stream_window)
    quiche_config_set_max_stream_window(config, stream_window)
    quiche_config_set_initial_max_streams_bidi(config, streams)
    quiche_config_set_initial_max_streams_uni(config, unidirectional)
    quiche_config_set_active_connection_id_limit(config, PATHS_MAX)
    fastdns_config_set_initial_rtt(config, INITIAL_RTT)


cdef quiche_config *config_new(uint32_t version) noexcept nogil:
    return quiche_config_new(QUICHE_PROTOCOL_VERSION)


cdef quiche_conn *accept(const uint8_t *id, size_t id_length, const uint8_t *original, size_t original_length, const sockaddr *local, socklen_t local_length,
                         const sockaddr *peer, socklen_t peer_length, quiche_config *config, const uint8_t *reset_token, Context *context) noexcept nogil:
    cdef SSL *ssl = SSL_new(<SSL_CTX *>context.context)
    if ssl == NULL:
        return NULL
    SSL_set_shed_handshake_config(ssl, True)        # nothing of it is asked for after the handshake
    quiche_config_set_stateless_reset_token(config, reset_token)
    # The SSL object is the connection's from here on, also where this fails.
    return quiche_conn_new_with_tls(id, id_length, original, original_length, local, local_length, peer, peer_length, config, ssl, True)


cdef quiche_h3_config *h3_config_new(uint64_t fields_size) noexcept nogil:
    """Without a dynamic table for what clients send: a few octets of a request could become kilobytes of fields."""
    cdef quiche_h3_config *config = quiche_h3_config_new()
    if config != NULL:
        quiche_h3_config_set_max_field_section_size(config, fields_size)
        quiche_h3_config_set_qpack_max_table_capacity(config, 0)
        quiche_h3_config_set_qpack_blocked_streams(config, 0)
    return config


# ---- clients ----

cdef int ticket_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL)


cdef int keep_session(SSL *ssl, SSL_SESSION *session) noexcept nogil:
    """The server has sent a ticket: the newest one is resumed. 1: the session is ours."""
    cdef QuicTicket *ticket = <QuicTicket *>SSL_get_ex_data(ssl, ticket_index)
    ticket_forget(ticket)
    ticket.session = <quic_session *>session
    ticket.context = SSL_get_SSL_CTX(ssl)
    SSL_CTX_up_ref(<SSL_CTX *>ticket.context)
    return 1


cdef void ticket_forget(QuicTicket *ticket) noexcept nogil:
    if ticket.session != NULL:
        SSL_SESSION_free(<SSL_SESSION *>ticket.session)
        SSL_CTX_free(<SSL_CTX *>ticket.context)
        memset(ticket, 0, sizeof(QuicTicket))


cdef Context *client_context_new(bytes certificate, bytes key, bytes authority, bytes application) except NULL:
    """The files are paths, b"" for none."""
    cdef Context *context = context_of(application)
    cdef SSL_CTX *tls = <SSL_CTX *>context.context
    try:
        SSL_CTX_set_default_passwd_cb(tls, no_password)
        if certificate:
            check(SSL_CTX_use_certificate_chain_file(tls, certificate))
            check(SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM))
        trust_servers(tls, authority)
        SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL)
        check(SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION))
        check(SSL_CTX_set_alpn_protos(tls, context.alpn, context.alpn[0] + 1) == 0)
        SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL)
        SSL_CTX_sess_set_new_cb(tls, keep_session)
    except BaseException:
        SSL_CTX_free(tls)
        raise
    return context


cdef int trust_servers(SSL_CTX *tls, bytes authority) except -1:
    """The CAs of a file, root or not as in Go, or those of the system; without any nobody is trusted."""
    cdef bytes file = authority
    cdef bytes folder = b""
    if not file:
        file, folder = (os.fsencode(path) for path in system_store())
    if file or folder:
        check(SSL_CTX_load_verify_locations(tls, <const char *>file if file else NULL, <const char *>folder if folder else NULL))
    return check(X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(tls), X509_V_FLAG_PARTIAL_CHAIN))


cdef quiche_conn *connect(const uint8_t *id, size_t id_length, const sockaddr *local, socklen_t local_length, const sockaddr *peer, socklen_t peer_length,
                          const quiche_config *config, Context *context, const char *server_name, QuicTicket *ticket,
                          quic_handshake **handshake) noexcept nogil:
    """A ticket is used once, and for the context that it was given to: another one may show another certificate, or trust others."""
    cdef SSL *ssl = SSL_new(<SSL_CTX *>context.context)
    if ssl == NULL:
        return NULL
    if not name_server(ssl, server_name) or SSL_set_ex_data(ssl, ticket_index, ticket) != 1:
        ERR_clear_error()
        SSL_free(ssl)
        return NULL
    if ticket.session != NULL and ticket.context == context.context:
        SSL_set_session(ssl, <SSL_SESSION *>ticket.session)
    ticket_forget(ticket)
    handshake[0] = <quic_handshake *>ssl
    return quiche_conn_new_with_tls(id, id_length, NULL, 0, local, local_length, peer, peer_length, config, ssl, False)


cdef bint name_server(SSL *ssl, const char *server_name) noexcept nogil:
    """What its certificate has to be for: an address, or a name, which it is told too."""
    if server_name[0] == 0 or X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_name) == 1:
        return True
    ERR_clear_error()
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
    return SSL_set_tlsext_host_name(ssl, server_name) == 1 and SSL_set1_host(ssl, server_name) == 1


cdef bint verify_failure(quic_handshake *handshake, const char *server_name, char *out, size_t size) noexcept nogil:
    cdef long result = SSL_get_verify_result(<SSL *>handshake)
    if result == X509_V_OK or result == X509_V_ERR_INVALID_CALL:       # of a certificate that never came
        return False
    if result == X509_V_ERR_HOSTNAME_MISMATCH or result == X509_V_ERR_IP_ADDRESS_MISMATCH:
        snprintf(out, size, b"tls: failed to verify certificate: %s, certificate is not valid for '%s'", X509_verify_cert_error_string(result), server_name)
    else:
        snprintf(out, size, b"tls: failed to verify certificate: %s", X509_verify_cert_error_string(result))
    return True


cdef const char *alert_text(int alert) noexcept nogil:
    return SSL_alert_desc_string_long(alert)


cdef inline void put(void *place, void *function) noexcept:
    (<void **>place)[0] = function

# Types are those that quiche.pxd says; quiche's header has the same with enumerations and const.
put(&quiche.context_new, <void *>context_new)
put(&quiche.config_new, <void *>config_new)
put(&quiche.config_free, <void *>quiche_config_free)
put(&quiche.config_set, <void *>config_set)
put(&quiche.h3_config_new, <void *>h3_config_new)
put(&quiche.h3_config_free, <void *>quiche_h3_config_free)
put(&quiche.context_free, <void *>context_free)
put(&quiche.authenticate, <void *>authenticate)
put(&quiche.accept, <void *>accept)
put(&quiche.client_context_new, <void *>client_context_new)
put(&quiche.connect, <void *>connect)
put(&quiche.ticket_forget, <void *>ticket_forget)
put(&quiche.verify_failure, <void *>verify_failure)
put(&quiche.alert_text, <void *>alert_text)
put(&quiche.header_info, quiche_header_info)
put(&quiche.version_is_supported, quiche_version_is_supported)
put(&quiche.negotiate_version, quiche_negotiate_version)
put(&quiche.retry, quiche_retry)
put(&quiche.free, quiche_conn_free)
put(&quiche.receive, quiche_conn_recv)
put(&quiche.send, quiche_conn_send)
put(&quiche.stream_receive, quiche_conn_stream_recv)
put(&quiche.stream_send, quiche_conn_stream_send)
put(&quiche.stream_shutdown, quiche_conn_stream_shutdown)
put(&quiche.readable_next, quiche_conn_stream_readable_next)
put(&quiche.readable, quiche_conn_readable)
put(&quiche.stream_iter_next, quiche_stream_iter_next)
put(&quiche.stream_iter_free, quiche_stream_iter_free)
put(&quiche.timeout, quiche_conn_timeout_as_nanos)
put(&quiche.on_timeout, quiche_conn_on_timeout)
put(&quiche.close, quiche_conn_close)
put(&quiche.is_established, quiche_conn_is_established)
put(&quiche.is_draining, quiche_conn_is_draining)
put(&quiche.is_closed, quiche_conn_is_closed)
put(&quiche.local_error, quiche_conn_local_error)
put(&quiche.peer_error, quiche_conn_peer_error)
put(&quiche.is_timed_out, quiche_conn_is_timed_out)
put(&quiche.streams_left, quiche_conn_peer_streams_left_bidi)
put(&quiche.ids_left, quiche_conn_scids_left)
put(&quiche.new_id, quiche_conn_new_scid)
put(&quiche.retired_ids, quiche_conn_retired_scids)
put(&quiche.retired_iter, quiche_conn_retired_scid_iter)
put(&quiche.id_iter_next, quiche_connection_id_iter_next)
put(&quiche.id_iter_free, quiche_connection_id_iter_free)
put(&quiche.path_event, quiche_conn_path_event_next)
put(&quiche.path_event_type, quiche_path_event_type)
put(&quiche.path_migrated, quiche_path_event_peer_migrated)
put(&quiche.path_event_free, quiche_path_event_free)
put(&quiche.paths, quiche_conn_paths_iter)
put(&quiche.paths_next, quiche_socket_addr_iter_next)
put(&quiche.paths_free, quiche_socket_addr_iter_free)
put(&quiche.send_on_path, quiche_conn_send_on_path)
put(&quiche.h3_new, quiche_h3_conn_new_with_transport)
put(&quiche.h3_free, quiche_h3_conn_free)
put(&quiche.h3_poll, quiche_h3_conn_poll)
put(&quiche.h3_event_type, quiche_h3_event_type)
put(&quiche.h3_event_fields, quiche_h3_event_for_each_header)
put(&quiche.h3_event_has_more, quiche_h3_event_headers_has_more_frames)
put(&quiche.h3_event_free, quiche_h3_event_free)
put(&quiche.h3_respond, quiche_h3_send_response)
put(&quiche.h3_send_body, quiche_h3_send_body)
put(&quiche.h3_receive_body, quiche_h3_recv_body)
