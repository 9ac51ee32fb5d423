"""Questions over connections that are kept and take several questions at once: DNS over TCP (RFC 7766), TLS (RFC 7858) and QUIC (RFC 9250), HTTPS, gRPC.

Which connection a question takes, and what becomes of questions when one opens or ends. What a connection stands on is its `Transport`.
"""
from libc.stdint cimport uint32_t, int64_t
from fastdns.plugins.forward._upstream cimport Connection, Exchange, Peer, Upstream

cdef int connection_begin(Exchange *e, Peer *peer) noexcept nogil       # as datagram_begin
cdef void connection_forget(Exchange *e) noexcept nogil
# The reply did not come in time: the connection takes no more questions.
cdef void connection_suspect(Exchange *e) noexcept nogil
# Closes what is idle since `before`; the number of connections left.
cdef uint32_t connection_sweep(Peer *peer, int64_t before) noexcept nogil

# ---- for transports ----

# Questions may leave, and those that waited do: framing is set. False: the connection is gone.
cdef bint connection_opened(Connection *c) noexcept nogil
# The connection is gone. failure: why, where it is no error of the socket. closed: the upstream may just have tired of it, so that questions that
# went out on a kept one are asked again on one of their own.
cdef void connection_broken(Connection *c, const char *operation, int error, const char *failure, bint closed) noexcept nogil
cdef void connection_close(Connection *c) noexcept nogil
# Whether an idle one is to be closed.
cdef bint connection_is_spare(const Connection *c) noexcept nogil
# How long connecting took, or was waited for.
cdef void connection_note_dial(Upstream *upstream, int64_t took) noexcept nogil
# The connection reads on in the worker's next turn, by its transport's `ready`.
cdef void connection_read_again(Connection *c) noexcept nogil

cdef inline int connection_write(Connection *c, Exchange *e) noexcept nogil:
    """Puts the question behind what is to be sent. -1: e.error says why."""
    cdef int status = c.framing.write(c, e)
    c.asked += status == 0
    return status
