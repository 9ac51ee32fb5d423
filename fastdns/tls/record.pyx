"""TLS of one connection. The contract is in tls/record.pxd."""
from libc cimport errno as system
from libc.errno cimport EAGAIN, ECONNRESET
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memmove
from fastdns.tls.context cimport context_ssl
from fastdns.tls.openssl cimport (BIO, BIO_METHOD, BIO_NOCLOSE, BIO_TYPE_SOURCE_SINK, BIO_clear_retry_flags, BIO_free, BIO_get_data,
                                  BIO_get_new_index, BIO_meth_new, BIO_meth_set_ctrl, BIO_meth_set_read, BIO_new, BIO_new_socket, BIO_set_data,
                                  BIO_set_init, BIO_set_retry_read, ERR_clear_error, ERR_peek_last_error, SSL3_MT_KEY_UPDATE, SSL3_RT_HANDSHAKE,
                                  SSL3_RT_HEADER, SSL3_RT_HEADER_LENGTH, SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE, SSL_ERROR_ZERO_RETURN,
                                  SSL_do_handshake, SSL_free, SSL_get0_alpn_selected, SSL_get0_param, SSL_get_error, SSL_pending, SSL_read,
                                  SSL_set0_rbio, SSL_set0_wbio, SSL_set1_host, SSL_set_accept_state, SSL_set_connect_state, SSL_set_hostflags,
                                  SSL_set_msg_callback, SSL_set_msg_callback_arg, SSL_set_tlsext_host_name, SSL_shutdown, SSL_write,
                                  X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, X509_VERIFY_PARAM_set1_ip_asc)

# A header that no version of TLS has: libssl has no function that sends an alert, but it sends `unexpected_message` for this.
cdef const uint8_t *FOREIGN = b"\0\3\3\0\0"     # SSL3_RT_HEADER_LENGTH octets

cdef BIO_METHOD *incoming           # how the library reads what was fed


# ---- what libssl reads ----

cdef inline bint is_flood(const TlsStream *tls) noexcept nogil:
    return tls.empty > EMPTY_MAX or tls.updates > UPDATES_MAX + (tls.received >> 20)


cdef int read_fed(BIO *bio, char *out, int size) noexcept nogil:
    cdef TlsStream *tls = <TlsStream *>BIO_get_data(bio)
    cdef uint32_t n = tls.held_used - tls.held_done
    BIO_clear_retry_flags(bio)
    if n == 0:
        BIO_set_retry_read(bio)
        return -1
    if n > <uint32_t>size:
        n = <uint32_t>size
    if size == SSL3_RT_HEADER_LENGTH and is_flood(tls):
        memcpy(out, FOREIGN, n)
    else:
        memcpy(out, tls.held + tls.held_done, n)
    tls.held_done += n
    if tls.held_done == tls.held_used:
        tls.held_done = tls.held_used = 0
        if tls.held != tls.small:
            free(tls.held)
            tls.held = tls.small
            tls.held_size = HELD_SIZE
    return <int>n


cdef long control_fed(BIO *bio, int command, long number, void *pointer) noexcept nogil:
    return 0


cdef void count_record(int sent, int version, int kind, const void *octets, size_t length, SSL *ssl, void *argument) noexcept nogil:
    """The library's, for each record's header and each handshake message."""
    cdef TlsStream *tls = <TlsStream *>argument
    if sent:
        return
    if kind == SSL3_RT_HEADER:
        tls.empty += 1
    elif kind == SSL3_RT_HANDSHAKE and length and (<const uint8_t *>octets)[0] == SSL3_MT_KEY_UPDATE:
        tls.updates += 1


cdef int make_incoming() except -1:
    global incoming
    incoming = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, b"fed octets")
    if incoming == NULL or BIO_meth_set_read(incoming, read_fed) != 1 or BIO_meth_set_ctrl(incoming, control_fed) != 1:
        raise MemoryError
    return 0


make_incoming()


# ---- the handshake ----

cdef TlsStream *new_stream(TlsContext *context, int fd) noexcept nogil:
    cdef TlsStream *tls = <TlsStream *>calloc(1, sizeof(TlsStream))
    cdef BIO *read_bio = NULL
    cdef BIO *write_bio = NULL
    if tls == NULL:
        return NULL
    tls.held = tls.small
    tls.held_size = HELD_SIZE
    tls.ssl = context_ssl(context)
    if tls.ssl != NULL:
        read_bio = BIO_new(incoming)
        write_bio = BIO_new_socket(fd, BIO_NOCLOSE)
    if read_bio == NULL or write_bio == NULL:
        BIO_free(read_bio)
        BIO_free(write_bio)
        SSL_free(tls.ssl)
        free(tls)
        ERR_clear_error()
        return NULL
    BIO_set_data(read_bio, tls)
    BIO_set_init(read_bio, 1)
    SSL_set0_rbio(tls.ssl, read_bio)
    SSL_set0_wbio(tls.ssl, write_bio)
    return tls


