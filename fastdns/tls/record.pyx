"""TLS of one connection. The contract is in tls/record.pxd."""
from libc cimport errno as system
from libc.errno cimport EAGAIN, ECONNRESET, EINTR
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memmove, memset
from fastdns.system.byteorder cimport load16
from fastdns.tls.context cimport context_ssl
from fastdns.system.socket cimport MSG_NOSIGNAL, iovec, msghdr, send, sendmsg
from fastdns.tls.openssl cimport (BIO, BIO_CTRL_FLUSH, BIO_METHOD, BIO_TYPE_SOURCE_SINK, BIO_clear_retry_flags, BIO_get_data, BIO_get_new_index,
                                  BIO_meth_new, BIO_meth_set_ctrl, BIO_meth_set_read, BIO_meth_set_write, BIO_new, BIO_set_data, BIO_set_init,
                                  BIO_set_retry_read, BIO_set_retry_write, ERR_clear_error, ERR_peek_last_error, SSL3_MT_KEY_UPDATE,
                                  SSL3_RT_HANDSHAKE, SSL3_RT_HEADER, SSL3_RT_HEADER_LENGTH, SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE,
                                  SSL_ERROR_ZERO_RETURN, SSL_do_handshake, SSL_free, SSL_get0_alpn_selected, SSL_get0_param, SSL_get_error,
                                  SSL_get_state, SSL_pending, SSL_read, SSL_set1_host, SSL_set_accept_state, SSL_set_bio,
                                  SSL_set_connect_state, SSL_set_hostflags, SSL_set_msg_callback, SSL_set_msg_callback_arg,
                                  SSL_set_tlsext_host_name, SSL_shutdown, SSL_version, SSL_write, TLS1_2_VERSION, TLS_ST_SW_SESSION_TICKET,
                                  X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, X509_VERIFY_PARAM_set1_ip_asc)

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_MORE

cdef extern from * nogil:
    """
    /* Records that are complete and leave with those that follow at once: of the one connection that the thread writes to. */
    static __thread unsigned char tls_batch[16384];
    static __thread unsigned int tls_batched;
    """
    enum: TLS_BATCH "sizeof(tls_batch)"
    uint8_t tls_batch[1]
    uint32_t tls_batched

# A header that no version of TLS has: libssl has no function that sends an alert, but it sends `unexpected_message` for this.
cdef const uint8_t *FOREIGN = b"\0\3\3\0\0"     # SSL3_RT_HEADER_LENGTH octets

cdef BIO_METHOD *transport          # how the library reads what was fed, and sends


# ---- what libssl reads and writes ----

cdef inline bint is_flood(const TlsStream *tls) noexcept nogil:
    return tls.empty > EMPTY_MAX or tls.updates > UPDATES_MAX + (tls.received >> 20)


cdef int read_fed(BIO *bio, char *out, int size) noexcept nogil:
    cdef TlsStream *tls = <TlsStream *>BIO_get_data(bio)
    cdef uint32_t n = tls.left
    BIO_clear_retry_flags(bio)
    if n == 0:
        BIO_set_retry_read(bio)
        return -1
    if n > <uint32_t>size:
        n = <uint32_t>size
    if size == SSL3_RT_HEADER_LENGTH and is_flood(tls):
        memcpy(out, FOREIGN, n)
    else:
        memcpy(out, tls.fed, n)
    tls.fed += n
    tls.left -= n
    if tls.left == 0:
        release_held(tls)
    return <int>n


cdef inline void release_held(TlsStream *tls) noexcept nogil:
    if tls.held != tls.small:
        free(tls.held)
    tls.held = tls.small if tls.small_size else NULL
    tls.held_size = tls.small_size


cdef inline bint has_record(const TlsStream *tls) noexcept nogil:
    """Whether a record that was fed is whole."""
    return tls.left >= SSL3_RT_HEADER_LENGTH and tls.left - SSL3_RT_HEADER_LENGTH >= <uint32_t>load16(tls.fed + 3)


