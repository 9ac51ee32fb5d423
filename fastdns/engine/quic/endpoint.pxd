"""QUIC as a transport of the workers: sockets, and which connection a datagram is for (RFC 9000).

The first octet of our connection ids names a socket of the listener, modulo their count; the kernel gives a datagram to that socket by a filter
(SO_ATTACH_REUSEPORT_CBPF). One that comes to another worker is posted to the right one. The second octet is a tag of the listener: datagrams for
connections of the process that was here before are known by another tag, and left without an answer.

Handshakes are what costs: a worker begins one a turn, the others wait, so that other queries have their turn. Above RETRY_ABOVE a client must show
first that it has its address (Retry, RFC 9000 8.1.2); above HANDSHAKES_MAX the oldest of the network that holds most makes room.
"""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.engine.io.transport cimport TransportOps
from fastdns.engine.quic.state cimport QuicGroup

cdef enum:
    RETRY_ABOVE = 32                # handshakes under way or waiting, of the process: shared out among the workers
    PENDING_MAX = 128               # first datagrams that wait, of a worker
    PENDING_SIZE = 1536             # octets of such a datagram; longer ones are ignored

cdef TransportOps quic_transport

# With the GIL. The group's sockets take datagrams from listen_begin on; endpoint_remove follows once none is watched any more.
cdef int endpoint_add(QuicGroup *group) except -1
cdef void endpoint_remove(QuicGroup *group) noexcept
