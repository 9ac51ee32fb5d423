"""Questions over UDP: connected sockets with random ports, renewed all the time; batches both ways."""
from libc.stdint cimport uint32_t, int64_t
from fastdns.api.worker cimport Flush, Worker
from fastdns.plugins.forward._upstream cimport Exchange, Peer

# Queues the request for the end of the batch, under a new id. BEGUN, or BROKEN with e.error set.
cdef int datagram_begin(Exchange *e, Peer *peer) noexcept nogil
# Sends the same datagram once more.
cdef void datagram_repeat(Exchange *e) noexcept nogil
# Nothing is awaited any more: the id is free again.
cdef void datagram_forget(Exchange *e) noexcept nogil
# What a peer's flush runs.
cdef void datagram_flush(Flush *flush, Worker *worker) noexcept nogil
# Closes the sockets that were idle since `before` (ns); the number of those left.
cdef uint32_t datagram_sweep(Peer *peer, int64_t before) noexcept nogil
