"""Look-up of the NSEC (RFC 4034 4, RFC 4035 3.1.3) and NSEC3 (RFC 5155) records that prove denial of existence, in one version of a zone."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.index.edits cimport IndexEdits
from fastdns.index.nodes cimport IndexNode, IndexTable
from fastdns.index.version cimport ZoneVersion

# Collects and sorts the NSEC and NSEC3 records of a version that no worker can read yet. ZONE_OK, INDEX_MEMORY, ZONE_ITERATIONS or ZONE_NO_SHA1.
cdef int denial_build(ZoneVersion *version, const IndexTable *table) noexcept nogil
# The same for a version that differs from a former one by edits, at a cost by their number. ZONE_DENIAL: the chains must be built anew.
cdef int denial_change(ZoneVersion *version, const ZoneVersion *former, const IndexEdits *edits) noexcept nogil

# The node with an NSEC record that is the last one at or before a lower-case name in canonical order. NULL when the zone has no NSEC.
cdef const IndexNode *denial_before(const ZoneVersion *version, const uint8_t *lower) noexcept nogil

# The NSEC3 hash of a lower-case name, 20 octets in out (RFC 5155 5). 0, or -1 when libcrypto cannot allocate the calling thread's context.
cdef int denial_hash(const ZoneVersion *version, const uint8_t *lower, uint32_t length, uint8_t *out) noexcept nogil
# The node of the NSEC3 record with this hash (*exact 1), or else of the one that covers it (*exact 0). NULL when the zone has no NSEC3.
cdef const IndexNode *denial_hashed(const ZoneVersion *version, const uint8_t *hash, bint *exact) noexcept nogil
