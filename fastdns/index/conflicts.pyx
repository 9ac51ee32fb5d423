"""Where a zone's records contradict each other. What a conflict is says index/conflict.pxd."""
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp
from fastdns.index.conflict cimport (CONFLICT_CNAME_APEX, CONFLICT_CNAME_CUT, CONFLICT_CNAME_DATA, CONFLICT_CNAMES, CONFLICT_DNAME_CUT, CONFLICT_DNAMES,
                                     CONFLICT_NONE, CONFLICT_OCCLUDED, CONFLICT_SOAS, ConflictKind, conflict_at, conflict_count, conflict_of)
from fastdns.index.index cimport compare_names, table_exact
from fastdns.index.nodes cimport IndexCore, IndexNode, IndexRecord, IndexTable, rrset_record, slot_node
from fastdns.index.publish cimport index_holds, index_lock, index_release
from fastdns.index.version cimport ZoneVersion, zone_version
from fastdns.index.zone cimport Zone, ZoneDraft
from fastdns.zonefile.parser cimport ZoneParser, ZoneRecord, zonefile_begin, zonefile_end, zonefile_error, zonefile_read
from fastdns.zonefile.rdata cimport rdata_lower
from fastdns._wire cimport CLASS_IN, TYPE_RRSIG, TYPE_SOA

import os

from fastdns._wire import name_text

CNAME_DATA = CONFLICT_CNAME_DATA
CNAME_APEX = CONFLICT_CNAME_APEX
CNAME_CUT = CONFLICT_CNAME_CUT
CNAMES = CONFLICT_CNAMES
DNAMES = CONFLICT_DNAMES
DNAME_CUT = CONFLICT_DNAME_CUT
OCCLUDED = CONFLICT_OCCLUDED
SOAS = CONFLICT_SOAS


# ---- of a zone that is served ----

cdef int compare_nodes(const void *a, const void *b) noexcept nogil:
    return compare_names((<IndexNode **>a)[0].name, (<IndexNode **>b)[0].name)


cdef uint32_t gather(const IndexTable *table, uint32_t origin_labels, IndexNode **found, uint32_t most) noexcept nogil:
    """The names with conflicts, in canonical order."""
    cdef IndexNode *node
    cdef uint32_t i, count = 0
    for i in range(table.capacity):
        node = slot_node(table, table.slots[i].node)
        if node != NULL and count < most and conflict_at(table, origin_labels, node) != CONFLICT_NONE:
            found[count] = node
            count += 1
    qsort(found, count, sizeof(void *), compare_nodes)
    return count


cdef list read_names(const IndexTable *table, uint32_t origin_labels, IndexNode **found, uint32_t count):
    cdef uint32_t i
    return [(name_text((<const char *>found[i].name)[:found[i].length]), <int>conflict_at(table, origin_labels, found[i])) for i in range(count)]


def conflicts_of(Zone zone not None, uint32_t limit):
    cdef IndexCore *index = zone.state.index
    cdef IndexNode **found
    cdef uint32_t count
    with nogil:
        index_lock(index)
    try:
        count = conflict_count(index.table)
        if count == 0:
            return []
        found = <IndexNode **>malloc(count * sizeof(void *))
        if found == NULL:
            raise MemoryError
        try:
            with nogil:
                count = gather(index.table, index.origin.labels, found, count)
            names = read_names(index.table, index.origin.labels, found, min(count, limit))
        finally:
            free(found)
        if len(names) < limit and zone_version(index.table).other_soas:
            names.append((zone.origin, SOAS))
        return names
    finally:
        index_release(index)


# ---- of a file ----

cdef struct Search:
    const IndexCore *index
    const IndexTable *table
    uint32_t limit
    void *found                 # a list, borrowed
    void *names                 # a set, borrowed: those that have one already


cdef int note(Search *self, const ZoneRecord *record, ConflictKind kind) noexcept with gil:
    cdef list found = <list>self.found
    cdef set names = <set>self.names
    try:
        name = record.owner.lower[:record.owner.length]
        if name not in names:
            names.add(name)
            found.append((os.fsdecode(<const char *>record.path), record.line, name_text(name), <int>kind))
        return len(found) >= <Py_ssize_t>self.limit
    except MemoryError:
        return 1


cdef bint is_other_soa(const IndexTable *table, ZoneRecord *record) noexcept nogil:
    cdef const ZoneVersion *version = zone_version(table)
    cdef IndexRecord soa
    rrset_record(version.apex, version.soa, NULL, &soa)
    rdata_lower(TYPE_SOA, record.rdata, record.rdlength)
    return soa.rdlength != record.rdlength or memcmp(soa.rdata, record.rdata, soa.rdlength) != 0


cdef int look(void *search, ZoneRecord *record) noexcept nogil:
    cdef Search *self = <Search *>search
    cdef const IndexNode *node
    cdef ConflictKind kind
    if record.klass != CLASS_IN:
        return 0
    if record.type == TYPE_SOA:
        return note(self, record, CONFLICT_SOAS) if is_other_soa(self.table, record) else 0
    if record.type == TYPE_RRSIG or not index_holds(self.index, record.owner):
        return 0
    node = table_exact(self.table, record.owner.lower, record.owner.length, record.owner.hash[0])
    kind = conflict_of(self.table, self.index.origin.labels, node, record.type, record.rdata, record.rdlength) if node != NULL else CONFLICT_NONE
    return note(self, record, kind) if kind != CONFLICT_NONE else 0


def conflicts_in(ZoneDraft draft not None, path, uint32_t limit):
    cdef Search search
    cdef ZoneParser *parser
    cdef bytes name = os.fsencode(path)
    cdef const char *c_name = name
    cdef list found = []
    cdef set names = set()
    cdef int status
    if not draft.builder.finished or draft.builder.table == NULL:
        raise ValueError("not a finished draft")
    if conflict_count(draft.builder.table) == 0 or limit == 0:
        return found
    search.index = draft.builder.index
    search.table = draft.builder.table
    search.limit = limit
    search.found = <void *>found
    search.names = <void *>names
    parser = zonefile_begin(&draft.builder.index.origin)
    if parser == NULL:
        raise MemoryError
    try:
        with nogil:
            status = zonefile_read(parser, c_name, look, &search)
        if status < 0:
            raise zonefile_error(parser)
    finally:
        zonefile_end(parser)
    return found
