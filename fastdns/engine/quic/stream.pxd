"""Streams of a QUIC connection: requests that come in parts, queries under way, and replies that a client is slow to take.

A stream has a struct as long as more of its request may come, its query is under way, or a part of its reply is left.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.engine.quic.state cimport QuicConnection, QuicSocket, QuicStream, QuicWorker

# The stream with this id that more may come of, or NULL.
cdef QuicStream *stream_find(QuicConnection *connection, uint64_t id) noexcept nogil
# A new one; NULL: out of memory. `more`: stream_find finds it from now on.
cdef QuicStream *stream_new(QuicConnection *connection, uint64_t id, bint more) noexcept nogil
# Its request is not complete: it has a deadline.
cdef void stream_read_begin(QuicStream *stream) noexcept nogil
cdef void stream_read_end(QuicStream *stream) noexcept nogil
# Adds to `input`, for a request of at most `most` octets. -1: out of memory.
cdef int stream_keep(QuicStream *stream, const uint8_t *octets, uint32_t length, uint32_t most) noexcept nogil
cdef void stream_forget_input(QuicStream *stream) noexcept nogil
# Nothing more will come of it.
cdef void stream_input_over(QuicStream *stream) noexcept nogil
# Frees it where nothing more is expected of it or for it.
cdef void stream_release(QuicStream *stream) noexcept nogil
# Octets of the rest that the client has taken now.
cdef void stream_taken(QuicStream *stream, uint32_t length) noexcept nogil
# Its reply is not wanted.
cdef void stream_cancel(QuicStream *stream) noexcept nogil
# A complete query: the message lies in the worker's arena, or in `input`. The protocol's functions get the reply.
cdef void stream_ask(QuicStream *stream, const uint8_t *message, uint32_t length) noexcept nogil
# Keeps the rest of a reply until the client takes it. False: too much of the connection is kept, or memory is out.
cdef bint stream_hold(QuicStream *stream, const uint8_t *octets, uint32_t length) noexcept nogil
# Space for a message of this batch, `size` octets at least; where it did not suffice the queries so far have run. stream_arena_keep makes it the query's.
cdef uint8_t *stream_arena(QuicWorker *owner, uint32_t size) noexcept nogil
cdef void stream_arena_keep(QuicWorker *owner, uint32_t used) noexcept nogil
# Runs the queries that were asked.
cdef void streams_run(QuicWorker *owner) noexcept nogil
# Has queries that wait for their turn asked, as many as may.
cdef void streams_next(QuicSocket *sock) noexcept nogil
