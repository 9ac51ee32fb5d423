"""QUIC connections on their worker (RFC 9000).

A datagram is fed to its connection; once the batch is taken, each connection that got some has its streams read, and the queries of all run together.
At the end of the worker's batch a connection's packets are written, and its timer is set. A connection never changes its worker.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.engine.quic.state cimport ID_LENGTH, QuicConnection, QuicPath, QuicSocket, QuicWorker

# A client's first datagram, which is fed too. original: its first destination after a Retry, else of length 0; first: the destination of this datagram.
# NULL: out of memory, or it says nothing that could be understood.
cdef QuicConnection *connection_begin(QuicWorker *owner, QuicSocket *sock, const uint8_t *first, uint32_t first_length, const uint8_t *original,
                                      uint32_t original_length, const QuicPath *path, uint8_t *octets, uint32_t length) noexcept nogil
cdef void connection_feed(QuicConnection *connection, const QuicPath *path, uint8_t *octets, uint32_t length) noexcept nogil
# Once a batch is fed: reads streams and runs queries.
cdef void connections_run(QuicWorker *owner) noexcept nogil
cdef void connection_close(QuicConnection *connection, uint64_t code, const char *reason) noexcept nogil
# Nothing more is sent or received.
cdef void connection_drop(QuicConnection *connection) noexcept nogil
# Ends once what was asked is answered.
cdef void connection_finish(QuicConnection *connection) noexcept nogil
# An id of ours for a socket, and its reset token.
cdef void connection_id(QuicSocket *sock, uint8_t *id) noexcept nogil
cdef void connection_reset_token(const uint8_t *id, uint8_t *token) noexcept nogil

# Whether the configuration wants to know the traces of requests.
cdef bint connection_reads_traces(const QuicConnection *connection) noexcept nogil

# What a protocol counts: a number of its own below STATUSES.
cdef void connection_count(QuicConnection *connection, uint32_t status) noexcept nogil
