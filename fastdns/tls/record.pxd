"""TLS of one connection, without the GIL: the handshake, and records read and written afterwards.

Whoever has the descriptor reads it and feeds what came; the library writes to the descriptor by itself. A stream belongs to one thread at a time: the
one that shakes hands, then the connection's worker.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.tls.context cimport TlsContext
from fastdns.tls.openssl cimport SSL

cdef enum:
    HELD_SIZE = 256                 # octets that a stream holds itself; more are malloc'ed until they are read
    EMPTY_MAX = 16                  # records in a row that carry nothing for us; then the connection ends, as in Go
    UPDATES_MAX = 32                # KeyUpdates of a connection, and one more for each MiB that it has sent

cdef struct TlsStream:
    SSL *ssl                        # owned
    uint8_t *held                   # octets fed and not read yet: `small`, or malloc'ed
    uint32_t held_size
    uint32_t held_used
    uint32_t held_done
    uint32_t empty                  # records since the last that had octets for us
    uint32_t updates                # KeyUpdates received
    uint64_t received               # octets for us so far
    unsigned long error             # the library's, of a handshake that failed
    uint8_t failed                  # nothing more can be sent, not even the end
    uint8_t small[HELD_SIZE]

cdef enum TlsStatus:
    TLS_DONE
    TLS_WANTS_READ                  # octets, by tls_feed
    TLS_WANTS_WRITE                 # room in the socket
    TLS_FAILED                      # an alert is sent where there is one to send

# A stream over a connected descriptor, which stays the caller's. NULL: out of memory.
cdef TlsStream *tls_accept(TlsContext *context, int fd) noexcept nogil
# A client's. server_name: what the server's certificate has to name, zero-terminated, sent as SNI unless it is an IP address.
cdef TlsStream *tls_connect(TlsContext *context, int fd, const char *server_name) noexcept nogil
# Goes on with the handshake.
cdef TlsStatus tls_handshake(TlsStream *tls) noexcept nogil
# The protocol that ALPN has agreed on (RFC 7301); borrowed from the stream. NULL and length 0: none.
cdef const uint8_t *tls_protocol(const TlsStream *tls, uint32_t *length) noexcept nogil
# Gives the stream octets as they came from the network: 0, or -1 when memory is out.
cdef int tls_feed(TlsStream *tls, const uint8_t *octets, size_t size) noexcept nogil
# Whether octets that were fed are not all read.
cdef bint tls_pending(const TlsStream *tls) noexcept nogil
# The number of octets, 0 at the end of what the peer sends, or -1 with errno as of `recv` and `send`: EAGAIN, else the connection is of no use.
cdef ssize_t tls_recv(TlsStream *tls, uint8_t *octets, size_t size) noexcept nogil
cdef ssize_t tls_send(TlsStream *tls, const uint8_t *octets, size_t size) noexcept nogil
# Sends close_notify if the socket takes it at once, and frees the stream; the descriptor stays.
cdef void tls_end(TlsStream *tls) noexcept nogil
