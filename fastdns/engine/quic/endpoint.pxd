"""QUIC as a transport of the workers: sockets, and which connection a datagram is for (RFC 9000).

The first octet of our connection ids names a socket of the listener, modulo their count; the kernel gives a datagram to that socket by a filter
(SO_ATTACH_REUSEPORT_CBPF). One that comes to another worker is posted to the right one. The second octet is a tag of the process: datagrams for
connections of one that was here before go to it as long as it runs (engine/quic/handover.pxd), and are answered with a stateless reset later.

With *proxyproto* each datagram has its PROXY header, which goes before anything else is looked at. A client's address is the header's for all
purposes: queries, Retry tokens, handshakes of a network, and quiche's paths, so that a client that moves behind a proxy is validated as any other.
Datagrams leave for the proxy.

Handshakes are what costs: a worker begins one a turn, the others wait, so that other queries have their turn. Above RETRY_ABOVE a client must show
first that it has its address (Retry, RFC 9000 8.1.2); above HANDSHAKES_MAX the oldest one of the network that holds most ends.
"""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.engine.call cimport WorkerCall
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
# Connections of the process, and a call by which those of a worker end once what was asked is answered.
cdef uint32_t endpoint_connections() noexcept
cdef void endpoint_finish(WorkerCall *call) noexcept
