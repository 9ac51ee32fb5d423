"""Queries over TCP and TLS. The contract is in _stream.pxd."""
from libc.errno cimport EAGAIN, EINPROGRESS, EINTR, ENOMEM, errno
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove
from fastdns._socket cimport (IPPROTO_TCP, MSG_DONTWAIT, MSG_NOSIGNAL, POLLOUT, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, TCP_NODELAY, close,
                              connect, recv, send, setsockopt, sockaddr, socket, socket_clock, socklen_t)
from fastdns._wire cimport load16, store16
from fastdns.bench._client cimport MESSAGE_STRIDE, Client, Driver, client_reply, client_sent
from fastdns.bench._flight cimport flight_expire
from fastdns.bench._queries cimport PackedQuery

cdef extern from "<sys/socket.h>" nogil:
    enum: SO_ERROR
    int getsockopt(int fd, int level, int name, void *value, socklen_t *length)

cdef extern from * nogil:
    """
    #include <dlfcn.h>
    #include <pthread.h>
    /* OpenSSL's stable C interface, looked up when it is first needed: neither its headers nor the library are needed otherwise. */
    static struct {
        void *library;
        const void *(*TLS_client_method)(void);
        void *(*SSL_CTX_new)(const void *);
        void (*SSL_CTX_free)(void *);
        void *(*SSL_new)(void *);
        void (*SSL_free)(void *);
        int (*SSL_set_fd)(void *, int);
        void (*SSL_set_connect_state)(void *);
        int (*SSL_do_handshake)(void *);
        int (*SSL_read)(void *, void *, int);
        int (*SSL_write)(void *, const void *, int);
        int (*SSL_get_error)(const void *, int);
        long (*SSL_ctrl)(void *, int, long, void *);
        void (*ERR_clear_error)(void);
    } tls;
    static pthread_mutex_t tls_lock = PTHREAD_MUTEX_INITIALIZER;

    static int tls_load(void) {
        static const char *names[] = {"libssl.so.3", "libssl.so.1.1", "libssl.so"};
        pthread_mutex_lock(&tls_lock);
        for (unsigned i = 0; !tls.library && i < sizeof names / sizeof *names; i++) {
            void *found = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
            if (!found)
                continue;
    #define TLS_FIND(name) && (*(void **)&tls.name = dlsym(found, #name))
            if (1 TLS_FIND(TLS_client_method) TLS_FIND(SSL_CTX_new) TLS_FIND(SSL_CTX_free) TLS_FIND(SSL_new) TLS_FIND(SSL_free)
                TLS_FIND(SSL_set_fd) TLS_FIND(SSL_set_connect_state) TLS_FIND(SSL_do_handshake) TLS_FIND(SSL_read) TLS_FIND(SSL_write)
                TLS_FIND(SSL_get_error) TLS_FIND(SSL_ctrl) TLS_FIND(ERR_clear_error))
                tls.library = found;
            else
                dlclose(found);
        }
        pthread_mutex_unlock(&tls_lock);
        return tls.library ? 0 : -1;
    }

    enum { TLS_WANT_READ = 2, TLS_WANT_WRITE = 3, TLS_CTRL_MODE = 33, TLS_CTRL_SERVER_NAME = 55,
           TLS_PARTIAL_WRITE = 1, TLS_MOVING_BUFFER = 2 };

    static void *tls_context(void) { return tls.SSL_CTX_new(tls.TLS_client_method()); }
    static void tls_free_context(void *context) { if (context) tls.SSL_CTX_free(context); }
    static void tls_free(void *ssl) { if (ssl) tls.SSL_free(ssl); }

    static void *tls_connection(void *context, int fd, char *server_name) {
        void *ssl = tls.SSL_new(context);
        if (!ssl)
            return 0;
        tls.SSL_ctrl(ssl, TLS_CTRL_MODE, TLS_PARTIAL_WRITE | TLS_MOVING_BUFFER, 0);
        if (*server_name)
            tls.SSL_ctrl(ssl, TLS_CTRL_SERVER_NAME, 0, server_name);
        tls.SSL_set_connect_state(ssl);
        if (!tls.SSL_set_fd(ssl, fd)) {
            tls.SSL_free(ssl);
            return 0;
        }
        return ssl;
    }

    /* What a call gave: a count, -1 it wants to read, -2 to write, -3 it is over. */
    static int tls_status(void *ssl, int n) {
        if (n > 0)
            return n;
        switch (tls.SSL_get_error(ssl, n)) {
        case TLS_WANT_READ: return -1;
        case TLS_WANT_WRITE: return -2;
        }
        return -3;
    }
    static int tls_handshake(void *ssl) { tls.ERR_clear_error(); return tls_status(ssl, tls.SSL_do_handshake(ssl)); }
    static int tls_read(void *ssl, void *octets, int n) { tls.ERR_clear_error(); return tls_status(ssl, tls.SSL_read(ssl, octets, n)); }
    static int tls_write(void *ssl, const void *octets, int n) { tls.ERR_clear_error(); return tls_status(ssl, tls.SSL_write(ssl, octets, n)); }
    """
    int tls_load() noexcept
    void *tls_context() noexcept
    void tls_free_context(void *context) noexcept
    void tls_free(void *ssl) noexcept
    void *tls_connection(void *context, int fd, char *server_name) noexcept
    int tls_handshake(void *ssl) noexcept
    int tls_read(void *ssl, void *octets, int n) noexcept
    int tls_write(void *ssl, const void *octets, int n) noexcept

