"""Versions of zones. The contract is in index/version.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from fastdns.index.chain cimport chain_free
from fastdns.index.nodes cimport IndexNode, IndexRecord, IndexTable, RRset, node_rrset, node_rrsets, rrset_record
from fastdns._wire cimport TYPE_NS, TYPE_RRSIG, TYPE_SOA, load16, load32


cdef bint is_bare(const IndexNode *apex) noexcept nogil:
    cdef const RRset *rrset = node_rrsets(apex)
    cdef const uint8_t *entry
    cdef IndexRecord record
    cdef uint32_t i, _j
    for i in range(apex.rrsets):
        if rrset[i].type == TYPE_RRSIG:
            entry = NULL
            for _j in range(rrset[i].count):
                entry = rrset_record(apex, &rrset[i], entry, &record)
                if load16(record.rdata) != TYPE_SOA and load16(record.rdata) != TYPE_NS:
                    return False
        elif rrset[i].type != TYPE_SOA and rrset[i].type != TYPE_NS:
            return False
    return True


cdef ZoneVersion *version_make(const IndexTable *table, const IndexNode *apex) noexcept nogil:
    cdef IndexRecord soa
    cdef ZoneVersion *version = <ZoneVersion *>calloc(1, sizeof(ZoneVersion))
    if version == NULL:
        return NULL
    version.apex = apex
    version.soa = node_rrset(apex, TYPE_SOA)
    version.ns = node_rrset(apex, TYPE_NS)
    rrset_record(apex, version.soa, NULL, &soa)
    version.serial = load32(soa.rdata + soa.rdlength - 20)
    version.negative_ttl = min(soa.ttl, load32(soa.rdata + soa.rdlength - 4))
    version.bare = is_bare(apex)
    version.apex_signed = node_rrset(apex, TYPE_RRSIG) != NULL
    return version


cdef void version_free(void *version) noexcept nogil:
    chain_free(&(<ZoneVersion *>version).nsec)
    chain_free(&(<ZoneVersion *>version).nsec3)
    free(version)
