"""RRsets in the form in which they are signed (RFC 4034 3.1.8.1 and 6)."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.reply cimport Reply

cdef enum:
    ORIGINAL_TTL = 3600         # seconds, in every RRSIG, whatever the records say (as CoreDNS)

# Writes the canonical form of the RRset that the records `members` (indexes, `count` of them) of a reply are: sorted, without duplicates, in lower
# case where RFC 4034 6.2 says so. Returns the octets written, or 0 when they are more than `capacity` or memory is out.
cdef uint32_t canonical_write(Reply *reply, const uint16_t *members, uint32_t count, uint8_t *out, uint32_t capacity) noexcept nogil