cdef TlsStream *tls_accept(TlsContext *context, int fd) noexcept nogil:
    cdef TlsStream *tls = new_stream(context, fd)
    if tls != NULL:
        SSL_set_accept_state(tls.ssl)
    return tls


cdef TlsStream *tls_connect(TlsContext *context, int fd, const char *server_name) noexcept nogil:
    cdef TlsStream *tls = new_stream(context, fd)
    if tls == NULL:
        return NULL
    SSL_set_connect_state(tls.ssl)
    if server_name[0] and X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls.ssl), server_name) != 1:
        ERR_clear_error()
        SSL_set_hostflags(tls.ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
        if SSL_set_tlsext_host_name(tls.ssl, server_name) != 1 or SSL_set1_host(tls.ssl, server_name) != 1:
            tls.failed = 1
            tls_end(tls)
            return NULL
    return tls


cdef TlsStatus tls_handshake(TlsStream *tls) noexcept nogil:
    cdef int status = SSL_do_handshake(tls.ssl), what
    if status == 1:
        SSL_set_msg_callback(tls.ssl, count_record)
        SSL_set_msg_callback_arg(tls.ssl, tls)
        return TLS_DONE
    what = SSL_get_error(tls.ssl, status)
    tls.error = ERR_peek_last_error()
    ERR_clear_error()
    if what == SSL_ERROR_WANT_READ:
        return TLS_WANTS_READ
    if what == SSL_ERROR_WANT_WRITE:
        return TLS_WANTS_WRITE
    tls.failed = 1
    return TLS_FAILED


cdef const uint8_t *tls_protocol(const TlsStream *tls, uint32_t *length) noexcept nogil:
    cdef const unsigned char *protocol = NULL
    cdef unsigned int size = 0
    SSL_get0_alpn_selected(tls.ssl, &protocol, &size)
    length[0] = size
    return protocol


# ---- records ----

cdef int tls_feed(TlsStream *tls, const uint8_t *octets, size_t size) noexcept nogil:
    cdef uint32_t left = tls.held_used - tls.held_done
    cdef uint8_t *bigger
    if left + size > tls.held_size:
        bigger = <uint8_t *>malloc(left + size)
        if bigger == NULL:
            return -1
        memcpy(bigger, tls.held + tls.held_done, left)
        if tls.held != tls.small:
            free(tls.held)
        tls.held = bigger
        tls.held_size = left + <uint32_t>size
    elif tls.held_done:
        memmove(tls.held, tls.held + tls.held_done, left)
    memcpy(tls.held + left, octets, size)
    tls.held_done = 0
    tls.held_used = left + <uint32_t>size
    return 0


cdef bint tls_pending(const TlsStream *tls) noexcept nogil:
    return tls.held_used != tls.held_done or SSL_pending(tls.ssl) > 0


cdef ssize_t tls_recv(TlsStream *tls, uint8_t *octets, size_t size) noexcept nogil:
    cdef int n = SSL_read(tls.ssl, octets, <int>size)
    if n <= 0:
        return why_nothing(tls, n)
    tls.empty = 0
    tls.received += <uint32_t>n
    return n


cdef ssize_t tls_send(TlsStream *tls, const uint8_t *octets, size_t size) noexcept nogil:
    cdef int n = SSL_write(tls.ssl, octets, <int>size)
    return n if n > 0 else why_nothing(tls, n)


cdef ssize_t why_nothing(TlsStream *tls, int status) noexcept nogil:
    """What a call left in the thread's queue of errors would be taken for the next call's."""
    cdef int what = SSL_get_error(tls.ssl, status)
    ERR_clear_error()
    if what == SSL_ERROR_ZERO_RETURN:
        return 0
    if what == SSL_ERROR_WANT_READ or what == SSL_ERROR_WANT_WRITE:
        system.errno = EAGAIN
        return -1
    tls.failed = 1
    system.errno = ECONNRESET
    return -1


cdef void tls_end(TlsStream *tls) noexcept nogil:
    if not tls.failed:
        SSL_shutdown(tls.ssl)
        ERR_clear_error()
    SSL_free(tls.ssl)
    if tls.held != tls.small:
        free(tls.held)
    free(tls)
