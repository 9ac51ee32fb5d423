"""The writing side of the record index. The contract is in index/publish.pxd; index/index.pxd states what readers rely on."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp
from posix.unistd cimport usleep
from fastdns.system.atomic cimport atomic_poke8, atomic_poke32, atomic_store_pointer
from fastdns.system.epoch cimport epoch_passed, epoch_mark
from fastdns.index.mutex cimport pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock
from fastdns.index.nodes cimport (INDEX_BUSY, INDEX_MEMORY, INDEX_OK, INDEX_OUTSIDE, NODE_APEX, NODE_WILDCARD, RETIRED_BLOCKS, SLOT_REMOVED, IndexChange,
                                  IndexChanges, IndexCore, IndexNode, IndexRecord, IndexSlot, IndexTable, Retired)
from fastdns.index.node_file cimport NodeFile, node_file_cool
from fastdns.index.slot_file cimport SlotFile, slot_file_cool, slot_file_free, slot_file_note
from fastdns.index.table cimport (LEAST_SLOTS, TABLE_BYTES, changes_bytes, node_bytes, node_make, node_release, slots_bytes, table_copy, table_count_node,
                                  table_find_slot, table_free, table_free_slots, table_grow, table_is_full, table_make, table_shell_free)
from fastdns._wire cimport Name

cdef enum:
    RETIRED_SEALED = 64         # lists of retired blocks up to which a writer does not wait for readers
    CHANGE_WAIT = 1000          # milliseconds that a change waits for the readers of the version before the last one
    END_WAIT = 10000            # milliseconds that index_end waits for readers

cdef enum:                      # kind of a retired block, in the low bits of its pointer
    RETIRED_NODE = 0
    RETIRED_BLOCK = 1           # memory that refers to nothing that is freed with it
    RETIRED_ZONE = 2            # a table and all its nodes
    RETIRED_CHANGES = 3         # an IndexChanges, and the version before it
    RETIRED_SLOTS = 4           # a SlotFile
    RETIRED_KINDS = 7


# ---- memory ----

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


cdef void settle(IndexCore *index, IndexChanges *changes) noexcept nogil:
    """Gives the slots their nodes, and frees what only the version before had. No reader has that version any more."""
    cdef IndexChange *change
    cdef uint32_t i
    for i in range(changes.count):
        change = &changes.items[i]
        if change.slot != NULL:
            slot_file_note(<SlotFile *>changes.after.slot_file, change.slot)
            atomic_store_pointer(<void **>&change.slot.node, change.after if change.after != NULL else <IndexNode *>SLOT_REMOVED)
        if change.covered != NULL:
            atomic_poke8(&change.covered.flags, change.covered.flags & ~<uint8_t>NODE_WILDCARD)
        if change.before != NULL:
            node_release(change.before)
    if changes.before.slots != changes.after.slots:
        table_free_slots(changes.before)
    table_shell_free(changes.before)
    index.changing = NULL
    # Readers of the version that is served may have found the address of a change in a slot.
    retire(index, changes, RETIRED_BLOCK, changes_bytes(changes.count))


cdef void free_blocks(IndexCore *index, Retired *batch) noexcept nogil:
    cdef uint32_t i
    cdef void *block
    for i in range(batch.count):
        block = <void *>(batch.blocks[i] & ~<uintptr_t>RETIRED_KINDS)
        if batch.blocks[i] & RETIRED_KINDS == RETIRED_NODE:
            node_release(<IndexNode *>block)
        elif batch.blocks[i] & RETIRED_KINDS == RETIRED_BLOCK:
            free(block)
        elif batch.blocks[i] & RETIRED_KINDS == RETIRED_ZONE:
            table_free(<IndexTable *>block)
        elif batch.blocks[i] & RETIRED_KINDS == RETIRED_SLOTS:
            slot_file_free(<SlotFile *>block)
        else:
            settle(index, <IndexChanges *>block)
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
        free_blocks(index, batch)
        if index.filling != NULL:
            seal(index)         # what was unlinked just now
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
    if index.table.file != NULL:
        node_file_cool(<NodeFile *>index.table.file)
    if index.table.slot_file != NULL:
        slot_file_cool(<SlotFile *>index.table.slot_file)
    pthread_mutex_unlock(<pthread_mutex_t *>index.mutex)


cdef void index_release(IndexCore *index) noexcept nogil:
    pthread_mutex_unlock(<pthread_mutex_t *>index.mutex)


cdef int make_room(IndexCore *index, IndexTable **at) noexcept nogil:
    """Makes a slot available for one more name: the slots of a table over three quarters full are copied, without removed ones, into twice as many."""
    cdef IndexTable *table = at[0]
    cdef IndexTable *larger
    cdef IndexSlot *slots = table.slots
    cdef uint32_t capacity = table.capacity
    if not table_is_full(table, 1):
        return INDEX_OK
    if not table.shared:
        if table_grow(table, 0) < 0:
            return INDEX_MEMORY
        free(slots)
        return INDEX_OK
    larger = table_copy(table)
    if larger == NULL or table_grow(larger, 0) < 0:
        free(larger)
        return INDEX_MEMORY
    atomic_store_pointer(<void **>&index.table, larger)
    if table.slot_file != NULL:
        retire(index, table.slot_file, RETIRED_SLOTS, 0)
    else:
        retire(index, slots, RETIRED_BLOCK, slots_bytes(capacity))
    retire(index, table, RETIRED_BLOCK, TABLE_BYTES)
    at[0] = larger
    return INDEX_OK


cdef void replace_node(IndexCore *index, IndexTable *table, IndexSlot *slot, IndexNode *node) noexcept nogil:
    """Replaces the slot's node by node, or removes it when node is NULL."""
    cdef IndexNode *old = slot.node
    cdef uint64_t size = node_bytes(old)
    if node != NULL:
        node.children = old.children
        node.flags |= old.flags & NODE_WILDCARD
        table_count_node(table, node, 1)
        atomic_store_pointer(<void **>&slot.node, node)
    else:
        atomic_store_pointer(<void **>&slot.node, <IndexNode *>SLOT_REMOVED)
    table_count_node(table, old, -1)
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
        status = node_make(index, at[0].file, lower, length, labels, records, count, &node)
    if status != INDEX_OK:
        return status
    at[0].work += count
    slot = table_find_slot(at[0], hash, lower, length, &found)
    if found:
        replace_node(index, at[0], slot, node)
        return 0
    if slot.node == NULL:
        at[0].used += 1
    table_count_node(at[0], node, 1)
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
        slot = table_find_slot(at[0], name.hash[label], name.lower + offset, name.length - offset, &found)
        made = not found
        if made:
            status = insert(index, at, name.lower + offset, name.length - offset, name.labels - label, name.hash[label], NULL, 0)
            if status < 0:
                return status
            slot = table_find_slot(at[0], name.hash[label], name.lower + offset, name.length - offset, &found)
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
    cdef IndexSlot *slot = table_find_slot(table, name.hash[0], name.lower, name.length, &found)
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
        slot = table_find_slot(table, name.hash[label], name.lower + offset, name.length - offset, &found)
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
    cdef IndexTable *table
    if not index_settled(index):
        return INDEX_BUSY
    index.puts += 1
    table = index.table
    if table.slot_file != NULL:
        (<SlotFile *>table.slot_file).whole = 1
    return index_table_put(index, &table, name, records, count)


