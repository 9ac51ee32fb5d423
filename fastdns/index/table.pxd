"""Nodes, and the tables of slots that have them: the parts of which index/publish and index/edits make changes. All of it is for writers."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.index.nodes cimport IndexChange, IndexChanges, IndexCore, IndexNode, IndexRecord, IndexSlot, IndexTable

cdef enum:
    LEAST_SLOTS = 8             # of a new version
    TABLE_BYTES = (sizeof(IndexTable) + 8 + 15) & ~15      # of a version without its slots, as malloc rounds them

# Allocates and fills a node, in the file (a NodeFile, or NULL) if it can be there. INDEX_OK or an error of nodes.pxd.
cdef int node_make(const IndexCore *index, void *file, const uint8_t *lower, uint32_t length, uint32_t labels, const IndexRecord *records, uint32_t count,
                   IndexNode **out) noexcept nogil
cdef uint64_t node_bytes(const IndexNode *node) noexcept nogil      # as malloc rounds them; none of a node in a file
# Drops a reference to a node (snapshots hold them); from any thread.
cdef void node_release(IndexNode *node) noexcept nogil

# An empty version with its slots. NULL: out of memory.
cdef IndexTable *table_make(uint32_t capacity) noexcept nogil
# A version with the slots, the attachment and the file of another one, which it does not own. NULL: out of memory.
cdef IndexTable *table_copy(const IndexTable *table) noexcept nogil
# Frees a version that nobody reads, with its slots and nodes; or without them.
cdef void table_free(IndexTable *table) noexcept nogil
cdef void table_shell_free(IndexTable *table) noexcept nogil
cdef uint64_t slots_bytes(uint32_t capacity) noexcept nogil         # as malloc rounds them
# Gives the version slots of its own, with room for so many more names. The slots that it had are the caller's. INDEX_OK or INDEX_MEMORY.
cdef int table_grow(IndexTable *table, uint32_t names) noexcept nogil
# Has the file of a version that no reader sees yet have its slots, too, if that is worth it.
cdef void table_file_slots(IndexTable *table) noexcept nogil
# Frees the slots of a version, which is not.
cdef void table_free_slots(IndexTable *table) noexcept nogil
cdef bint table_is_full(const IndexTable *table, uint32_t names) noexcept nogil     # has no room for so many more names
# The name's slot, or (found False) the one where it can be put.
cdef IndexSlot *table_find_slot(IndexTable *table, uint32_t hash, const uint8_t *lower, uint32_t length, bint *found) noexcept nogil
# Adds a node to the version's counts (sign 1) or takes it off (-1).
cdef void table_count_node(IndexTable *table, const IndexNode *node, int sign) noexcept nogil

cdef inline uint64_t changes_bytes(uint32_t count) noexcept nogil:
    """Octets of an IndexChanges for so many names."""
    return sizeof(IndexChanges) + <uint64_t>count * sizeof(IndexChange)
