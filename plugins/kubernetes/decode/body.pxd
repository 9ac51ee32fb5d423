"""HTTP/1.1 message bodies (RFC 9112 6 and 7.1) as runs of octets, without copies: chunked, of a known length, or until the connection ends."""
from libc.stdint cimport uint8_t, uint64_t

cdef enum Transfer:
    TRANSFER_LENGTH = 0
    TRANSFER_CHUNKED = 1
    TRANSFER_CLOSE = 2

cdef enum:
    BODY_MORE = 0                   # all octets given are used up, the body goes on
    BODY_RUN = 1                    # a run of the body's octets
    BODY_END = 2
    BODY_MALFORMED = -1

cdef struct Body:
    Transfer transfer
    uint8_t state                   # of the chunked form
    uint8_t digits                  # of the chunk size so far
    uint64_t left                   # octets still to come, of the body or of the chunk

cdef void body_begin(Body *body, Transfer transfer, uint64_t length) noexcept nogil
# Takes octets from *at on (moving it) up to `end`: BODY_RUN with the next run, or one of the others.
cdef int body_next(Body *body, const uint8_t **at, const uint8_t *end, const uint8_t **run, uint64_t *length) noexcept nogil
