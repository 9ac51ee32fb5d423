"""Replies that the kernel does not take: larger than their path takes, or more than the socket's buffer. On the worker of the socket."""
from libc.stdint cimport uint32_t
from fastdns.engine.io.datagram cimport UdpBatch, UdpSocket
from fastdns.system.socket cimport msghdr
from fastdns.walk.query cimport Worker

# From now on replies up to SEND_SIZE that the kernel does not take wait for it; cell is the metric of those that are given up. -1: out of memory.
cdef int udp_hold(UdpSocket *sock, Worker *worker, uint32_t cell) noexcept nogil
# A reply is larger than its path takes: from now on the kernel may cut what this socket sends. False where it may already.
cdef bint udp_fragment(UdpSocket *sock) noexcept nogil

# Adds a reply; a full backlog drops the oldest.
cdef void backlog_hold(UdpSocket *sock, const msghdr *message) noexcept nogil
# A reply will not be sent.
cdef void backlog_lose(UdpSocket *sock) noexcept nogil
# Sends what the kernel takes by now, of all sockets of a worker.
cdef void backlog_drain(UdpBatch *batch) noexcept nogil
# The socket is about to close: what the kernel does not take now is lost, and so is whatever comes later and does not go out at once.
cdef void backlog_end(UdpSocket *sock) noexcept nogil
cdef void backlog_free(UdpSocket *sock) noexcept nogil
