"""The records of one name. The contract is in index/group.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from fastdns.index.nodes cimport INDEX_MEMORY, INDEX_OK, IndexNode, IndexRecord, RRset, node_rrsets, rrset_record


cdef int group_add(Group *group, uint16_t type, uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil:
    cdef void *grown
    cdef uint64_t size
    cdef IndexRecord *record
    if group.count == group.capacity:
        grown = realloc(group.records, (<uint64_t>group.capacity * 2 + 16) * sizeof(IndexRecord))
        if grown == NULL:
            return INDEX_MEMORY
        group.records = <IndexRecord *>grown
        group.capacity = group.capacity * 2 + 16
    if group.used + rdlength >= group.size:         # also for a first record without rdata: octets must not be NULL
        size = group.size * 2 + rdlength + 1024
        grown = realloc(group.octets, size)
        if grown == NULL:
            return INDEX_MEMORY
        group.octets = <uint8_t *>grown
        group.size = size
    record = &group.records[group.count]
    group.count += 1
    record.rdata = <const uint8_t *>group.used
    record.ttl = ttl if ttl <= 0x7FFFFFFF else 0         # RFC 2181 8
    record.type = type
    record.rdlength = rdlength
    memcpy(group.octets + group.used, rdata, rdlength)
    group.used += rdlength
    return INDEX_OK


cdef void group_clear(Group *group) noexcept nogil:
    group.count = 0
    group.used = 0


cdef void group_free(Group *group) noexcept nogil:
    free(group.records)
    free(group.octets)


cdef int group_read(Group *group, const IndexNode *node) noexcept nogil:
    cdef const RRset *rrset = node_rrsets(node)
    cdef const uint8_t *entry
    cdef IndexRecord record
    cdef uint32_t i, _j
    cdef int status
    for i in range(node.rrsets):
        entry = NULL
        for _j in range(rrset[i].count):
            entry = rrset_record(node, &rrset[i], entry, &record)
            status = group_add(group, record.type, record.ttl, record.rdata, record.rdlength)
            if status != INDEX_OK:
                return status
    return INDEX_OK


cdef void group_seal(Group *group) noexcept nogil:
    cdef uint32_t i
    for i in range(group.count):
        group.records[i].rdata = group.octets + <uint64_t>group.records[i].rdata