cdef IndexTable *index_table(const IndexCore *index) noexcept nogil:
    cdef IndexTable *table = table_make(LEAST_SLOTS)
    if table == NULL or index.flat:
        return table
    if insert(<IndexCore *>index, &table, index.origin.lower, index.origin.length, index.origin.labels, index.origin.hash[0], NULL, 0) < 0:
        table_free(table)
        return NULL
    return table


cdef void index_swap(IndexCore *index, IndexTable *table) noexcept nogil:
    cdef IndexTable *old = index.table
    table.shared = 1
    table.version = old.version + 1
    table.work += old.work
    atomic_store_pointer(<void **>&index.table, table)
    retire(index, old, RETIRED_ZONE, old.bytes)


cdef bint index_settled(IndexCore *index) noexcept nogil:
    if index.changing != NULL:
        collect_within(index, CHANGE_WAIT)
    return index.changing == NULL


cdef void index_change(IndexCore *index, IndexChanges *changes) noexcept nogil:
    changes.after.shared = 1
    index.changing = changes
    atomic_store_pointer(<void **>&index.table, changes.after)
    retire(index, changes, RETIRED_CHANGES, changes.bytes)


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
        table_free(index.table)
    if index.mutex != NULL:
        pthread_mutex_destroy(<pthread_mutex_t *>index.mutex)
        free(index.mutex)
