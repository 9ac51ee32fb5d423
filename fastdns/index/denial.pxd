"""What proves that a name or type is not there: NSEC (RFC 4034, 4035 3.1.3) and NSEC3 (RFC 5155) records of a zone's version."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.index.nodes cimport IndexNode, IndexTable
from fastdns.index.version cimport ZoneVersion

# Collects and sorts the version's NSEC and NSEC3 records. ZONE_OK, INDEX_MEMORY, ZONE_ITERATIONS or ZONE_NO_SHA1.
cdef int denial_build(ZoneVersion *version, const IndexTable *table) noexcept nogil
cdef void denial_free(ZoneVersion *version) noexcept nogil

# The name with an NSEC that is the last at or before a lower-case name; NULL without NSEC.
cdef const IndexNode *denial_before(const ZoneVersion *version, const uint8_t *lower) noexcept nogil

# The hash of a lower-case name by the version's parameters (RFC 5155 5). 0, or -1 when libcrypto has no memory for a thread's first.
cdef int denial_hash(const ZoneVersion *version, const uint8_t *lower, uint32_t length, uint8_t *out) noexcept nogil
# The NSEC3 record with this hash or, not being there, (exact 0) the one that covers it. NULL without NSEC3.
cdef const IndexNode *denial_hashed(const ZoneVersion *version, const uint8_t *hash, bint *exact) noexcept nogil
