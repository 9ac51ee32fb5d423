"""Tokens of Retry packets: they say that a client has its address (RFC 9000 8.1.2)."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from fastdns.system.address cimport Address

cdef enum:
    TOKEN_MAX = 64

# Writes one for a client whose first destination was `original` (at most 20 octets) and to whom the Retry gives the id (8 octets). Returns its length.
cdef uint32_t token_write(uint8_t *token, const Address *client, const uint8_t *id, const uint8_t *original, uint32_t original_length,
                          int64_t now) noexcept nogil
# The length of the first destination, which is written to `original` (20 octets); 0: it is none of ours for this client and id, or it is too old.
cdef uint32_t token_check(const uint8_t *token, uint32_t length, const Address *client, const uint8_t *id, uint32_t id_length, int64_t now,
                          uint8_t *original) noexcept nogil
