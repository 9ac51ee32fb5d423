"""The part of a cache's key that says for which clients an upstream has answered (EDNS client subnet, RFC 7871)."""
from libc.stdint cimport uint8_t
from fastdns.api.query cimport Query
from fastdns.api.reply cimport Reply

cdef enum:
    SUBNET_MAX = 40             # octets of this part of a key

# Writes what the upstream is told of the client into out (SUBNET_MAX octets): the option of the query, and, where handlers below add one, as many bits
# of the client's address (bits: of IPv4, of IPv6; 0: none). Returns the length; 0: nothing is told; -1: replies to this query are not to be kept.
cdef int subnet_write(const Query *q, const uint8_t *bits, uint8_t *out) noexcept nogil
# Whether the upstream says that its reply is for all clients: it repeats the option of the query, with a scope of 0 (RFC 7871 7.3.1).
cdef bint subnet_is_shared(const Query *q, const Reply *reply) noexcept nogil
