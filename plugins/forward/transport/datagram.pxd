"""Questions over UDP: batches both ways over the sockets of _sockets."""
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