cdef bint hold_ticket(TlsStream *tls, const char *octets, uint32_t size) noexcept nogil:
    """A ticket of TLS 1.3 goes with the first reply where the query has come with the end of the handshake. Where it has not, nothing is held back: until
    the end of its handshake is acknowledged a client that does not set TCP_NODELAY holds its query."""
    if SSL_get_state(tls.ssl) != TLS_ST_SW_SESSION_TICKET or SSL_version(tls.ssl) <= TLS1_2_VERSION or tls.unsent != NULL or not has_record(tls):
        return False
    tls.unsent = <uint8_t *>malloc(size)
    if tls.unsent == NULL:
        return False
    memcpy(tls.unsent, octets, size)
    tls.unsent_size = size
    return True


cdef int write_out(BIO *bio, const char *octets, int size) noexcept nogil:
    global tls_batched
    cdef TlsStream *tls = <TlsStream *>BIO_get_data(bio)
    cdef ssize_t n
    BIO_clear_retry_flags(bio)
    if hold_ticket(tls, octets, <uint32_t>size):
        return size
    if tls.more and tls.unsent == NULL and <uint32_t>size <= TLS_BATCH - tls_batched:
        memcpy(tls_batch + tls_batched, octets, <size_t>size)
        tls_batched += <uint32_t>size
        return size
    if tls_batched or tls.unsent != NULL:
        n = send_batch(tls, octets, <uint32_t>size)
    else:
        n = send(tls.fd, octets, <size_t>size, MSG_NOSIGNAL | (MSG_MORE if tls.ending else 0))
    if n < 0 and (system.errno == EAGAIN or system.errno == EINTR):
        BIO_set_retry_write(bio)
    return <int>n


cdef ssize_t send_batch(TlsStream *tls, const char *octets, uint32_t size) noexcept nogil:
    """What waits, and these octets behind it: how many of them the socket has taken. What of the batch it does not take waits in `unsent`."""
    global tls_batched
    cdef iovec parts[2]
    cdef msghdr message
    cdef uint8_t *waits = tls.unsent if tls.unsent != NULL else tls_batch
    cdef uint32_t waiting = tls.unsent_size if tls.unsent != NULL else tls_batched
    cdef ssize_t n
    memset(&message, 0, sizeof(message))
    parts[0].iov_base, parts[0].iov_len = waits, waiting
    parts[1].iov_base, parts[1].iov_len = <void *>octets, size
    message.msg_iov, message.msg_iovlen = parts, 2
    tls_batched = 0
    n = sendmsg(tls.fd, &message, MSG_NOSIGNAL | (MSG_MORE if tls.ending else 0))
    if n < 0 and (system.errno == EAGAIN or system.errno == EINTR):
        n = 0
    if n < 0:
        return -1
    if n > waiting:
        free(tls.unsent)
        tls.unsent = NULL
        return n - waiting
    if tls.unsent == NULL and n < waiting:
        tls.unsent = <uint8_t *>malloc(waiting - n)
        if tls.unsent == NULL:
            system.errno = ECONNRESET
            return -1
        memcpy(tls.unsent, tls_batch + n, waiting - n)
    elif n < waiting:
        memmove(tls.unsent, tls.unsent + n, waiting - n)
    else:
        free(tls.unsent)
        tls.unsent = NULL
    tls.unsent_size = waiting - <uint32_t>n
    system.errno = EAGAIN
    return -1


cdef long control(BIO *bio, int command, long number, void *pointer) noexcept nogil:
    return command == BIO_CTRL_FLUSH


cdef void count_record(int sent, int version, int kind, const void *octets, size_t length, SSL *ssl, void *argument) noexcept nogil:
    """The library's, for each record's header and each handshake message."""
    cdef TlsStream *tls = <TlsStream *>argument
    if sent:
        return
    if kind == SSL3_RT_HEADER:
        tls.empty += 1
    elif kind == SSL3_RT_HANDSHAKE and length and (<const uint8_t *>octets)[0] == SSL3_MT_KEY_UPDATE:
        tls.updates += 1


cdef int make_transport() except -1:
    global transport
    transport = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, b"fed octets")
    if transport == NULL or BIO_meth_set_read(transport, read_fed) != 1 or BIO_meth_set_write(transport, write_out) != 1 or (
            BIO_meth_set_ctrl(transport, control) != 1):
        raise MemoryError
    return 0


make_transport()


# ---- the handshake ----

