"""UDP sockets of a worker to an upstream: each on a random port, for a few questions and a short time.

One socket takes the questions until it has had `socket_uses` of them or is `socket_age` old. Then another one takes its place, and it is open only as long as a
reply is awaited. A reply counts on the socket that its question was sent from, and nowhere else.
"""
from libc.stdint cimport uint32_t, int64_t
from fastdns.api.worker cimport Source, Worker
from fastdns.plugins.forward._upstream cimport Peer, Socket

ctypedef void (*socket_ready_func)(Source *source, Worker *worker, uint32_t events) noexcept nogil

# Makes another socket `peer.current`, where nothing may be queued: a new one, or without descriptors one that is there (*fresh False).
# NULL and errno when there is none at all.
cdef Socket *sockets_renew(Peer *peer, socket_ready_func ready, bint *fresh) noexcept nogil
# Closes a socket that takes no more questions and awaits no reply.
cdef void sockets_release(Socket *s) noexcept nogil
# Closes the sockets that were idle since `before` (ns); the number of those left.
cdef uint32_t sockets_sweep(Peer *peer, int64_t before) noexcept nogil

cdef inline bint socket_is_worn(const Socket *s) noexcept nogil:
    return s.left == 0 or s.peer.share.worker.now - s.since > s.peer.share.settings.socket_age
