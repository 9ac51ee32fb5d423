from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.api.names cimport Zones
from fastdns.plugins.dnssec._budget cimport Budget
from fastdns.plugins.dnssec._signatures cimport Signatures

cdef struct KeyRecord:          # a DNSKEY
    uint32_t ttl
    uint16_t length
    const uint8_t *rdata        # borrowed from the handler's objects

cdef struct Cells:              # of metrics, for a server
    uint32_t hits
    uint32_t misses
    uint32_t refused

cdef struct DnssecState:
    const Zones *zones
    uint64_t number             # of the handler, for the signing thread
    uint32_t key_count
    KeyRecord *keys
    int64_t pace                # ns that a signature takes of the budget
    Budget *budget              # of the process
    Cells *cells                # by server label
    Signatures signatures
