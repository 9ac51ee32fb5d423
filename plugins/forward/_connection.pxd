"""Questions over connections that are kept and take several questions at once: DNS over TCP (RFC 7766) and TLS (RFC 7858), HTTPS, gRPC."""
from libc.stdint cimport uint32_t, int64_t
from fastdns.plugins.forward._upstream cimport Exchange, Peer

cdef int connection_begin(Exchange *e, Peer *peer) noexcept nogil       # as datagram_begin
cdef void connection_forget(Exchange *e) noexcept nogil
# The reply did not come in time: the connection takes no more questions.
cdef void connection_suspect(Exchange *e) noexcept nogil
# Closes what is idle since `before`; the number of connections left.
cdef uint32_t connection_sweep(Peer *peer, int64_t before) noexcept nogil
