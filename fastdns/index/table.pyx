"""Nodes, and the tables of slots that have them. The contract is in index/table.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy
from fastdns.system.atomic cimport atomic_add32, atomic_peek8, atomic_poke8, atomic_poke32
from fastdns.index.node_file cimport NodeFile, node_file_copy, node_file_free, node_file_has, node_file_release, node_file_take
from fastdns.index.slot_file cimport SlotFile, slot_file_free, slot_file_make
from fastdns.index.nodes cimport (ENTRY_HEAD, INDEX_MEMORY, INDEX_OK, INDEX_RECORDS, INDEX_TYPES, INDEX_TYPES_MAX, NODE_APEX, NODE_CNAME,
                                  NODE_CONFLICT, NODE_CUT, NODE_DNAME, NODE_FILED, NODE_HASHED, NODE_HEAD, SLOT_REMOVED, IndexCore, IndexNode,
                                  IndexRecord, IndexSlot, IndexTable, RRset, alias_order, is_beside_cname, node_rrsets, rrset_record, slot_node)
from fastdns._wire cimport TYPE_CNAME, TYPE_DNAME, TYPE_NS, TYPE_NSEC3, TYPE_RRSIG

cdef enum:
    RRSETS_MAX = INDEX_TYPES_MAX + 2        # of a node: CNAME and DNAME may have two


# ---- memory ----

cdef inline uint64_t rounded(uint64_t size) noexcept nogil:
    """Octets that malloc uses for a block of this size."""
    return (size + 8 + 15) & ~<uint64_t>15


cdef uint64_t node_size(const IndexNode *node) noexcept nogil:
    cdef const RRset *rrset = node_rrsets(node)
    cdef uint64_t end = <uint64_t>(<const uint8_t *>(rrset + node.rrsets) - <const uint8_t *>node)
    cdef const uint8_t *entry = NULL
    cdef IndexRecord record
    cdef uint32_t _i
    if node.rrsets:
        rrset += node.rrsets - 1
        for _i in range(rrset.count):
            entry = rrset_record(node, rrset, entry, &record)
            end = <uint64_t>(entry - <const uint8_t *>node) + ENTRY_HEAD + record.rdlength
    return max(end, <uint64_t>sizeof(IndexNode))


cdef uint64_t node_bytes(const IndexNode *node) noexcept nogil:
    return 0 if atomic_peek8(&node.flags) & NODE_FILED else rounded(node_size(node))


cdef uint64_t slots_bytes(uint32_t capacity) noexcept nogil:
    return rounded(<uint64_t>capacity * sizeof(IndexSlot))


cdef uint64_t node_records(const IndexNode *node) noexcept nogil:
    cdef const RRset *rrset = node_rrsets(node)
    cdef uint64_t n = 0
    cdef uint32_t i
    for i in range(node.rrsets):
        n += rrset[i].count
    return n


cdef void node_release(IndexNode *node) noexcept nogil:
    if atomic_peek8(&node.flags) & NODE_FILED:
        node_file_free(node, node_size(node))
    elif atomic_add32(&node.refs, <uint32_t>-1) == 0:
        free(node)


cdef IndexTable *table_make(uint32_t capacity) noexcept nogil:
    cdef IndexTable *table = <IndexTable *>calloc(1, sizeof(IndexTable))
    if table == NULL:
        return NULL
    table.slots = <IndexSlot *>calloc(capacity, sizeof(IndexSlot))
    if table.slots == NULL:
        free(table)
        return NULL
    table.capacity = capacity
    table.bytes = TABLE_BYTES + slots_bytes(capacity)
    table.cut_least = 255
    return table


cdef void table_shell_free(IndexTable *table) noexcept nogil:
    """Frees a version without its slots and nodes."""
    if table.attachment != NULL:
        table.attachment_free(table.attachment)
    if table.file != NULL:
        node_file_release(<NodeFile *>table.file)
    free(table)


cdef void table_free(IndexTable *table) noexcept nogil:
    cdef uint32_t i
    cdef IndexNode *node
    for i in range(table.capacity):
        node = slot_node(table, table.slots[i].node)
        # A node in the file goes with it.
        if node != NULL and not node_file_has(<NodeFile *>table.file, node):
            node_release(node)
    table_free_slots(table)
    table_shell_free(table)


# ---- nodes ----

cdef int group(const IndexRecord *records, uint32_t count, RRset *rrsets, uint64_t *size) noexcept nogil:
    """Groups the records by type into RRsets, in the order in which the types first occur; returns the octets of all entries."""
    cdef int types = 0, t
    cdef uint32_t i
    size[0] = 0
    for i in range(count):
        for t in range(types):
            if rrsets[t].type == records[i].type:
                break
        else:
            t = types
            if types == INDEX_TYPES_MAX:
                return INDEX_TYPES
            types += 1
            rrsets[t].type = records[i].type
            rrsets[t].count = 0
            rrsets[t].offset = 0
        if rrsets[t].count == 0xFFFF:
            return INDEX_RECORDS
        rrsets[t].count += 1
        rrsets[t].offset += ENTRY_HEAD + records[i].rdlength        # the RRset's size for now; its offset is set below
        size[0] += ENTRY_HEAD + records[i].rdlength
    return types


cdef uint32_t smallest(const IndexRecord *records, uint32_t count, uint16_t type, bint *differ) noexcept nogil:
    """The canonically smallest record of a type, CNAME or DNAME; of equal ones that with the smallest octets and TTL. differ is set where another one
    of the type has other rdata."""
    cdef uint32_t i, found = count
    cdef int order
    for i in range(count):
        if records[i].type != type:
            continue
        if found == count:
            found = i
            continue
        order = alias_order(records[i].rdata, records[i].rdlength, records[found].rdata, records[found].rdlength)
        if order != 0:
            differ[0] = True
        else:
            order = memcmp(records[i].rdata, records[found].rdata, records[i].rdlength)
        if order < 0 or order == 0 and records[i].ttl < records[found].ttl:
            found = i
    return found


cdef int divide(const IndexRecord *records, uint32_t count, RRset *rrsets, int types, uint32_t *chosen, bint *differ) noexcept nogil:
    """Gives several CNAME or DNAME records two RRsets (nodes.pxd). chosen has the record of each RRset that is the first of two. Returns the number
    of RRsets."""
    cdef int t, single = types
    for t in range(single):
        chosen[t] = count
        if (rrsets[t].type == TYPE_CNAME or rrsets[t].type == TYPE_DNAME) and rrsets[t].count > 1:
            chosen[t] = smallest(records, count, rrsets[t].type, differ)
            rrsets[types].type = rrsets[t].type
            rrsets[types].count = rrsets[t].count - 1
            rrsets[types].offset = rrsets[t].offset - ENTRY_HEAD - records[chosen[t]].rdlength
            rrsets[t].count = 1
            rrsets[t].offset = ENTRY_HEAD + records[chosen[t]].rdlength
            types += 1
    return types


cdef uint8_t flags_of(const IndexCore *index, const RRset *rrsets, int types, uint32_t labels) noexcept nogil:
    """The flags of a node with these types, but for NODE_WILDCARD."""
    cdef uint8_t flags = 0
    cdef int t
    cdef bint nsec3 = False, plain = False, beside = False
    for t in range(types):
        if rrsets[t].type == TYPE_CNAME:
            flags |= NODE_CNAME
        elif not is_beside_cname(rrsets[t].type):
            beside = True
        if rrsets[t].type == TYPE_DNAME:
            flags |= NODE_DNAME
        elif rrsets[t].type == TYPE_NS and labels > index.origin.labels and not index.flat:
            flags |= NODE_CUT
        if rrsets[t].type == TYPE_NSEC3:
            nsec3 = True
        elif rrsets[t].type != TYPE_RRSIG:
            plain = True
    if nsec3 and not plain:
        flags |= NODE_HASHED
    # RFC 2181 10.1; RFC 6672 2.3: DNAME and NS exclude each other, but for the apex.
    if flags & NODE_CNAME and beside or flags & NODE_DNAME and flags & NODE_CUT:
        flags |= NODE_CONFLICT
    if labels == index.origin.labels:
        flags |= NODE_APEX
    return flags


cdef int node_make(const IndexCore *index, void *file, const uint8_t *lower, uint32_t length, uint32_t labels, const IndexRecord *records,
                   uint32_t count, IndexNode **out) noexcept nogil:
    cdef RRset found[RRSETS_MAX]
    cdef uint32_t fill[RRSETS_MAX]
    cdef uint32_t chosen[INDEX_TYPES_MAX]
    cdef RRset *rrsets
    cdef uint64_t size
    cdef uint32_t i, at, head
    cdef int t, single, types = group(records, count, found, &size)
    cdef IndexNode *node = NULL
    cdef uint8_t *base
    cdef bint differ = False, filed = False
    if types < 0:
        return types
    single = types
    types = divide(records, count, found, types, chosen, &differ)
    head = ((NODE_HEAD + length + 3) & ~<uint32_t>3) + <uint32_t>types * <uint32_t>sizeof(RRset)
    size += head
    if size < sizeof(IndexNode):
        size = sizeof(IndexNode)
    if size > 0x7FFFFFFF:
        return INDEX_MEMORY
    # The origin, which queries and changes always read, and empty non-terminals, whose children are counted, are memory.
    if labels == index.origin.labels or count == 0:
        file = NULL
    if file != NULL:
        node = node_file_take(<NodeFile *>file, size)
        filed = node != NULL
    if not filed:
        node = <IndexNode *>malloc(size)
    if node == NULL:
        return INDEX_MEMORY
    base = <uint8_t *>node
    node.refs = 1
    node.children = 0
    node.rrsets = <uint16_t>types
    node.labels = <uint8_t>labels
    node.length = <uint8_t>length
    memcpy(base + NODE_HEAD, lower, length)
    at = head
    rrsets = <RRset *>node_rrsets(node)
    for t in range(types):
        rrsets[t].type = found[t].type
        rrsets[t].count = found[t].count
        rrsets[t].offset = at
        fill[t] = at
        at += found[t].offset
    node.flags = flags_of(index, rrsets, types, labels)
    if differ:
        node.flags |= NODE_CONFLICT
    for i in range(count):
        t = 0
        while rrsets[t].type != records[i].type:
            t += 1
        if types > single and chosen[t] != count and chosen[t] != i:
            t = single
            while rrsets[t].type != records[i].type:
                t += 1
        memcpy(base + fill[t], &records[i].ttl, 4)
        memcpy(base + fill[t] + 4, &records[i].rdlength, 2)
        memcpy(base + fill[t] + ENTRY_HEAD, records[i].rdata, records[i].rdlength)
        fill[t] += ENTRY_HEAD + records[i].rdlength
    if filed:
        node.flags |= NODE_FILED
    elif file != NULL:
        node = copied(<NodeFile *>file, node, size)
    out[0] = node
    return INDEX_OK


cdef IndexNode *copied(NodeFile *file, IndexNode *node, uint64_t size) noexcept nogil:
    """The node in the file, or else the node as it was made."""
    cdef IndexNode *copy
    node.flags |= NODE_FILED
    copy = node_file_copy(file, node, size)
    if copy != NULL:
        free(node)
        return copy
    node.flags &= ~<uint8_t>NODE_FILED
    return node


cdef void table_count_node(IndexTable *table, const IndexNode *node, int sign) noexcept nogil:
    table.bytes += <uint64_t>(<int64_t>node_bytes(node) * sign)
    table.records += <uint64_t>(<int64_t>node_records(node) * sign)
    table.live += sign
    if node.rrsets:
        table.names += sign
    if node.flags & (NODE_CUT | NODE_DNAME):
        if node.labels < table.cut_least:
            atomic_poke8(&table.cut_least, node.labels)
        if node.labels > table.cut_most:
            atomic_poke8(&table.cut_most, node.labels)
        atomic_poke32(&table.cuts, table.cuts + sign)
        if node.flags & NODE_DNAME:
            atomic_poke32(&table.dnames, table.dnames + sign)
    if node.flags & NODE_CONFLICT:
        table.conflicts += sign
    if node.labels > table.most_labels:
        atomic_poke8(&table.most_labels, node.labels)


# ---- slots ----

cdef IndexSlot *table_find_slot(IndexTable *table, uint32_t hash, const uint8_t *lower, uint32_t length, bint *found) noexcept nogil:
    cdef uint32_t i = <uint32_t>((<uint64_t>hash * table.capacity) >> 32)
    cdef IndexSlot *slot
    cdef IndexSlot *vacant = NULL
    cdef const IndexNode *node
    while True:
        slot = &table.slots[i]
        table.work += 1
        if slot.node == NULL:
            found[0] = False
            return vacant if vacant != NULL else slot
        if slot.node == <IndexNode *>SLOT_REMOVED:
            if vacant == NULL:
                vacant = slot
        elif slot.hash == hash:
            node = slot_node(table, slot.node)
            if node != NULL and node.length == length and memcmp(node.name, lower, length) == 0:
                found[0] = True
                return slot
        i += 1
        if i == table.capacity:
            i = 0


cdef bint table_is_full(const IndexTable *table, uint32_t names) noexcept nogil:
    return (<uint64_t>table.used + names) * 4 > <uint64_t>table.capacity * 3


cdef IndexTable *table_copy(const IndexTable *table) noexcept nogil:
    cdef IndexTable *copy = <IndexTable *>malloc(sizeof(IndexTable))
    if copy != NULL:
        copy[0] = table[0]
        copy.version += 1
    return copy


cdef int table_grow(IndexTable *table, uint32_t names) noexcept nogil:
    cdef IndexSlot *slots
    cdef IndexNode *node
    cdef uint32_t i, j, capacity
    if <uint64_t>table.live + names >= 0x7FFFFFF0:
        return INDEX_MEMORY
    capacity = (table.live + names) * 2 + LEAST_SLOTS
    slots = <IndexSlot *>calloc(capacity, sizeof(IndexSlot))
    if slots == NULL:
        return INDEX_MEMORY
    for i in range(table.capacity):
        node = slot_node(table, table.slots[i].node)
        if node == NULL:
            continue
        j = <uint32_t>((<uint64_t>table.slots[i].hash * capacity) >> 32)
        while slots[j].node != NULL:
            j += 1
            if j == capacity:
                j = 0
        slots[j].hash = table.slots[i].hash
        slots[j].node = node
    table.work += table.capacity
    table.bytes += slots_bytes(capacity)
    if table.slot_file == NULL:
        table.bytes -= slots_bytes(table.capacity)
    table.slot_file = NULL
    table.used = table.live
    table.capacity = capacity
    table.slots = slots
    return INDEX_OK


cdef void table_file_slots(IndexTable *table) noexcept nogil:
    cdef SlotFile *file = slot_file_make((<NodeFile *>table.file).folder, table.slots, table.capacity)
    if file != NULL:
        free(table.slots)
        table.slots = file.slots
        table.slot_file = file
        table.bytes -= slots_bytes(table.capacity)


cdef void table_free_slots(IndexTable *table) noexcept nogil:
    if table.slot_file != NULL:
        slot_file_free(<SlotFile *>table.slot_file)
    else:
        free(table.slots)
