"""What changed between two versions of a zone: nodes are found by name in a table of their own, and compared record by record."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp
from fastdns.api.names cimport wire_name_hash
from fastdns.api.wire cimport TYPE_SOA
from fastdns.api.records cimport (NODE_APEX, Index, IndexNode, IndexRecord, IndexSnapshot, RRset, index_snapshot, node_rrset, node_rrsets,
                                  rrset_record, snapshot_release)

cdef struct Slot:
    const IndexNode *node       # NULL: free
    const IndexNode *other      # of the same name in the new version, or NULL

cdef struct Slots:
    Slot *slots
    uint32_t mask


cdef class Version:
    cdef IndexSnapshot *snapshot

    def __init__(self, Index index not None):
        with nogil:
            self.snapshot = index_snapshot(index.core, False)
        if self.snapshot == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.snapshot != NULL:
            snapshot_release(self.snapshot)

    @property
    def soa(self):
        cdef const RRset *rrset
        cdef IndexRecord record
        cdef uint32_t i
        for i in range(self.snapshot.count):
            if self.snapshot.nodes[i].flags & NODE_APEX:
                rrset = node_rrset(self.snapshot.nodes[i], TYPE_SOA)
                if rrset == NULL:
                    return None
                rrset_record(self.snapshot.nodes[i], rrset, NULL, &record)
                return row(self.snapshot.nodes[i], &record)
        return None


cdef tuple row(const IndexNode *node, const IndexRecord *record):
    return (<const char *>node.name)[:node.length], record.type, record.ttl, (<const char *>record.rdata)[:record.rdlength]


cdef Slot *find(const Slots *table, const IndexNode *node) noexcept nogil:
    """The slot of the node's name, or the free one where it belongs."""
    cdef uint32_t place = wire_name_hash(node.name) & table.mask
    cdef Slot *slot
    while True:
        slot = &table.slots[place]
        if slot.node == NULL or (slot.node.length == node.length and memcmp(slot.node.name, node.name, node.length) == 0):
            return slot
        place = (place + 1) & table.mask


cdef bint same(const IndexNode *a, const IndexNode *b) noexcept nogil:
    """Have the nodes the same records, in the same order?"""
    cdef const RRset *first = node_rrsets(a)
    cdef const RRset *second = node_rrsets(b)
    cdef const uint8_t *one
    cdef const uint8_t *other
    cdef IndexRecord left, right
    cdef uint32_t i, _j
    if a.rrsets != b.rrsets:
        return False
    for i in range(a.rrsets):
        if first[i].type != second[i].type or first[i].count != second[i].count:
            return False
        one = NULL
        other = NULL
        for _j in range(first[i].count):
            one = rrset_record(a, &first[i], one, &left)
            other = rrset_record(b, &second[i], other, &right)
            if left.ttl != right.ttl or left.rdlength != right.rdlength or memcmp(left.rdata, right.rdata, left.rdlength) != 0:
                return False
    return True


cdef list rows(const IndexNode *node):
    cdef const RRset *rrset
    cdef const uint8_t *entry
    cdef IndexRecord record
    cdef uint32_t i, _j
    out = []
    if node == NULL:
        return out
    rrset = node_rrsets(node)
    for i in range(node.rrsets):
        if rrset[i].type == TYPE_SOA and node.flags & NODE_APEX:
            continue
        entry = NULL
        for _j in range(rrset[i].count):
            entry = rrset_record(node, &rrset[i], entry, &record)
            out.append(row(node, &record))
    return out


cdef int compare(const IndexNode *old, const IndexNode *new, list deleted, list added) except -1:
    before = rows(old)
    after = rows(new)
    known = set(before)
    kept = set(after)
    deleted += [one for one in dict.fromkeys(before) if one not in kept]
    added += [one for one in dict.fromkeys(after) if one not in known]
    return 0


cdef uint32_t prepare(Slots *table, const IndexSnapshot *old, const IndexSnapshot *new, const IndexNode **fresh) noexcept nogil:
    """Old nodes with their new ones in the table; new names in fresh, of which the count is given."""
    cdef uint32_t i, count = 0
    cdef Slot *slot
    for i in range(old.count):
        find(table, old.nodes[i]).node = old.nodes[i]
    for i in range(new.count):
        slot = find(table, new.nodes[i])
        if slot.node == NULL:
            fresh[count] = new.nodes[i]
            count += 1
        elif same(slot.node, new.nodes[i]):
            slot.other = slot.node
        else:
            slot.other = new.nodes[i]
    return count


def difference(Version old not None, Version new not None, uint64_t most):
    cdef Slots table
    cdef const IndexNode **fresh = <const IndexNode **>calloc(new.snapshot.count + 1, sizeof(void *))
    cdef uint32_t capacity = 16, i, count
    cdef Slot *slot
    while capacity < 2 * <uint64_t>old.snapshot.count and capacity < 0x40000000:
        capacity *= 2
    table.mask = capacity - 1
    table.slots = <Slot *>calloc(capacity, sizeof(Slot))
    deleted, added = [], []
    try:
        if fresh == NULL or table.slots == NULL:
            raise MemoryError
        with nogil:
            count = prepare(&table, old.snapshot, new.snapshot, fresh)
        for i in range(capacity):
            slot = &table.slots[i]
            if slot.node != NULL and slot.node != slot.other:
                compare(slot.node, slot.other, deleted, added)
                if len(deleted) + len(added) > most:
                    return None
        for i in range(count):
            compare(NULL, fresh[i], deleted, added)
            if len(deleted) + len(added) > most:
                return None
        return deleted, added
    finally:
        free(table.slots)
        free(fresh)
