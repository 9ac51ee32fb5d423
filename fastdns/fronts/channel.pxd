"""Connections of DNS over TLS: messages with their length in front, pipelined, from many octets to one post and from many replies to one write."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.fronts.queries cimport Gate, Recipient, Request
from fastdns.system.address cimport Address

cdef enum:
    OUTSTANDING_MAX = 64            # queries of a connection without a reply yet: then reading stops
    OUTPUT_PAUSE = 131072           # octets that the transport holds at which reading stops

cdef class Channel(Recipient):
    cdef object front               # DotFront
    cdef object transport
    cdef object timer
    cdef Gate gate
    cdef Address client
    cdef Address local
    cdef uint8_t *input             # octets that are no whole message yet, or must wait
    cdef uint32_t input_size
    cdef uint32_t input_used
    cdef uint8_t *output            # replies of one round
    cdef uint32_t output_size
    cdef uint32_t output_used
    cdef uint32_t outstanding
    cdef uint32_t queries
    cdef Request *current           # the transfer that has the connection alone, or NULL
    cdef Request *transfer          # the same, while it is here and its next part can be asked for
    cdef bint paused                # reading
    cdef bint blocked               # writing
    cdef bint last                  # no more messages are read
    cdef bint eof
    cdef bint lost
    cdef bint closing
    cdef double since               # seconds, of the loop: idle, or blocked, since then
    cdef double limit               # seconds
    cdef bint may_read(self)
    cdef int reserve_input(self, uint32_t more) except -1
    cdef int parse(self) except -1
    cdef int ask(self, const uint8_t *octets, uint32_t *used, uint32_t length) except -1
    cdef int append(self, const uint8_t *octets, uint32_t length) except -1
    cdef int write_out(self) except -1
    cdef int proceed(self) except -1
    cdef int close(self) except -1
    cdef int arm(self) except -1
