"""TLS of one connection, without the GIL: the handshake, and records read and written afterwards.

Whoever has the descriptor reads it and feeds what came; the library writes to the descriptor by itself. A stream belongs to one thread at a time: the
one that shakes hands, then the connection's worker.

A server's ticket (TLS 1.3) leaves with what is sent next, and close_notify with the end of the connection: one segment less each. The kernel sends them
alone after 200 ms (MSG_MORE).
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.tls.context cimport TlsContext
from fastdns.tls.openssl cimport SSL

cdef enum:
    HELD_SIZE = 256                 # octets that a client's stream holds itself
    EMPTY_MAX = 16                  # records in a row that carry nothing for us; then the connection ends, as in Go
    UPDATES_MAX = 32                # KeyUpdates of a connection, and one more for each MiB that it has sent

cdef struct TlsStream:
    SSL *ssl                        # owned
    int fd                          # the caller's
    const uint8_t *fed              # octets that are not read yet: lent, or in `held`
    uint32_t left                   # of them
    uint32_t held_size
    uint8_t *held                   # malloc'ed until they are read, or `small`, or NULL
    uint32_t empty                  # records since the last that had octets for us
    uint32_t updates                # KeyUpdates received
    uint64_t received               # octets for us so far
    unsigned long error             # the library's, of a handshake that failed
    uint8_t *unsent                 # owned, or NULL: of records that the library has given away, what the socket did not take
    uint32_t unsent_size
    uint8_t more                    # another record follows at once, with which this one leaves
    uint8_t failed                  # nothing more can be sent, not even the end
    uint8_t ending                  # what is sent is the last
    uint32_t small_size             # octets of `small`: HELD_SIZE, or 0 of a server's, which is lent what it reads
    uint8_t small[1]                # in truth as many as that

cdef enum TlsStatus:
    TLS_DONE
    TLS_WANTS_READ                  # octets, by tls_feed
    TLS_WANTS_WRITE                 # space in the socket's buffer
    TLS_FAILED                      # an alert is sent where there is one to send

# A stream over a connected descriptor, which stays the caller's. NULL: out of memory.
cdef TlsStream *tls_accept(TlsContext *context, int fd) noexcept nogil
# A client's. server_name: what the server's certificate has to name, zero-terminated, sent as SNI unless it is an IP address.
cdef TlsStream *tls_connect(TlsContext *context, int fd, const char *server_name) noexcept nogil
# Goes on with the handshake.
cdef TlsStatus tls_handshake(TlsStream *tls) noexcept nogil
# The protocol that ALPN has agreed on (RFC 7301); borrowed from the stream. NULL and length 0: none.
cdef const uint8_t *tls_protocol(const TlsStream *tls, uint32_t *length) noexcept nogil
# Gives the stream octets as they came from the network: 0, or -1 when memory is out. They are copied.
cdef int tls_feed(TlsStream *tls, const uint8_t *octets, size_t size) noexcept nogil
# The same without a copy, up to tls_keep, which copies what of them is not read by then.
cdef int tls_lend(TlsStream *tls, const uint8_t *octets, size_t size) noexcept nogil
cdef int tls_keep(TlsStream *tls) noexcept nogil
# Whether octets that were fed are not all read.
cdef bint tls_pending(const TlsStream *tls) noexcept nogil
# The number of octets, 0 at the end of what the peer sends, or -1 with errno as of `recv` and `send`: EAGAIN, else the connection is of no use.
cdef ssize_t tls_recv(TlsStream *tls, uint8_t *octets, size_t size) noexcept nogil
# more: the caller sends the next octets at once, whose record may leave in the same segment.
cdef ssize_t tls_send(TlsStream *tls, const uint8_t *octets, size_t size, bint more) noexcept nogil
# Sends close_notify if the socket takes it at once, and frees the stream. The descriptor stays: its owner closes it, or shuts it down.
cdef void tls_end(TlsStream *tls) noexcept nogil
