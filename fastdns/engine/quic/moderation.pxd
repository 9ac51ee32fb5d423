"""Fewer and larger batches of a busy QUIC socket, as network adapters moderate their interrupts.

A client that has several queries under way sends each in a datagram as soon as it has it. A worker that is woken by each answers each alone: the
client then gets a datagram for each reply, and sends its next queries one by one. Where datagrams of a connection follow one another within
MODERATION_INTERVAL, epoll does not watch the socket any more and it is read once in an interval, so that queries come together and replies share
packets. This adds up to an interval to the time of an answer. It ends where connections have no more than a datagram each to read at a time.

The interval is MODERATION_INTERVAL, or MODERATION_LONGEST where clients ask as much then: those that wait for our replies ask less, and those that are busy
themselves, or many, do not. Which of the two it is is measured now and then, as Linux's "net DIM" does for adapters.
"""
from libc.stdint cimport int64_t, uint32_t
from fastdns.engine.quic.state cimport QuicSocket, QuicWorker
from fastdns.walk.query cimport Source, Worker

cdef enum:
    MODERATION_INTERVAL = 100000    # ns
    MODERATION_LONGEST = 300000     # ns

# `Source.ready` of a QUIC socket: reads a batch.
cdef void moderation_ready(Source *source, Worker *worker, uint32_t events) noexcept nogil
# Reads the sockets that epoll does not watch, if it is time.
cdef void moderation_run(QuicWorker *quic) noexcept nogil
# As TransportWorker.poll_at: when to call moderation_run.
cdef int64_t moderation_next(const QuicWorker *quic) noexcept nogil
# Before the socket is closed.
cdef void moderation_end(QuicSocket *sock, QuicWorker *quic) noexcept nogil
