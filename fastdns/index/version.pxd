"""A version of a zone: its apex, serial and chains of denial. It is the attachment of the table with the records, and constant."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.index.chain cimport Chain
from fastdns.index.nodes cimport IndexNode, IndexTable, RRset

cdef enum:                      # results of building a version; INDEX_TYPES, INDEX_RECORDS and INDEX_MEMORY too
    ZONE_OK = 0
    ZONE_UNCHANGED = 1          # the SOA's serial is builder.unless
    ZONE_NO_SOA = -20
    ZONE_BAD_RDATA = -23        # a name in the rdata is truncated
    ZONE_ITERATIONS = -22       # the NSEC3 chain has more than NSEC3_ITERATIONS iterations
    ZONE_NO_SHA1 = -24          # there is an NSEC3 chain, and libcrypto does not offer SHA-1
    ZONE_ABSENT = -25           # a difference deletes a record that the zone does not have
    ZONE_PRESENT = -26          # a difference adds a record that the zone has
    ZONE_DENIAL = -27           # a difference begins, ends or replaces a chain of denial
    ZONE_OUTDATED = -28         # a difference from a version that is not served
    ZONE_STRAY_SOA = -29        # a difference has an SOA of another name than the origin

cdef enum:
    NSEC3_ITERATIONS = 500      # most additional iterations of a chain that is served (RFC 9276 3.1 recommends 0)

cdef struct ZoneVersion:        # IndexTable.attachment of the table that it describes; constant once it is published
    const IndexNode *apex
    const RRset *soa            # of apex, one record
    const RRset *ns             # of apex, or NULL
    uint32_t serial
    uint32_t negative_ttl       # seconds that a negative answer may be kept: the smaller of the SOA's TTL and its MINIMUM (RFC 2308 3)
    uint8_t bare                # the apex has only SOA, NS and their signatures: CoreDNS's tree does not contain it then
    uint8_t apex_signed         # the apex has RRSIGs
    uint8_t hashed              # the zone has an NSEC3 chain
    uint8_t other_soas          # the zone was given other SOA records, too
    uint32_t occluded           # names with records below a DNAME record, and no other conflict (index/conflict.pxd)
    Chain nsec                  # names with an NSEC record, in canonical order
    Chain nsec3                 # names with an NSEC3 record of the zone's parameters, by hash
    uint16_t iterations
    uint8_t salt_length
    uint8_t salt[255]

cdef inline const ZoneVersion *zone_version(const IndexTable *table) noexcept nogil:
    """The version that the table holds; NULL: no version is loaded, queries get SERVFAIL."""
    return <const ZoneVersion *>table.attachment

# Makes a version of a table whose apex is this node, without its chains of denial (index/denial.pxd). NULL: out of memory.
cdef ZoneVersion *version_make(const IndexTable *table, const IndexNode *apex) noexcept nogil
# Frees a version. For IndexTable.attachment_free.
cdef void version_free(void *version) noexcept nogil
