"""The file of a zone: what index/zone_dump writes and index/zone_load reads.

    head     MAGIC; the number of names, empty ones included (4): a reader has slots for so many at once
    blocks   length of the content (4), kind (1), digest (8), content

    BLOCK_NAMES    some names of the zone: owner in wire form, number of records (4), and for each record type (2), TTL (4), length of rdata (2), rdata
    BLOCK_END      the zone is complete: number of its records (8)
    BLOCK_CHANGE   behind that: from this version to the next one. The serial before (4); TTL (4), length of rdata (2) and rdata of the new SOA; number of
                   deleted records (4), and each of them: owner, type (2), TTL (4), length of rdata (2), rdata; the same of added records

Numbers are in network byte order. A digest is of the content, with the number and the kind of the block as its key: blocks that are missing or in another
order are noticed, too. It is no protection from somebody who may write the file; so the reader checks whatever it reads.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    MAGIC_OCTETS = 16
    HEAD_OCTETS = MAGIC_OCTETS + 4
    BLOCK_HEAD = 13                 # octets of a block before its content
    RECORD_HEAD = 8                 # octets of a record before its rdata
    BLOCK_NAMES = 1
    BLOCK_END = 2
    BLOCK_CHANGE = 3
    BLOCK_OCTETS = 1 << 18          # after which a block of names ends

cdef extern from * nogil:
    """
    #define FASTDNS_ZONE_MAGIC "fastdns zone 1\\n"     /* with the 0 behind it MAGIC_OCTETS */
    """
    const char *MAGIC "FASTDNS_ZONE_MAGIC"

cdef uint64_t block_digest(uint32_t number, uint8_t kind, const uint8_t *content, uint32_t length) noexcept nogil
