"""Changes of many names that readers see at one moment. The contract is in index/edits.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from fastdns.system.atomic cimport atomic_poke8, atomic_poke32, atomic_store_pointer
from fastdns.index.nodes cimport (INDEX_BUSY, INDEX_MEMORY, INDEX_OK, NODE_APEX, NODE_WILDCARD, SLOT_CHANGING, SLOT_REMOVED, IndexChange, IndexChanges,
                                  IndexCore, IndexNode, IndexRecord, IndexSlot, IndexTable, slot_node)
from fastdns.index.node_file cimport NodeFile, node_file_hold
from fastdns.index.publish cimport index_change, index_settled
from fastdns.index.slot_file cimport SlotFile, slot_file_note
from fastdns.index.table cimport (changes_bytes, node_bytes, node_make, node_release, table_copy, table_count_node, table_file_slots, table_find_slot,
                                  table_grow, table_is_full, table_shell_free)
from fastdns._wire cimport Name

cdef enum:
    LEAST_BUCKETS = 16


cdef IndexEdits *edits_begin(IndexCore *index) noexcept nogil:
    cdef IndexEdits *edits = <IndexEdits *>calloc(1, sizeof(IndexEdits))
    if edits != NULL:
        edits.index = index
        edits.version = index.table.version
        edits.puts = index.puts
    return edits


cdef int grow(IndexEdits *edits) noexcept nogil:
    cdef uint32_t capacity = edits.capacity * 2 if edits.capacity else LEAST_BUCKETS, place
    cdef IndexEdit **buckets = <IndexEdit **>calloc(capacity, sizeof(void *))
    cdef IndexEdit *edit = edits.first
    if buckets == NULL:
        return INDEX_MEMORY
    while edit != NULL:
        place = edit.hash & (capacity - 1)
        edit.next = buckets[place]
        buckets[place] = edit
        edit = edit.following
    free(edits.buckets)
    edits.buckets = buckets
    edits.capacity = capacity
    return INDEX_OK


cdef IndexEdit *edits_have(const IndexEdits *edits, const uint8_t *lower, uint32_t length, uint32_t hash) noexcept nogil:
    cdef IndexEdit *edit = edits.buckets[hash & (edits.capacity - 1)] if edits.capacity else NULL
    while edit != NULL:
        if edit.hash == hash and edit.length == length and memcmp(edit.name, lower, length) == 0:
            return edit
        edit = edit.next
    return NULL


cdef IndexEdit *edits_find(IndexEdits *edits, const Name *name, uint32_t label) noexcept nogil:
    cdef const uint8_t *lower = name.lower + name.offset[label]
    cdef uint32_t length = name.length - name.offset[label], hash = name.hash[label]
    cdef IndexEdit *edit = edits_have(edits, lower, length, hash)
    cdef IndexTable *table = edits.index.table
    cdef IndexSlot *slot
    cdef bint found
    if edit != NULL:
        return edit
    if edits.count >= edits.capacity and grow(edits) < 0:
        return NULL
    edit = <IndexEdit *>calloc(1, sizeof(IndexEdit) + length)
    if edit == NULL:
        return NULL
    slot = table_find_slot(table, hash, lower, length, &found)
    if found:
        edit.before = slot_node(table, slot.node)
        edit.after = edit.before
        edit.children = edit.before.children
    edit.hash = hash
    edit.labels = <uint8_t>(name.labels - label)
    edit.length = <uint8_t>length
    memcpy(edit.name, lower, length)
    edit.next = edits.buckets[hash & (edits.capacity - 1)]
    edits.buckets[hash & (edits.capacity - 1)] = edit
    if edits.last != NULL:
        edits.last.following = edit
    else:
        edits.first = edit
    edits.last = edit
    edits.count += 1
    return edit


cdef void exchange(IndexEdit *edit, IndexNode *node) noexcept nogil:
    if edit.after != NULL and edit.after != edit.before:
        node_release(edit.after)
    edit.after = node


cdef int make(IndexEdits *edits, IndexEdit *edit, const IndexRecord *records, uint32_t count) noexcept nogil:
    cdef IndexNode *node
    cdef int status = node_make(edits.index, edits.index.table.file, edit.name, edit.length, edit.labels, records, count, &node)
    if status == INDEX_OK:
        edits.index.table.work += count + 1
        exchange(edit, node)
    return status


cdef int link(IndexEdits *edits, const Name *name, IndexEdit *edit) noexcept nogil:
    """Counts a name that will exist as a child of its parent, and has missing ancestors made as empty non-terminals."""
    cdef uint32_t label = 0
    cdef bint missing = True
    while missing and edit.labels > edits.index.origin.labels:
        label += 1
        edit.parent = edits_find(edits, name, label)
        if edit.parent == NULL:
            return INDEX_MEMORY
        edit = edit.parent
        missing = edit.after == NULL
        if missing and make(edits, edit, NULL, 0) < 0:
            return INDEX_MEMORY
        edit.children += 1
    return INDEX_OK


cdef int unlink(IndexEdits *edits, const Name *name, IndexEdit *edit) noexcept nogil:
    """Removes a name without children, and the empty non-terminals that have no other child."""
    cdef uint32_t label = 0
    while True:
        exchange(edit, NULL)
        label += 1
        edit.parent = edits_find(edits, name, label)
        if edit.parent == NULL:
            return INDEX_MEMORY
        edit = edit.parent
        edit.children -= 1
        if edit.children or edit.after.rrsets or edit.after.flags & NODE_APEX:
            return INDEX_OK


cdef int edits_put(IndexEdits *edits, const Name *name, const IndexRecord *records, uint32_t count) noexcept nogil:
    cdef IndexEdit *edit = edits_find(edits, name, 0)
    cdef bint existed
    cdef int status
    if edit == NULL:
        return INDEX_MEMORY
    existed = edit.after != NULL
    if count == 0:
        if not existed or edit.after.rrsets == 0:
            return INDEX_OK
        if edit.children == 0 and not edit.after.flags & NODE_APEX:
            return unlink(edits, name, edit)
    status = make(edits, edit, records, count)
    return link(edits, name, edit) if status == INDEX_OK and not existed else status


# ---- the next version ----

cdef int edits_prepare(IndexEdits *edits) noexcept nogil:
    cdef IndexCore *index = edits.index
    cdef IndexTable *table
    cdef IndexEdit *edit = edits.first
    cdef uint32_t made = 0, changed = 0
    if not index_settled(index):
        return INDEX_BUSY
    while edit != NULL:
        changed += edit.after != edit.before
        made += edit.before == NULL and edit.after != NULL
        edit = edit.following
    table = table_copy(index.table)
    if table == NULL:
        return INDEX_MEMORY
    table.attachment = NULL
    if table.file != NULL:
        node_file_hold(<NodeFile *>table.file)
    edits.changes = <IndexChanges *>calloc(1, changes_bytes(changed))
    edits.grown = table_is_full(table, made)
    if edits.changes == NULL or edits.grown and table_grow(table, made) < 0:
        table_shell_free(table)
        return INDEX_MEMORY
    edits.table = table
    edits.changes.before = index.table
    edits.changes.after = table
    edits.changes.bytes = changes_bytes(changed)
    edit = edits.first
    while edit != NULL:
        if edit.after != edit.before:
            if edit.after != NULL:
                table_count_node(table, edit.after, 1)
            if edit.before != NULL:
                table_count_node(table, edit.before, -1)
                edits.changes.bytes += node_bytes(edit.before)
        edit = edit.following
    return INDEX_OK


cdef bint edits_fit(const IndexEdits *edits) noexcept nogil:
    return edits.index.table.version == edits.version and edits.index.puts == edits.puts


cdef void put_change(IndexEdits *edits, IndexEdit *edit) noexcept nogil:
    """Has the slot hold the nodes of both versions; slots of the new version's own get its node."""
    cdef IndexTable *table = edits.table
    cdef bint found
    cdef IndexSlot *slot = table_find_slot(table, edit.hash, edit.name, edit.length, &found)
    cdef IndexChange *change = &edits.changes.items[edits.changes.count]
    edits.changes.count += 1
    change.version = table.version
    change.before = edit.before
    change.after = edit.after
    if slot.node == NULL:
        table.used += 1
    slot_file_note(<SlotFile *>table.slot_file, slot)
    atomic_poke32(&slot.hash, edit.hash)
    if not edits.grown:
        change.slot = slot
        atomic_store_pointer(<void **>&slot.node, <void *>(<uintptr_t>change + SLOT_CHANGING))
    elif edit.after != NULL:
        slot.node = edit.after
    else:
        slot.node = <IndexNode *>SLOT_REMOVED
    if edit.name[0] == 1 and edit.name[1] == c'*' and edit.parent != NULL and edit.parent.after != NULL:
        cover(edit, change)


