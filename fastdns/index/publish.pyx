"""The writing side of the record index. The contract is in index/publish.pxd; index/index.pxd states what readers rely on."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy
from posix.unistd cimport usleep
from fastdns.system.atomic cimport atomic_add32, atomic_poke8, atomic_poke32, atomic_store_pointer
from fastdns.system.epoch cimport epoch_passed, epoch_mark
from fastdns.index.nodes cimport (ENTRY_HEAD, INDEX_MEMORY, INDEX_OK, INDEX_OUTSIDE, INDEX_RECORDS, INDEX_TYPES, INDEX_TYPES_MAX, NODE_APEX,
                                  NODE_CNAME, NODE_CUT, NODE_DNAME, NODE_HASHED, NODE_HEAD, NODE_WILDCARD, RETIRED_BLOCKS, IndexCore, IndexNode,
                                  IndexRecord, IndexSlot, IndexTable, Retired, RRset, is_node, node_rrsets, rrset_record)
from fastdns._wire cimport TYPE_CNAME, TYPE_DNAME, TYPE_NS, TYPE_NSEC3, TYPE_RRSIG, Name

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *mutex)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

cdef enum:
    RETIRED_SEALED = 64         # lists of retired blocks up to which a writer does not wait for readers
    LEAST_SLOTS = 8
    END_WAIT = 10000            # milliseconds that index_end waits for readers

cdef enum:                      # kind of a retired block, in the low bits of its pointer
    RETIRED_NODE = 0
    RETIRED_TABLE = 1           # a table without its nodes
    RETIRED_ZONE = 2            # a table and all its nodes


# ---- memory ----

cdef inline uint64_t rounded(uint64_t size) noexcept nogil:
    """Octets that malloc uses for a block of this size."""
    return (size + 8 + 15) & ~<uint64_t>15


cdef uint64_t node_bytes(const IndexNode *node) noexcept nogil:
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
    return rounded(end)


cdef inline uint64_t table_bytes(uint32_t capacity) noexcept nogil:
    return rounded(sizeof(IndexTable) + <uint64_t>capacity * sizeof(IndexSlot))


cdef uint64_t node_records(const IndexNode *node) noexcept nogil:
    cdef const RRset *rrset = node_rrsets(node)
    cdef uint64_t n = 0
    cdef uint32_t i
    for i in range(node.rrsets):
        n += rrset[i].count
    return n


cdef void node_release(IndexNode *node) noexcept nogil:
    if atomic_add32(&node.refs, <uint32_t>-1) == 0:
        free(node)


cdef IndexTable *make_table(uint32_t capacity) noexcept nogil:
    cdef IndexTable *table = <IndexTable *>calloc(1, sizeof(IndexTable) + <uint64_t>capacity * sizeof(IndexSlot))
    if table != NULL:
        table.capacity = capacity
        table.bytes = table_bytes(capacity)
        table.cut_least = 255
    return table


cdef void index_table_free(IndexTable *table) noexcept nogil:
    cdef uint32_t i
    for i in range(table.capacity):
        if is_node(table.slots[i].node):
            node_release(table.slots[i].node)
    if table.attachment != NULL:
        table.attachment_free(table.attachment)
    free(table)


cdef void retire(IndexCore *index, void *block, uintptr_t kind, uint64_t size) noexcept nogil:
    """Records an unlinked block, which is freed after its grace period. If there is no memory for the entry, the block is leaked."""
    cdef Retired *batch = index.filling
    if batch != NULL and batch.count == RETIRED_BLOCKS:
        seal(index)
        batch = NULL
    if batch == NULL:
        batch = <Retired *>malloc(sizeof(Retired))
        if batch == NULL:
            return
        batch.next = NULL
        batch.count = 0
        batch.bytes = 0
        index.filling = batch
    batch.blocks[batch.count] = <uintptr_t>block | kind
    batch.count += 1
    batch.bytes += size
    index.pending += size


cdef void seal(IndexCore *index) noexcept nogil:
    cdef Retired *batch = index.filling
    index.filling = NULL
    epoch_mark(&batch.mark)
    if index.newest != NULL:
        index.newest.next = batch
    else:
        index.oldest = batch
    index.newest = batch
    index.sealed += 1
    if index.sealed > RETIRED_SEALED:
        collect_within(index, 1000)


cdef void free_blocks(Retired *batch) noexcept nogil:
    cdef uint32_t i
    cdef void *block
    for i in range(batch.count):
        block = <void *>(batch.blocks[i] & ~<uintptr_t>3)
        if batch.blocks[i] & 3 == RETIRED_NODE:
            node_release(<IndexNode *>block)
        elif batch.blocks[i] & 3 == RETIRED_TABLE:
            free(block)
        else:
            index_table_free(<IndexTable *>block)
    free(batch)


cdef uint64_t index_collect(IndexCore *index) noexcept nogil:
    cdef Retired *batch
    while index.oldest != NULL and epoch_passed(&index.oldest.mark):
        batch = index.oldest
        index.oldest = batch.next
        if batch.next == NULL:
            index.newest = NULL
        index.sealed -= 1
        index.pending -= batch.bytes
        free_blocks(batch)
    return index.pending


cdef void collect_within(IndexCore *index, uint32_t wait) noexcept nogil:
    """Calls index_collect every 100 microseconds until nothing is left, for up to `wait` milliseconds."""
    cdef uint32_t sleeps = 0
    while index_collect(index) and sleeps < 10 * wait:
        usleep(100)
        sleeps += 1


# ---- publishing ----

cdef void index_lock(IndexCore *index) noexcept nogil:
    pthread_mutex_lock(<pthread_mutex_t *>index.mutex)


cdef void index_unlock(IndexCore *index, uint32_t wait) noexcept nogil:
    if index.filling != NULL:
        seal(index)
    collect_within(index, wait)
    pthread_mutex_unlock(<pthread_mutex_t *>index.mutex)


cdef void index_release(IndexCore *index) noexcept nogil:
    pthread_mutex_unlock(<pthread_mutex_t *>index.mutex)


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


cdef int make_node(const IndexCore *index, const uint8_t *lower, uint32_t length, uint32_t labels, const IndexRecord *records, uint32_t count,
                   IndexNode **out) noexcept nogil:
    """Allocates and fills a node. NULL: out of memory."""
    cdef RRset found[INDEX_TYPES_MAX]
    cdef uint32_t fill[INDEX_TYPES_MAX]
    cdef RRset *rrsets
    cdef uint64_t size
    cdef uint32_t i, at, head
    cdef int t, types = group(records, count, found, &size)
    cdef IndexNode *node
    cdef uint8_t *base
    cdef bint nsec3 = False, plain = False
    if types < 0:
        return types
    head = ((NODE_HEAD + length + 3) & ~<uint32_t>3) + <uint32_t>types * <uint32_t>sizeof(RRset)
    size += head
    if size < sizeof(IndexNode):
        size = sizeof(IndexNode)
    if size > 0x7FFFFFFF:
        return INDEX_MEMORY
    node = <IndexNode *>malloc(size)
    if node == NULL:
        return INDEX_MEMORY
    base = <uint8_t *>node
    node.refs = 1
    node.children = 0
    node.rrsets = <uint16_t>types
    node.flags = 0
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
        if found[t].type == TYPE_CNAME:
            node.flags |= NODE_CNAME
        elif found[t].type == TYPE_DNAME:
            node.flags |= NODE_DNAME
        elif found[t].type == TYPE_NS and labels > index.origin.labels and not index.flat:
            node.flags |= NODE_CUT
        if found[t].type == TYPE_NSEC3:
            nsec3 = True
        elif found[t].type != TYPE_RRSIG:
            plain = True
    if nsec3 and not plain:
        node.flags |= NODE_HASHED
    if labels == index.origin.labels:
        node.flags |= NODE_APEX
    for i in range(count):
        t = 0
        while rrsets[t].type != records[i].type:
            t += 1
        memcpy(base + fill[t], &records[i].ttl, 4)
        memcpy(base + fill[t] + 4, &records[i].rdlength, 2)
        memcpy(base + fill[t] + ENTRY_HEAD, records[i].rdata, records[i].rdlength)
        fill[t] += ENTRY_HEAD + records[i].rdlength
    out[0] = node
    return INDEX_OK


cdef void count_node(IndexTable *table, const IndexNode *node, int sign) noexcept nogil:
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
    if node.labels > table.most_labels:
        atomic_poke8(&table.most_labels, node.labels)


cdef IndexSlot *find_slot(IndexTable *table, uint32_t hash, const uint8_t *lower, uint32_t length, bint *found) noexcept nogil:
    """The name's slot, or the free slot where it can be put."""
    cdef uint32_t i = <uint32_t>((<uint64_t>hash * table.capacity) >> 32)
    cdef IndexSlot *slot
    cdef IndexSlot *vacant = NULL
    while True:
        slot = &table.slots[i]
        if slot.node == NULL:
            found[0] = False
            return vacant if vacant != NULL else slot
        if slot.node == <IndexNode *>1:
            if vacant == NULL:
                vacant = slot
        elif slot.hash == hash and slot.node.length == length and memcmp(slot.node.name, lower, length) == 0:
            found[0] = True
            return slot
        i += 1
        if i == table.capacity:
            i = 0


