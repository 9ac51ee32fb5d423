"""Questions to TLS and HTTPS upstreams: handed to a thread of its own that runs asyncio, and posted back."""
from fastdns.plugins.forward._upstream cimport Exchange, Peer

cdef int client_begin(Exchange *e, Peer *peer) noexcept nogil     # as datagram_begin
cdef void client_forget(Exchange *e) noexcept nogil
# Has the client loop probe the upstream until it answers. -1: it does not run.
cdef int client_probe(Peer *peer) noexcept nogil
