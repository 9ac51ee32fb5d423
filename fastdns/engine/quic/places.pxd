"""The places of a listener for QUIC connections (`max_connections`), and which connection ends where there is none for another.

A connection counts once its handshake is complete. Above the limit the network that has most of them, and many, loses one to any other network: the
one used longest ago, before others one without a query under way. Otherwise one that was idle for IDLE_AFTER ends, of the client's own network where
that has most. Connections of other workers end as well: a worker asks the one that has most of the network, and a few more get in until that one
has answered.
"""
from fastdns.engine.quic.state cimport QuicConnection

cdef enum:
    IDLE_AFTER = 1000000000         # ns without a datagram
    MANY = 16                       # connections: a network with no more of them loses none that is in use

# Has a connection of its worker's end.
ctypedef void (*EndFunc)(QuicConnection *connection) noexcept nogil

# A connection, served from now on, counts until places_leave. False: there is no place for it.
cdef bint places_enter(QuicConnection *connection, EndFunc end) noexcept nogil
cdef void places_leave(QuicConnection *connection) noexcept nogil
