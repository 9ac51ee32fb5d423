"""A transfer as the records of its messages, encoded once for all clients that get it.

What differs from client to client (id, flags, the case of the question, OPT) is not in it. The question is as long for all, so names may point at it and at
each other (RFC 5936 3.4).

Memory order: it is constant once others see it, and freed with its last reference.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.plugins.transfer._source cimport SOA_OCTETS, TransferRecord, TransferSource

cdef struct EncodedMessage:         # its answer section
    EncodedMessage *next
    uint32_t length
    uint16_t records
    uint8_t octets[1]

cdef struct Encoded:
    uint32_t references             # atomic
    int place                       # of its memory (_places.pxd)
    EncodedMessage *first           # NULL: the client has the version of the SOA
    EncodedMessage *last
    uint32_t messages
    uint32_t records
    uint8_t whole                   # not differences
    TransferRecord soa              # in soa_octets
    uint8_t soa_octets[SOA_OCTETS]

# All records of a source, which is closed. It owns the place. NULL: memory ran out or the source broke, and the place is the caller's.
cdef Encoded *encoded_make(TransferSource *source, int place) noexcept nogil
cdef Encoded *encoded_ref(Encoded *encoded) noexcept nogil
cdef void encoded_unref(Encoded *encoded) noexcept nogil
