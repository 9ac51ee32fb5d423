"""A version of a zone: its apex, serial and chains of denial. It is the attachment of the table with the records, and constant."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.index.nodes cimport IndexNode, IndexTable, RRset

cdef enum:                      # results of building a version; INDEX_TYPES, INDEX_RECORDS and INDEX_MEMORY too
    ZONE_OK = 0
    ZONE_UNCHANGED = 1          # the SOA's serial is builder.unless
    ZONE_NO_SOA = -20
    ZONE_BAD_RDATA = -23        # a name in the rdata is truncated
    ZONE_ITERATIONS = -22       # the NSEC3 chain has more than NSEC3_ITERATIONS iterations
    ZONE_NO_SHA1 = -24          # there is an NSEC3 chain, and libcrypto does not offer SHA-1

cdef enum:
    NSEC3_ITERATIONS = 500      # most additional iterations of a chain that is served (RFC 9276 3.1 recommends 0)

cdef struct OrderedNode:        # element of a sorted array
    uint64_t key                # first octets of the labels below the origin, rightmost label first: compared before the names (RFC 4034 6.1)
    const IndexNode *node

cdef struct HashedNode:         # element of a sorted array
    uint8_t hash[20]
    const IndexNode *node

cdef struct ZoneVersion:        # IndexTable.attachment of the table that it describes; constant once it is published
    const IndexNode *apex
    const RRset *soa            # of apex, one record
    const RRset *ns             # of apex, or NULL
    uint32_t serial
    uint8_t bare                # the apex has only SOA, NS and their signatures: CoreDNS's tree does not contain it then
    uint8_t alone               # the zone has no other names
    uint8_t apex_signed         # the apex has RRSIGs
    uint32_t nsec_count         # names with an NSEC record, in canonical order
    OrderedNode *nsec
    uint32_t nsec3_count        # names with an NSEC3 record of the zone's parameters, by hash
    HashedNode *nsec3
    uint16_t iterations
    uint8_t salt_length
    uint8_t salt[255]

cdef inline const ZoneVersion *zone_version(const IndexTable *table) noexcept nogil:
    """The version that the table holds; NULL: no version is loaded, queries get SERVFAIL."""
    return <const ZoneVersion *>table.attachment
