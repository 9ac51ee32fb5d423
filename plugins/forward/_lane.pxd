"""Questions to TLS and HTTPS upstreams: handed to a thread of its own that runs asyncio, and posted back."""
from fastdns.plugins.forward._upstream cimport Exchange, Peer

cdef int lane_begin(Exchange *e, Peer *peer) noexcept nogil     # as datagram_begin
cdef void lane_forget(Exchange *e) noexcept nogil
# Has the lane probe the upstream until it answers. -1: there is no lane.
cdef int lane_probe(Peer *peer) noexcept nogil
