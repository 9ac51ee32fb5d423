"""Zone transfers in: messages of AXFR and IXFR (RFC 5936, RFC 1995) into the draft of a zone."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.api.records cimport Zone, ZoneChange, ZoneDraft
from fastdns.plugins.transfer._digest cimport ContentDigest

cdef enum Stage:
    BEGIN                       # nothing came
    SECOND                      # the SOA came; the next record says which kind of transfer this is
    WHOLE                       # AXFR, or IXFR in its form
    DELETING
    ADDING
    DONE
    CURRENT                     # IXFR: nothing is newer

cdef class Receiver:
    cdef Zone zone
    cdef ZoneDraft draft        # of the whole zone
    cdef ZoneChange change      # IXFR: of the differences
    cdef Stage stage
    cdef bint incremental       # IXFR was asked
    cdef uint32_t serial        # IXFR: what we have
    cdef readonly uint32_t target        # what the primary has
    cdef uint32_t reached       # IXFR: by the differences so far
    cdef uint16_t qtype
    cdef uint64_t left_records
    cdef uint64_t left_octets
    cdef uint64_t most_records
    cdef uint64_t most_octets
    cdef uint32_t messages
    cdef uint32_t soa_ttl
    cdef uint32_t soa_length
    cdef uint8_t soa[600]
    cdef uint8_t *scratch       # rdata of one record
    cdef bint hashing           # digest follows the records
    cdef bint declared_here     # the zone's ZONEMD record came
    cdef ContentDigest digest
    cdef ContentDigest declared
