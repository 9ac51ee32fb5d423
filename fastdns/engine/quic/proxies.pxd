"""The proxies by which a connection's clients are reached.

quiche knows paths by the client's address, so that a client behind a proxy has to show that it has its new address (RFC 9000 8.2) as any other has. What
leaves for that address goes to the proxy that the last datagram of the client came from.
"""
from fastdns.engine.quic.state cimport Proxies, QuicPath
from fastdns.system.address cimport Address

# A datagram with a PROXY header that counts has come. kept: the client whose proxy is not forgotten for another's. Out of memory: nothing happens.
cdef void proxies_learn(Proxies **proxies, const QuicPath *path, const Address *kept) noexcept nogil
# Where a packet for a client goes: the client itself where no proxy is known.
cdef const Address *proxies_find(const Proxies *proxies, const Address *client) noexcept nogil