cdef int make_room(IndexCore *index, IndexTable **at) noexcept nogil:
    """Makes a slot available for one more name: a table over three quarters full is copied, without removed slots, so that it is half full."""
    cdef IndexTable *table = at[0]
    cdef IndexTable *larger
    cdef uint32_t i, j, capacity
    if <uint64_t>(table.used + 1) * 4 <= <uint64_t>table.capacity * 3:
        return INDEX_OK
    if table.live >= 0x7FFFFFF0:
        return INDEX_MEMORY
    capacity = table.live * 2 + LEAST_SLOTS
    larger = <IndexTable *>calloc(1, sizeof(IndexTable) + <uint64_t>capacity * sizeof(IndexSlot))
    if larger == NULL:
        return INDEX_MEMORY
    memcpy(larger, table, sizeof(IndexTable) - sizeof(IndexSlot))
    larger.capacity = capacity
    larger.used = table.live
    larger.bytes = table.bytes - table_bytes(table.capacity) + table_bytes(capacity)
    for i in range(table.capacity):
        if not is_node(table.slots[i].node):
            continue
        j = <uint32_t>((<uint64_t>table.slots[i].hash * capacity) >> 32)
        while larger.slots[j].node != NULL:
            j += 1
            if j == capacity:
                j = 0
        larger.slots[j].hash = table.slots[i].hash
        larger.slots[j].node = table.slots[i].node
    at[0] = larger
    if table.shared:
        atomic_store_pointer(<void **>&index.table, larger)
        retire(index, table, RETIRED_TABLE, table_bytes(table.capacity))
    else:
        free(table)
    return INDEX_OK


