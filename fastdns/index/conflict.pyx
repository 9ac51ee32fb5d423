"""Records that contradict each other. The contract is in index/conflict.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from fastdns.index.edits cimport IndexEdit, IndexEdits, edits_have
from fastdns.index.index cimport table_exact
from fastdns.index.nodes cimport (NODE_APEX, NODE_CNAME, NODE_CONFLICT, NODE_CUT, NODE_DNAME, NODE_HASHED, IndexNode, IndexRecord, IndexTable, RRset,
                                  alias_order, is_beside_cname, node_rrset, node_rrsets, rrset_record, slot_node)
from fastdns.index.version cimport ZoneVersion, zone_version
from fastdns._wire cimport TYPE_CNAME, TYPE_DNAME, Name, wire_name_copy


# ---- below a DNAME ----

cdef inline bint redirects(const IndexNode *node) noexcept nogil:
    """Has the node a DNAME record that is served? A delegation at the same name hides it."""
    return node != NULL and node.flags & (NODE_DNAME | NODE_CUT) == NODE_DNAME


cdef bint is_occluded(const IndexTable *table, const IndexEdits *edits, uint32_t origin_labels, const IndexNode *node) noexcept nogil:
    """Is a node with records below a DNAME record? Not asked of one with NODE_CONFLICT. edits: as they leave the table; NULL: as it is."""
    cdef Name name
    cdef const IndexEdit *edit = NULL
    cdef const IndexNode *above
    cdef uint32_t label, offset
    if node == NULL or node.rrsets == 0 or node.flags & (NODE_HASHED | NODE_CONFLICT):
        return False
    wire_name_copy(&name, node.name, node.length)
    for label in range(1, name.labels - origin_labels + 1):
        offset = name.offset[label]
        if edits != NULL:
            edit = edits_have(edits, name.lower + offset, name.length - offset, name.hash[label])
        above = edit.after if edit != NULL else table_exact(table, name.lower + offset, name.length - offset, name.hash[label])
        if redirects(above):
            return True
    return False


cdef uint32_t conflict_occluded(IndexTable *table, uint32_t origin_labels) noexcept nogil:
    cdef uint32_t i, found = 0
    if table.dnames == 0:
        return 0
    for i in range(table.capacity):
        found += is_occluded(table, NULL, origin_labels, slot_node(table, table.slots[i].node))
    table.work += table.capacity
    return found


cdef uint32_t count_edited(const IndexEdits *edits) noexcept nogil:
    """Counts all names as the edits leave them."""
    cdef IndexTable *table = edits.index.table
    cdef const IndexEdit *edit = edits.first
    cdef const IndexNode *node
    cdef uint32_t i, found = 0
    for i in range(table.capacity):
        node = slot_node(table, table.slots[i].node)
        if node != NULL and edits_have(edits, node.name, node.length, table.slots[i].hash) == NULL:
            found += is_occluded(table, edits, edits.index.origin.labels, node)
    while edit != NULL:
        found += is_occluded(table, edits, edits.index.origin.labels, edit.after)
        edit = edit.following
    edits.table.work += table.capacity
    return found


cdef uint32_t conflict_change(const IndexEdits *edits, uint32_t former) noexcept nogil:
    cdef const IndexTable *table = edits.index.table
    cdef const IndexEdit *edit = edits.first
    cdef uint32_t labels = edits.index.origin.labels
    cdef int64_t found = former
    if table.dnames == 0 and edits.table.dnames == 0:
        return 0
    while edit != NULL:
        if edit.before != edit.after:
            if redirects(edit.before) != redirects(edit.after) and (edit.children or edit.before != NULL and edit.before.children):
                return count_edited(edits)
            found += is_occluded(table, edits, labels, edit.after)
            found -= is_occluded(table, NULL, labels, edit.before)
        edit = edit.following
    return <uint32_t>found


# ---- conflicts ----

cdef inline bint is_first(const IndexNode *node, uint16_t type, const uint8_t *rdata, uint16_t rdlength) noexcept nogil:
    """Is this the CNAME or DNAME record of the node that is served?"""
    cdef IndexRecord record
    rrset_record(node, node_rrset(node, type), NULL, &record)
    return alias_order(record.rdata, record.rdlength, rdata, rdlength) == 0


cdef ConflictKind conflict_here(const IndexNode *node, uint16_t type, const uint8_t *rdata, uint16_t rdlength) noexcept nogil:
    """Conflicts of the records of one name."""
    cdef bint cut = node.flags & NODE_CUT != 0
    if node.flags & NODE_CNAME:
        if type == TYPE_CNAME:
            if not is_first(node, type, rdata, rdlength):
                return CONFLICT_CNAMES
            return CONFLICT_CNAME_APEX if node.flags & NODE_APEX else CONFLICT_CNAME_CUT if cut else CONFLICT_NONE
        if not cut and not node.flags & NODE_APEX and not is_beside_cname(type):
            return CONFLICT_CNAME_DATA
    if type == TYPE_DNAME:
        if not is_first(node, type, rdata, rdlength):
            return CONFLICT_DNAMES
        if cut:
            return CONFLICT_DNAME_CUT
    return CONFLICT_NONE


cdef ConflictKind conflict_of(const IndexTable *table, uint32_t origin_labels, const IndexNode *node, uint16_t type, const uint8_t *rdata,
                              uint16_t rdlength) noexcept nogil:
    cdef ConflictKind kind = conflict_here(node, type, rdata, rdlength) if node.flags & NODE_CONFLICT else CONFLICT_NONE
    if kind == CONFLICT_NONE and table.dnames and is_occluded(table, NULL, origin_labels, node):
        return CONFLICT_OCCLUDED
    return kind


cdef ConflictKind conflict_at(const IndexTable *table, uint32_t origin_labels, const IndexNode *node) noexcept nogil:
    cdef const RRset *rrset = node_rrsets(node)
    cdef const uint8_t *entry
    cdef IndexRecord record
    cdef ConflictKind kind, first = CONFLICT_NONE
    cdef uint32_t i, _j
    if node.rrsets == 0 or not (node.flags & NODE_CONFLICT or table.dnames):
        return CONFLICT_NONE
    for i in range(node.rrsets if node.flags & NODE_CONFLICT else 0):
        entry = NULL
        for _j in range(rrset[i].count):
            entry = rrset_record(node, &rrset[i], entry, &record)
            kind = conflict_here(node, record.type, record.rdata, record.rdlength)
            if kind != CONFLICT_NONE and (first == CONFLICT_NONE or kind < first):
                first = kind
    if first != CONFLICT_NONE:
        return first
    return CONFLICT_OCCLUDED if is_occluded(table, NULL, origin_labels, node) else CONFLICT_NONE


cdef uint32_t conflict_count(const IndexTable *table) noexcept nogil:
    cdef const ZoneVersion *version = zone_version(table)
    return table.conflicts + version.occluded + version.other_soas if version != NULL else 0
