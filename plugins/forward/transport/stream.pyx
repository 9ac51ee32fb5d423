"""Octets of a connection. The contract is in transport/stream.pxd."""
from libc.errno cimport EAGAIN, EINTR, ENOMEM, errno
from libc.stdint cimport uint8_t
from libc.stdio cimport snprintf
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.network cimport MSG_DONTWAIT, MSG_NOSIGNAL, recv, send
from fastdns.api.tls cimport (TLS_DONE, TLS_FAILED, TLS_WANTS_WRITE, TlsStatus, handshake_failure, session_keep, session_offer, tls_connect,
                              tls_end, tls_feed, tls_handshake, tls_pending, tls_recv, tls_send)
from fastdns.plugins.forward._system cimport error_number_set
from fastdns.plugins.forward._upstream cimport TICKET_READS

cdef enum:
    READS = 4                           # of a handshake, before others have their turn


cdef bint stream_begin(Connection *c) noexcept nogil:
    if c.peer.upstream.tls == NULL:
        return True
    c.tls = tls_connect(c.peer.upstream.tls, c.source.fd, c.peer.upstream.server_name)
    if c.tls == NULL:
        return False
    session_offer(&c.peer.session, c.tls)
    return True


cdef StreamState stream_handshake(Connection *c, Stock *stock, char *error) noexcept nogil:
    cdef TlsStatus status
    cdef ssize_t n
    cdef int reads = 0
    if c.tls == NULL:
        return STREAM_OPEN
    while True:
        status = tls_handshake(c.tls)
        if status == TLS_DONE:
            return STREAM_OPEN
        c.watching_out = status == TLS_WANTS_WRITE
        if status == TLS_WANTS_WRITE:
            return STREAM_WAITS
        if status == TLS_FAILED:
            handshake_failure(c.tls, c.peer.upstream.server_name, error, ERROR_MAX)
            return STREAM_FAILED
        if reads == READS:
            return STREAM_WAITS         # epoll tells of the rest
        reads += 1
        n = recv(c.source.fd, stock.records, sizeof(stock.records), MSG_DONTWAIT)
        if n < 0 and (errno == EAGAIN or errno == EINTR):
            return STREAM_WAITS
        if n <= 0 or tls_feed(c.tls, stock.records, n) < 0:
            snprintf(error, ERROR_MAX, b"%s", <const char *>b"EOF" if n == 0 else <const char *>b"tls: handshake: connection reset by peer")
            return STREAM_FAILED


cdef ssize_t stream_receive(Connection *c, Stock *stock, uint8_t *out, size_t size) noexcept nogil:
    cdef ssize_t n
    if c.tls == NULL:
        return recv(c.source.fd, out, size, MSG_DONTWAIT)
    while True:
        n = tls_recv(c.tls, out, size)
        if n > 0 and c.tickets < TICKET_READS:
            c.tickets = TICKET_READS if session_keep(&c.peer.session, c.tls) else c.tickets + 1
        if n >= 0 or errno != EAGAIN:
            return n
        n = recv(c.source.fd, stock.records, sizeof(stock.records), MSG_DONTWAIT)
        if n <= 0:
            return n
        if tls_feed(c.tls, stock.records, n) < 0:
            error_number_set(ENOMEM)
            return -1


cdef ssize_t stream_send(Connection *c, const uint8_t *octets, size_t size) noexcept nogil:
    if c.tls == NULL:
        return send(c.source.fd, octets, size, MSG_DONTWAIT | MSG_NOSIGNAL)
    return tls_send(c.tls, octets, size, False)


cdef bint stream_pending(const Connection *c) noexcept nogil:
    return c.tls != NULL and tls_pending(c.tls)


cdef void stream_end(Connection *c) noexcept nogil:
    if c.tls != NULL:
        tls_end(c.tls)
        c.tls = NULL