cdef void replace_node(IndexCore *index, IndexTable *table, IndexSlot *slot, IndexNode *node) noexcept nogil:
    """Replaces the slot's node by node, or removes it when node is NULL."""
    cdef IndexNode *old = slot.node
    cdef uint64_t size = node_bytes(old)
    if node != NULL:
        node.children = old.children
        node.flags |= old.flags & NODE_WILDCARD
        count_node(table, node, 1)
        atomic_store_pointer(<void **>&slot.node, node)
    else:
        atomic_store_pointer(<void **>&slot.node, <IndexNode *>1)
    count_node(table, old, -1)
    if table.shared:
        retire(index, old, RETIRED_NODE, size)
    else:
        node_release(old)


cdef int insert(IndexCore *index, IndexTable **at, const uint8_t *lower, uint32_t length, uint32_t labels, uint32_t hash,
                const IndexRecord *records, uint32_t count) noexcept nogil:
    """Puts a name's records. 1: the name is new, 0: it existed, below 0: an error."""
    cdef IndexNode *node
    cdef IndexSlot *slot
    cdef bint found
    cdef int status = make_room(index, at)
    if status == INDEX_OK:
        status = make_node(index, lower, length, labels, records, count, &node)
    if status != INDEX_OK:
        return status
    slot = find_slot(at[0], hash, lower, length, &found)
    if found:
        replace_node(index, at[0], slot, node)
        return 0
    if slot.node == NULL:
        at[0].used += 1
    count_node(at[0], node, 1)
    atomic_poke32(&slot.hash, hash)
    atomic_store_pointer(<void **>&slot.node, node)
    return 1


cdef int link_ancestors(IndexCore *index, IndexTable **at, const Name *name) noexcept nogil:
    """Counts a new name as a child of its parent; missing ancestors are added as empty non-terminals."""
    cdef uint32_t label = 1, offset
    cdef bint found, made = True
    cdef IndexSlot *slot
    cdef int status
    while made and name.labels - label >= index.origin.labels and label <= name.labels:
        offset = name.offset[label]
        slot = find_slot(at[0], name.hash[label], name.lower + offset, name.length - offset, &found)
        made = not found
        if made:
            status = insert(index, at, name.lower + offset, name.length - offset, name.labels - label, name.hash[label], NULL, 0)
            if status < 0:
                return status
            slot = find_slot(at[0], name.hash[label], name.lower + offset, name.length - offset, &found)
        slot.node.children += 1
        if name.lower[name.offset[label - 1]] == 1 and name.lower[name.offset[label - 1] + 1] == c'*':
            atomic_poke8(&slot.node.flags, slot.node.flags | NODE_WILDCARD)
        label += 1
    return INDEX_OK


