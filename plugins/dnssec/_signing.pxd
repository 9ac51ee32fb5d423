"""RRsets on their way to the signing thread and back.

A request is made by a worker for a query that it parks, belongs to the signing thread until it comes back, and then to the worker again.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.api.query cimport Query
from fastdns.api.worker cimport OffloadRequest

cdef struct Set:                # an RRset of a reply, to be signed
    uint16_t first              # place of its first record in the reply's table
    uint8_t section
    uint8_t denial              # an NSEC made here: it goes when it cannot be signed
    uint32_t ttl                # of its signatures
    uint32_t key_length
    const uint8_t *key          # signer's name and canonical form (see _signatures.pxd); in the worker's scratch, or in the request
    uint32_t octets
    const uint8_t *signatures   # each its length in two octets, then the RRSIG's rdata; in the cache, or owned by the request. NULL: none yet

cdef struct SigningRequest:
    OffloadRequest request      # first
    uint64_t handler
    uint32_t count
    Set *sets                   # in this memory, as are the keys

# a request for a query's sets, with copies of all that they point to; NULL: no memory.
cdef SigningRequest *signing_new(uint64_t handler, const Set *sets, uint32_t count) noexcept nogil
cdef void signing_free(SigningRequest *signing) noexcept nogil
# To the signing thread; False where q, which is parked, finds no place (the request is the caller's still).
cdef bint signing_send(SigningRequest *signing, Query *q) noexcept nogil
