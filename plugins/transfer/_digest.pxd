"""A digest of what a zone holds, which follows changes at the cost of the change, and the ZONEMD record that carries it.

It is the sum of the SHA-256 digests of all records but the zone's SOA and ZONEMD, modulo 2**256: of owner (in lower case), type, TTL, length of rdata, and
rdata, in wire form. It does not depend on the order of records, nor on the serial: two servers of one zone have the same digest exactly where they have the
same records. The ZONEMD record (RFC 8976) has a scheme and a hash algorithm of those for private use, which others do not check.

A client of IXFR shows the digest of what it has in an option of EDNS, of those for local use (RFC 6891 9): a server that does not know it answers by the
serial.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.plugins.transfer._source cimport TransferRecord

cdef enum:
    DIGEST_OCTETS = 32
    ZONEMD_OCTETS = 38              # of rdata: serial, scheme, hash algorithm, digest
    SCHEME_PRIVATE = 240
    HASH_PRIVATE = 240
    OPTION_ZONE_DIGEST = 65226

cdef struct ContentDigest:          # zeroed at first
    uint64_t words[4]               # the lowest first
    uint8_t failed                  # a record could not be hashed

cdef void digest_add(ContentDigest *digest, const TransferRecord *record) noexcept nogil
cdef void digest_remove(ContentDigest *digest, const TransferRecord *record) noexcept nogil
# Adds all that another digest has counted; records that were removed there and never added are removed here.
cdef void digest_merge(ContentDigest *digest, const ContentDigest *other) noexcept nogil
# From DIGEST_OCTETS octets.
cdef void digest_read(ContentDigest *digest, const uint8_t *octets) noexcept nogil
# The rdata of the ZONEMD record.
cdef void zonemd_write(uint8_t *out, uint32_t serial, const ContentDigest *digest) noexcept nogil
# Is this the rdata of such a record? Then its digest.
cdef bint zonemd_read(const uint8_t *rdata, uint32_t length, ContentDigest *digest) noexcept nogil
cdef bint same_content(const ContentDigest *a, const ContentDigest *b) noexcept nogil
