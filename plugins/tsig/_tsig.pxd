"""Who has signed a request, for handlers below tsig."""
from libc.stdint cimport uint8_t
from fastdns.api.query cimport Query

# The name of the key with which a request is signed well, in lower-case wire form, which lives as long as the query's configuration; NULL: it is not signed.
cdef const uint8_t *tsig_signer(Query *q, uint8_t *length) noexcept nogil
