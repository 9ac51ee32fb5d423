"""Questions over a connection that another worker has: at everyday rates one connection to an upstream does for the whole process."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.api.worker cimport Worker
from fastdns.plugins.forward._upstream cimport Exchange, Peer, Share

ctypedef Share *(*share_find_func)(void *owner, Worker *worker) noexcept nogil

# Whether another worker has a connection and this one has none, and little to ask.
cdef bint shared_wanted(Peer *peer) noexcept nogil
# Sends the question there. share gives an instance's share on the worker that it arrives at. As datagram_begin.
cdef int shared_begin(Exchange *e, Peer *peer, share_find_func share) noexcept nogil
cdef void shared_forget(Exchange *e) noexcept nogil
# On the host: the shared request's end, with the reply or (NULL) with the exchange's error. The exchange is given back.
cdef void shared_end(Exchange *e, const uint8_t *packet, uint32_t length) noexcept nogil