cdef enum State:
    CLOSED
    CONNECTING
    SHAKING
    OPEN

cdef enum:
    OUT = 32768                     # octets of queries that may wait for the kernel
    IN = 131072                     # and of replies; the longest is half of it
    AGAIN = 20000000                # ns until a broken connection is made anew

cdef enum:                          # of reading and writing
    LATER = -1
    BROKEN = -2

cdef struct Stream:
    State state
    void *ssl                       # owned; NULL: plain TCP
    int64_t again                   # ns, monotonic
    uint32_t out_begin, out_end
    uint32_t in_end
    uint8_t outgoing[OUT]
    uint8_t incoming[IN]


cdef int tls_open(Driver *driver) noexcept nogil:
    if tls_load() < 0:
        return -1
    driver.tls = tls_context()
    return 0 if driver.tls != NULL else -2


cdef void tls_close(Driver *driver) noexcept nogil:
    tls_free_context(driver.tls)
    driver.tls = NULL


# ---- connections ----

cdef int stream_open(Client *client) noexcept nogil:
    cdef Stream *stream = <Stream *>client.stream
    cdef Driver *driver = client.driver
    cdef int one = 1
    if stream == NULL:
        stream = <Stream *>calloc(1, sizeof(Stream))
        if stream == NULL:
            return ENOMEM
        client.stream = stream
    stream.out_begin = stream.out_end = stream.in_end = 0
    stream.state = CLOSED
    client.fd = socket(driver.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if client.fd < 0:
        return errno
    setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
    if driver.tls != NULL:
        stream.ssl = tls_connection(driver.tls, client.fd, driver.server_name)
        if stream.ssl == NULL:
            return ENOMEM
    stream.state = CONNECTING
    client.events = POLLOUT
    if connect(client.fd, <const sockaddr *>&driver.peer, driver.peer_length) < 0 and errno != EINPROGRESS:
        return errno
    return 0


cdef void hang_up(Client *client) noexcept nogil:
    cdef Stream *stream = <Stream *>client.stream
    tls_free(stream.ssl)
    stream.ssl = NULL
    stream.state = CLOSED
    client.events = 0
    if client.fd >= 0:
        close(client.fd)
    client.fd = -1


cdef void on_broken(Client *client) noexcept nogil:
    """What is under way on a connection that ends will not be answered."""
    cdef Stream *stream = <Stream *>client.stream
    client.driver.tally.refused += 1
    flight_expire(&client.flight, INT64_MAX, client.driver.tally)
    hang_up(client)
    stream.again = socket_clock() + AGAIN


cdef void stream_close(Client *client) noexcept nogil:
    if client.stream != NULL:
        hang_up(client)
        free(client.stream)
        client.stream = NULL


cdef bint stream_is_open(Client *client) noexcept nogil:
    cdef Stream *stream = <Stream *>client.stream
    if stream.state == OPEN:
        return True
    if stream.state == CLOSED:
        if socket_clock() >= stream.again and stream_open(client):
            on_broken(client)
        return False
    get_on(client)
    return stream.state == OPEN


cdef void get_on(Client *client) noexcept nogil:
    """Takes a connection that is being made as far as it goes."""
    cdef Stream *stream = <Stream *>client.stream
    cdef int error = 0, status
    cdef socklen_t length = sizeof(error)
    if stream.state == CONNECTING:
        if getsockopt(client.fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 or error:
            on_broken(client)
            return
        # Writing nothing tells whether it is connected: ENOTCONN or EAGAIN before.
        if send(client.fd, &error, 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0:
            return
        stream.state = SHAKING if stream.ssl != NULL else OPEN
        client.events = 0
    if stream.state == SHAKING:
        status = tls_handshake(stream.ssl)
        if status == -3:
            on_broken(client)
        elif status > 0:
            stream.state = OPEN
            client.events = 0
        else:
            client.events = POLLOUT if status == -2 else 0


# ---- queries ----

cdef uint32_t stream_room(Client *client) noexcept nogil:
    cdef Stream *stream = <Stream *>client.stream
    if stream.state != OPEN:
        return 0
    if stream.out_begin > 0 and OUT - stream.out_end < OUT // 2:
        memmove(stream.outgoing, stream.outgoing + stream.out_begin, stream.out_end - stream.out_begin)
        stream.out_end -= stream.out_begin
        stream.out_begin = 0
    return (OUT - stream.out_end) // MESSAGE_STRIDE


cdef void stream_put(Client *client, uint32_t slot, const PackedQuery *query) noexcept nogil:
    cdef Stream *stream = <Stream *>client.stream
    cdef uint8_t *at = stream.outgoing + stream.out_end
    store16(at, query.length)
    memcpy(at + 2, query.message, query.length)
    store16(at + 2, client.flight.slots[slot].id)
    stream.out_end += query.length + 2
    client_sent(client, slot)


cdef void stream_flush(Client *client) noexcept nogil:
    cdef Stream *stream = <Stream *>client.stream
    cdef ssize_t n
    while stream.out_begin < stream.out_end:
        if stream.ssl != NULL:
            n = tls_write(stream.ssl, stream.outgoing + stream.out_begin, <int>(stream.out_end - stream.out_begin))
            if n == -3:
                on_broken(client)
                return
        else:
            n = send(client.fd, stream.outgoing + stream.out_begin, stream.out_end - stream.out_begin, MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0 and errno not in (EAGAIN, EINTR):
                on_broken(client)
                return
        if n < 0:
            client.events = POLLOUT
            return
        stream.out_begin += <uint32_t>n
    stream.out_begin = stream.out_end = 0
    client.events = 0


# ---- replies ----

cdef ssize_t stream_read(Client *client, Stream *stream) noexcept nogil:
    cdef ssize_t n
    if stream.ssl != NULL:
        n = tls_read(stream.ssl, stream.incoming + stream.in_end, <int>(IN - stream.in_end))
        if n > 0:
            return n
        return BROKEN if n == -3 else LATER
    n = recv(client.fd, stream.incoming + stream.in_end, IN - stream.in_end, MSG_DONTWAIT)
    if n > 0:
        return n
    return LATER if n < 0 and errno in (EAGAIN, EINTR) else BROKEN


cdef uint32_t stream_receive(Client *client) noexcept nogil:
    cdef Stream *stream = <Stream *>client.stream
    cdef uint32_t replies = 0, at, length
    cdef ssize_t n
    cdef int64_t now
    if stream.state == CLOSED:
        return 0
    if stream.state != OPEN:
        get_on(client)
        return 0
    if client.events:
        stream_flush(client)
    while stream.state == OPEN:
        n = stream_read(client, stream)
        if n == BROKEN:
            on_broken(client)
        if n < 0:
            break
        now = socket_clock()
        stream.in_end += <uint32_t>n
        at = 0
        while stream.in_end - at >= 2:
            length = load16(stream.incoming + at)
            if stream.in_end - at - 2 < length:
                break
            client_reply(client, stream.incoming + at + 2, length, now)
            replies += 1
            at += length + 2
        memmove(stream.incoming, stream.incoming + at, stream.in_end - at)
        stream.in_end -= at
        # The kernel says when there is more; what TLS holds back it does not know of.
        if stream.ssl == NULL:
            break
    return replies


STREAM.open = stream_open
STREAM.is_open = stream_is_open
STREAM.room = stream_room
STREAM.put = stream_put
STREAM.flush = stream_flush
STREAM.receive = stream_receive
STREAM.close = stream_close
