"""Octets of a connection, in clear text or over TLS."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from fastdns.plugins.forward._upstream cimport Connection, Stock

cdef enum StreamState:
    STREAM_OPEN
    STREAM_WAITS                # for octets, or with watching_out set for room in the socket
    STREAM_FAILED

# The socket is connected: begins TLS where the upstream has it. False: out of memory.
cdef bint stream_begin(Connection *c) noexcept nogil
# Goes on with the handshake. STREAM_FAILED: error has ERROR_MAX octets and says why.
cdef StreamState stream_handshake(Connection *c, Stock *stock, char *error) noexcept nogil
# As recv and send.
cdef ssize_t stream_receive(Connection *c, Stock *stock, uint8_t *out, size_t size) noexcept nogil
cdef ssize_t stream_send(Connection *c, const uint8_t *octets, size_t size) noexcept nogil
# Whether there are octets that have left the socket and were not received.
cdef bint stream_pending(const Connection *c) noexcept nogil
# Before the socket is closed.
cdef void stream_end(Connection *c) noexcept nogil
