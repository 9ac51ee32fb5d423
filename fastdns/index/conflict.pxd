"""Records of a zone that contradict each other, so that only some of them are served: other name servers refuse to load such zones.

A name with CNAME and other data, several CNAME, several DNAME, or DNAME and NS records has NODE_CONFLICT when it is put. Names with records below a DNAME
record (RFC 6672 2.4), and no other conflict, are counted for each version, in `ZoneVersion.occluded`. A zone without DNAME records pays for none of it.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.index.edits cimport IndexEdits
from fastdns.index.nodes cimport IndexNode, IndexTable

cdef enum ConflictKind:
    CONFLICT_NONE
    CONFLICT_CNAME_DATA         # CNAME and other data: the CNAME is served (RFC 1034 3.6.2, RFC 2181 10.1)
    CONFLICT_CNAME_APEX         # CNAME at the apex: SOA and NS are served for their types, the CNAME for others
    CONFLICT_CNAME_CUT          # CNAME at a delegation, which is served (RFC 1034 4.3.2)
    CONFLICT_CNAMES             # several CNAMEs: the canonically smallest is served
    CONFLICT_DNAMES             # likewise
    CONFLICT_DNAME_CUT          # DNAME at a delegation, which is served (RFC 6672 2.3)
    CONFLICT_OCCLUDED           # records below a DNAME, which is served (RFC 6672 2.4)
    CONFLICT_SOAS               # several SOAs: that with the highest serial is served

# What is wrong with a record of a name of the table; CONFLICT_NONE: nothing, or it is another record of the name that is reported. origin_labels: of the
# zone's origin. Not for SOA records.
cdef ConflictKind conflict_of(const IndexTable *table, uint32_t origin_labels, const IndexNode *node, uint16_t type, const uint8_t *rdata,
                              uint16_t rdlength) noexcept nogil
# The conflict of a name that is the first of the enumeration, whatever the order of its records.
cdef ConflictKind conflict_at(const IndexTable *table, uint32_t origin_labels, const IndexNode *node) noexcept nogil
# Names of a zone's version that have conflicts. 0 before the first version.
cdef uint32_t conflict_count(const IndexTable *table) noexcept nogil
# Names with records below a DNAME record, and no other conflict. For a table that nobody changes.
cdef uint32_t conflict_occluded(IndexTable *table, uint32_t origin_labels) noexcept nogil
# The same after prepared edits (index/edits.pxd), at a cost by their number, unless a DNAME record with names below it comes or goes. former: before them.
cdef uint32_t conflict_change(const IndexEdits *edits, uint32_t former) noexcept nogil
