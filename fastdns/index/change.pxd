"""The next version of a zone from differences to the version that is served (RFC 1995), at a cost by their number.

    status = differences_delete(&change.differences, &owner, type, ttl, rdata, rdlength)     # as they come: what is added may be deleted again
    status = differences_add(...)
    status = differences_soa(...)
    status = differences_finish(...)        # ZONE_OK: the version is made. Nothing that is served has changed
    change.publish()                        # workers read the new version from here on

Differences that do not fit the served version are refused as a whole: a zone is one version or the other. From Python: `ZoneChange(zone, serial)`.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.index.edits cimport IndexEdit, IndexEdits
from fastdns.index.group cimport Group
from fastdns.index.nodes cimport IndexCore
from fastdns.index.version cimport ZoneVersion
from fastdns.index.zone cimport Zone
from fastdns._wire cimport Name

cdef struct Difference:         # a record that is deleted or added
    Difference *next            # in the same bucket
    Difference *following       # in the order in which they came
    Difference *sibling         # of the same owner
    Difference *last            # of those; of the owner's first one
    IndexEdit *edit             # of the owner
    uint32_t hash
    uint32_t ttl
    uint16_t type
    uint16_t rdlength
    uint8_t owner_length
    uint8_t added
    uint8_t dead                # an addition that was deleted again
    uint8_t used                # a deletion that has deleted something
    uint8_t octets[1]           # owner in lower case, rdata in canonical form, rdata as zones have it

cdef struct DifferenceSet:
    Difference **buckets
    uint32_t capacity
    uint32_t count
    Difference *first
    Difference *last

cdef struct Differences:
    IndexCore *index
    uint32_t former             # serial of the version that they change
    DifferenceSet deleted
    DifferenceSet added
    uint32_t soa_ttl
    uint32_t soa_length         # 0: no SOA yet
    uint8_t soa[600]
    uint8_t *canonical          # rdata of one record
    Group group                 # records of the owner that is worked on
    IndexEdits *edits           # by differences_finish
    ZoneVersion *version
    uint64_t compared           # records compared
    Name at                     # owner that an error is about

# ZONE_OK or an error of version.pxd and nodes.pxd. Records outside the zone are ignored. owner has all fields set; rdata is uncompressed and valid.
cdef int differences_delete(Differences *self, const Name *owner, uint16_t type, uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil
cdef int differences_add(Differences *self, const Name *owner, uint16_t type, uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil
# The SOA of the new version. ZONE_OK or ZONE_BAD_RDATA.
cdef int differences_soa(Differences *self, uint32_t ttl, const uint8_t *rdata, uint32_t rdlength) noexcept nogil
cdef int differences_finish(Differences *self) noexcept nogil

cdef class ZoneChange:
    cdef Differences differences
    cdef readonly Zone zone
    cdef object _failure(self, int status)
    cdef int _take(self, bytes owner, uint16_t kind, uint32_t ttl, bytes rdata, bint added) except -1