cdef int remove(IndexCore *index, IndexTable **at, const Name *name) noexcept nogil:
    """Removes a name's records. A node without children is removed, and with it the empty non-terminals that have no other child."""
    cdef uint32_t label = 0, offset
    cdef bint found
    cdef IndexTable *table = at[0]
    cdef IndexSlot *slot = find_slot(table, name.hash[0], name.lower, name.length, &found)
    cdef IndexNode *node
    cdef int status
    if not found or slot.node.rrsets == 0:
        return INDEX_OK
    if not index.flat and (slot.node.children or slot.node.flags & NODE_APEX):
        status = insert(index, at, name.lower, name.length, name.labels, name.hash[0], NULL, 0)
        return status if status < 0 else INDEX_OK
    replace_node(index, table, slot, NULL)
    if index.flat:
        return INDEX_OK
    while label < name.labels:
        label += 1
        offset = name.offset[label]
        slot = find_slot(table, name.hash[label], name.lower + offset, name.length - offset, &found)
        if not found:
            break
        node = slot.node
        node.children -= 1
        if name.lower[name.offset[label - 1]] == 1 and name.lower[name.offset[label - 1] + 1] == c'*':
            atomic_poke8(&node.flags, node.flags & ~<uint8_t>NODE_WILDCARD)
        if node.children or node.rrsets or node.flags & NODE_APEX:
            break
        replace_node(index, table, slot, NULL)
    return INDEX_OK


cdef int index_table_put(IndexCore *index, IndexTable **table, const Name *name, const IndexRecord *records, uint32_t count) noexcept nogil:
    cdef int status
    if not index_holds(index, name):
        return INDEX_OUTSIDE
    if count == 0:
        return remove(index, table, name)
    status = insert(index, table, name.lower, name.length, name.labels, name.hash[0], records, count)
    if status == 1:
        status = INDEX_OK if index.flat else link_ancestors(index, table, name)
    return status


cdef int index_put(IndexCore *index, const Name *name, const IndexRecord *records, uint32_t count) noexcept nogil:
    cdef IndexTable *table = index.table
    return index_table_put(index, &table, name, records, count)


cdef IndexTable *index_table(const IndexCore *index) noexcept nogil:
    cdef IndexTable *table = make_table(LEAST_SLOTS)
    if table == NULL or index.flat:
        return table
    if insert(<IndexCore *>index, &table, index.origin.lower, index.origin.length, index.origin.labels, index.origin.hash[0], NULL, 0) < 0:
        index_table_free(table)
        return NULL
    return table


cdef void index_swap(IndexCore *index, IndexTable *table) noexcept nogil:
    cdef IndexTable *old = index.table
    table.shared = 1
    atomic_store_pointer(<void **>&index.table, table)
    if old != NULL:
        retire(index, old, RETIRED_ZONE, old.bytes)

cdef bint index_holds(const IndexCore *index, const Name *name) noexcept nogil:
    """Whether the name is at or below the origin."""
    cdef uint32_t offset
    if name.labels < index.origin.labels:
        return False
    offset = name.offset[name.labels - index.origin.labels]
    return name.length - offset == index.origin.length and memcmp(name.lower + offset, index.origin.lower, index.origin.length) == 0


cdef int index_begin(IndexCore *index) noexcept nogil:
    index.mutex = calloc(1, sizeof(pthread_mutex_t))
    if index.mutex == NULL:
        return -1
    pthread_mutex_init(<pthread_mutex_t *>index.mutex, NULL)
    index.table = index_table(index)
    if index.table == NULL:
        return -1
    index.table.shared = 1
    return 0


cdef void index_end(IndexCore *index) noexcept nogil:
    if index.table != NULL:
        if index.filling != NULL:
            seal(index)
        collect_within(index, END_WAIT)
        if index.pending:
            return          # a worker hangs: the memory that it may be reading is leaked
        index_table_free(index.table)
    if index.mutex != NULL:
        pthread_mutex_destroy(<pthread_mutex_t *>index.mutex)
        free(index.mutex)
