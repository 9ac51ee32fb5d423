"""SHA-1, which NSEC3 hashes names with (RFC 5155 11, FIPS 180-4 6.1)."""
from libc.stdint cimport uint8_t, uint32_t

# out has 20 octets; data may be where out is only when it was copied before (it is read to its end first).
cdef void sha1(const uint8_t *data, uint32_t length, uint8_t *out) noexcept nogil
