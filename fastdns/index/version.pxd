"""A version of a zone: what is known of its records as a whole. It is the annex of the table that holds them, and does not change."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.index.nodes cimport IndexNode, IndexTable, RRset

cdef enum:                      # results of building one; INDEX_TYPES, INDEX_RECORDS and INDEX_MEMORY too
    ZONE_OK = 0
    ZONE_UNCHANGED = 1          # the SOA's serial is builder.unless
    ZONE_NO_SOA = -20
    ZONE_BAD_RDATA = -23        # names in it are cut off
    ZONE_ITERATIONS = -22       # an NSEC3 chain of more than NSEC3_ITERATIONS
    ZONE_NO_SHA1 = -24          # an NSEC3 chain, and libcrypto does not offer its hash

cdef enum:
    NSEC3_ITERATIONS = 500      # of a chain that is served (RFC 9276 3.1 wants none at all)

cdef struct OrderedNode:        # one of a sorted array: compared by `key` first
    uint64_t key                # the first octets of the name's labels below the origin, from the right, so that they compare as in RFC 4034 6.1
    const IndexNode *node

cdef struct HashedNode:         # an NSEC3 record's place
    uint8_t hash[20]
    const IndexNode *node

cdef struct ZoneVersion:        # annex of the table that it describes
    const IndexNode *apex
    const RRset *soa            # of apex, one record
    const RRset *ns             # of apex, or NULL
    uint32_t serial
    uint8_t bare                # nothing at the apex but SOA, NS and their signatures: CoreDNS does not have it as a name then
    uint8_t alone               # there are no other names
    uint8_t apex_signed         # the apex has RRSIGs
    uint32_t nsec_count         # names with an NSEC record, in canonical order
    OrderedNode *nsec
    uint32_t nsec3_count        # names with an NSEC3 record of the zone's parameters, by hash
    HashedNode *nsec3
    uint16_t iterations
    uint8_t salt_length
    uint8_t salt[255]

cdef inline const ZoneVersion *zone_version(const IndexTable *table) noexcept nogil:
    """What is loaded; NULL: nothing is, the zone answers SERVFAIL."""
    return <const ZoneVersion *>table.annex