cdef TlsStream *new_stream(TlsContext *context, int fd, uint32_t small_size) noexcept nogil:
    cdef TlsStream *tls = <TlsStream *>calloc(1, sizeof(TlsStream) + small_size)
    cdef BIO *bio = NULL
    if tls == NULL:
        return NULL
    tls.fd = fd
    tls.small_size = small_size
    release_held(tls)
    tls.ssl = context_ssl(context)
    if tls.ssl != NULL:
        bio = BIO_new(transport)
    if bio == NULL:
        SSL_free(tls.ssl)
        free(tls)
        ERR_clear_error()
        return NULL
    BIO_set_data(bio, tls)
    BIO_set_init(bio, 1)
    SSL_set_bio(tls.ssl, bio, bio)
    return tls


cdef TlsStream *tls_accept(TlsContext *context, int fd) noexcept nogil:
    cdef TlsStream *tls = new_stream(context, fd, 0)
    if tls != NULL:
        SSL_set_accept_state(tls.ssl)
    return tls


cdef TlsStream *tls_connect(TlsContext *context, int fd, const char *server_name) noexcept nogil:
    cdef TlsStream *tls = new_stream(context, fd, HELD_SIZE)
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
    """What is left of former octets lies in `held`, wherever."""
    cdef uint32_t left = tls.left
    cdef uint8_t *bigger
    if left + size > tls.held_size:
        bigger = <uint8_t *>malloc(left + size)
        if bigger == NULL:
            return -1
        if left:                        # else `fed` may be NULL
            memcpy(bigger, tls.fed, left)
        if tls.held != tls.small:
            free(tls.held)
        tls.held = bigger
        tls.held_size = left + <uint32_t>size
    elif left:
        memmove(tls.held, tls.fed, left)
    memcpy(tls.held + left, octets, size)
    tls.fed = tls.held
    tls.left = left + <uint32_t>size
    return 0


cdef int tls_lend(TlsStream *tls, const uint8_t *octets, size_t size) noexcept nogil:
    if tls.left:
        return tls_feed(tls, octets, size)
    tls.fed = octets
    tls.left = <uint32_t>size
    return 0


cdef int tls_keep(TlsStream *tls) noexcept nogil:
    cdef uint32_t left = tls.left
    if left == 0 or tls.held <= tls.fed < tls.held + tls.held_size:
        return 0
    tls.left = 0
    return tls_feed(tls, tls.fed, left)


cdef bint tls_pending(const TlsStream *tls) noexcept nogil:
    return tls.left or SSL_pending(tls.ssl) > 0


cdef ssize_t tls_recv(TlsStream *tls, uint8_t *octets, size_t size) noexcept nogil:
    cdef int n = SSL_read(tls.ssl, octets, <int>size)
    if n <= 0:
        return why_nothing(tls, n)
    tls.empty = 0
    tls.received += <uint32_t>n
    return n


cdef ssize_t tls_send(TlsStream *tls, const uint8_t *octets, size_t size, bint more) noexcept nogil:
    cdef int n
    tls.more = more
    n = SSL_write(tls.ssl, octets, <int>size)
    tls.more = 0
    return n if n > 0 else why_nothing(tls, n)


cdef ssize_t why_nothing(TlsStream *tls, int status) noexcept nogil:
    """What a call left in the thread's queue of errors would be taken for the next call's."""
    global tls_batched
    cdef int what = SSL_get_error(tls.ssl, status)
    ERR_clear_error()
    if what == SSL_ERROR_ZERO_RETURN:
        return 0
    if what == SSL_ERROR_WANT_READ or what == SSL_ERROR_WANT_WRITE:
        system.errno = EAGAIN
        return -1
    tls.failed = 1
    tls_batched = 0
    system.errno = ECONNRESET
    return -1


cdef void tls_end(TlsStream *tls) noexcept nogil:
    global tls_batched
    if not tls.failed:
        tls.ending = 1
        SSL_shutdown(tls.ssl)
        ERR_clear_error()
    tls_batched = 0                     # of a connection that ends between two records
    free(tls.unsent)
    SSL_free(tls.ssl)
    if tls.held != tls.small:
        free(tls.held)
    free(tls)
