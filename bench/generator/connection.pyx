"""Connections over TCP, plain or with TLS. The contract is in _connection.pxd."""
from libc.errno cimport EAGAIN, EINPROGRESS, EINTR, ENOMEM, errno
from libc.stdint cimport INT64_MAX, uint32_t
from libc.string cimport memmove
from fastdns.system.socket cimport (IPPROTO_TCP, MSG_DONTWAIT, MSG_NOSIGNAL, POLLOUT, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET,
                                    TCP_NODELAY, bind, close, connect, recv, send, setsockopt, sockaddr, sockaddr_in, socket, socket_clock, socklen_t)
from fastdns.bench.generator.client cimport Client, Driver
from fastdns.bench.generator.flight cimport flight_expire

cdef extern from "<sys/socket.h>" nogil:
    enum: SO_ERROR
    int getsockopt(int fd, int level, int name, void *value, socklen_t *length)

cdef extern from * nogil:
    """
    #include <dlfcn.h>
    #include <pthread.h>
    #include <string.h>
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
        int (*SSL_set_alpn_protos)(void *, const unsigned char *, unsigned);
        void (*SSL_get0_alpn_selected)(const void *, const unsigned char **, unsigned *);
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
                TLS_FIND(SSL_get_error) TLS_FIND(SSL_ctrl) TLS_FIND(ERR_clear_error) TLS_FIND(SSL_set_alpn_protos)
                TLS_FIND(SSL_get0_alpn_selected))
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

    /* protocols: names for ALPN, each behind its length (RFC 7301); may be empty. */
    static void *tls_connection(void *context, int fd, char *server_name, const char *protocols) {
        void *ssl = tls.SSL_new(context);
        if (!ssl)
            return 0;
        tls.SSL_ctrl(ssl, TLS_CTRL_MODE, TLS_PARTIAL_WRITE | TLS_MOVING_BUFFER, 0);
        if (*server_name)
            tls.SSL_ctrl(ssl, TLS_CTRL_SERVER_NAME, 0, server_name);
        tls.SSL_set_connect_state(ssl);
        if ((*protocols && tls.SSL_set_alpn_protos(ssl, (const unsigned char *)protocols, (unsigned)strlen(protocols))) || !tls.SSL_set_fd(ssl, fd)) {
            tls.SSL_free(ssl);
            return 0;
        }
        return ssl;
    }

    /* Whether the server has taken the first of the protocols. */
    static int tls_agreed(const void *ssl, const char *protocols) {
        const unsigned char *selected = 0;
        unsigned length = 0;
        tls.SSL_get0_alpn_selected(ssl, &selected, &length);
        return selected && length == (unsigned char)protocols[0] && !memcmp(selected, protocols + 1, length);
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
    void *tls_connection(void *context, int fd, char *server_name, const char *protocols) noexcept
    bint tls_agreed(const void *ssl, const char *protocols) noexcept
    int tls_handshake(void *ssl) noexcept
    int tls_read(void *ssl, void *octets, int n) noexcept
    int tls_write(void *ssl, const void *octets, int n) noexcept

cdef enum:
    AGAIN = 20000000                # ns until a broken connection is made anew


cdef int tls_open(Driver *driver) noexcept nogil:
    if tls_load() < 0:
        return -1
    driver.tls = tls_context()
    return 0 if driver.tls != NULL else -2


cdef void tls_close(Driver *driver) noexcept nogil:
    tls_free_context(driver.tls)
    driver.tls = NULL


# ---- begin and end ----

cdef int connection_open(Client *client) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    cdef Driver *driver = client.driver
    cdef int one = 1
    connection.out_begin = connection.out_end = connection.in_end = 0
    connection.greeted = 0
    connection.state = CLOSED
    client.fd = socket(driver.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if client.fd < 0:
        return errno
    setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
    if client.local.sin_family and bind(client.fd, <const sockaddr *>&client.local, sizeof(sockaddr_in)) < 0:
        return errno
    if driver.tls != NULL:
        connection.ssl = tls_connection(driver.tls, client.fd, driver.server_name, driver.protocols)
        if connection.ssl == NULL:
            return ENOMEM
    connection.state = CONNECTING
    client.events = POLLOUT
    if connect(client.fd, <const sockaddr *>&driver.peer, driver.peer_length) < 0 and errno != EINPROGRESS:
        return errno
    return 0


cdef void connection_close(Client *client) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    tls_free(connection.ssl)
    connection.ssl = NULL
    connection.state = CLOSED
    connection.again = 0
    client.events = 0
    if client.fd >= 0:
        close(client.fd)
    client.fd = -1


cdef void connection_break(Client *client) noexcept nogil:
    client.driver.counters.refused += 1
    flight_expire(&client.flight, INT64_MAX, client.driver.counters)
    connection_close(client)
    (<Connection *>client.stream).again = socket_clock() + AGAIN


cdef bint connection_is_open(Client *client) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    if connection.state == OPEN:
        return True
    if connection.state == CLOSED:
        if socket_clock() >= connection.again and connection_open(client):
            connection_break(client)
        return False
    connection_advance(client)
    return connection.state == OPEN


cdef void connection_advance(Client *client) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    cdef int error = 0, status
    cdef socklen_t length = sizeof(error)
    if connection.state == CONNECTING:
        if getsockopt(client.fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 or error:
            connection_break(client)
            return
        # Writing nothing tells whether it is connected: ENOTCONN or EAGAIN before.
        if send(client.fd, &error, 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0:
            return
        connection.state = SHAKING if connection.ssl != NULL else OPEN
        client.events = 0
    if connection.state == SHAKING:
        status = tls_handshake(connection.ssl)
        if status == -3:
            connection_break(client)
        elif status <= 0:
            client.events = POLLOUT if status == -2 else 0
        elif client.driver.protocols[0] and not tls_agreed(connection.ssl, client.driver.protocols):
            client.driver.foreign = True
            connection_break(client)
        else:
            connection.state = OPEN
            client.events = 0


# ---- octets ----

cdef uint32_t connection_capacity(Connection *connection) noexcept nogil:
    if connection.out_begin > 0 and OUT - connection.out_end < OUT // 2:
        memmove(connection.outgoing, connection.outgoing + connection.out_begin, connection.out_end - connection.out_begin)
        connection.out_end -= connection.out_begin
        connection.out_begin = 0
    return OUT - connection.out_end


cdef void connection_flush(Client *client) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    cdef ssize_t n
    while connection.out_begin < connection.out_end:
        if connection.ssl != NULL:
            n = tls_write(connection.ssl, connection.outgoing + connection.out_begin, <int>(connection.out_end - connection.out_begin))
            if n == -3:
                connection_break(client)
                return
        else:
            n = send(client.fd, connection.outgoing + connection.out_begin, connection.out_end - connection.out_begin, MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0 and errno not in (EAGAIN, EINTR):
                connection_break(client)
                return
        if n < 0:
            client.events = POLLOUT
            return
        connection.out_begin += <uint32_t>n
    connection.out_begin = connection.out_end = 0
    client.events = 0


cdef ssize_t connection_read(Client *client) noexcept nogil:
    cdef Connection *connection = <Connection *>client.stream
    cdef uint32_t capacity = IN - connection.in_end
    cdef ssize_t n
    if capacity == 0:
        return LATER
    if connection.ssl != NULL:
        n = tls_read(connection.ssl, connection.incoming + connection.in_end, <int>capacity)
        if n == -3:
            return BROKEN
    else:
        n = recv(client.fd, connection.incoming + connection.in_end, capacity, MSG_DONTWAIT)
        if n == 0 or (n < 0 and errno not in (EAGAIN, EINTR)):
            return BROKEN
    if n < 0:
        return LATER
    connection.in_end += <uint32_t>n
    return n


cdef void connection_consume(Connection *connection, uint32_t octets) noexcept nogil:
    if octets:
        memmove(connection.incoming, connection.incoming + octets, connection.in_end - octets)
        connection.in_end -= octets