cdef void cover(IndexEdit *edit, IndexChange *change) noexcept nogil:
    """A wildcard begins or ends: sets its parent's flag. A reader that sees the flag too early or too long finds no wildcard behind it."""
    cdef IndexNode *parent = edit.parent.after
    if edit.after != NULL:
        atomic_poke8(&parent.flags, parent.flags | NODE_WILDCARD)
    elif parent == edit.parent.before:
        change.covered = parent
    else:
        parent.flags &= ~<uint8_t>NODE_WILDCARD


cdef void edits_apply(IndexEdits *edits) noexcept nogil:
    cdef IndexEdit *edit = edits.first
    while edit != NULL:
        if edit.after != NULL:
            # A node that keeps what it has is not written: it may be in a file.
            if edit.after.children != edit.children:
                edit.after.children = edit.children
            if edit.before != NULL and edit.after != edit.before and edit.before.flags & NODE_WILDCARD:
                edit.after.flags |= NODE_WILDCARD
        edit = edit.following
    edit = edits.first
    while edit != NULL:
        if edit.after != edit.before:
            put_change(edits, edit)
        edit = edit.following
    if edits.grown and edits.table.file != NULL:
        table_file_slots(edits.table)
    index_change(edits.index, edits.changes)
    edit = edits.first
    while edit != NULL:
        edit.after = NULL
        edit = edit.following
    edits.table = NULL
    edits.changes = NULL


cdef void edits_free(IndexEdits *edits) noexcept nogil:
    cdef IndexEdit *edit
    while edits.first != NULL:
        edit = edits.first
        edits.first = edit.following
        if edit.after != edit.before and edit.after != NULL:
            node_release(edit.after)
        free(edit)
    if edits.table != NULL:
        if edits.grown:
            free(edits.table.slots)
        table_shell_free(edits.table)
    free(edits.changes)
    free(edits.buckets)
    free(edits)
