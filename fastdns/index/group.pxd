"""The records of one name, gathered before they are put into an index. A `Group` begins and ends zeroed or cleared; group_free ends it."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.index.nodes cimport IndexNode, IndexRecord

cdef struct Group:
    IndexRecord *records        # rdata is an offset into octets until group_seal
    uint32_t count
    uint32_t capacity
    uint8_t *octets
    uint64_t used               # octets
    uint64_t size               # octets allocated

# Copies a record into the group. INDEX_OK or INDEX_MEMORY.
cdef int group_add(Group *group, uint16_t type, uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil
# Adds the records of a node.
cdef int group_read(Group *group, const IndexNode *node) noexcept nogil
# Has rdata point to the octets: no record is added from here on.
cdef void group_seal(Group *group) noexcept nogil
cdef void group_clear(Group *group) noexcept nogil
cdef void group_free(Group *group) noexcept nogil
