"""The writing side of the record index: one writer at a time puts and removes names. Readers never wait. Unlinked memory is freed after its
grace period (system/epoch.pxd)."""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.index.nodes cimport IndexChanges, IndexCore, IndexRecord, IndexTable
from fastdns._wire cimport Name

# Any thread except a worker may write. It must not hold the GIL: another writer may hold the lock and wait for the GIL.

cdef void index_lock(IndexCore *index) noexcept nogil
# Ends a change and gives the lock back. Waits up to `wait` milliseconds for the grace period of what the change unlinked; a later change
# frees what is left then.
cdef void index_unlock(IndexCore *index, uint32_t wait) noexcept nogil
# Gives the lock back without freeing anything; a later change does.
cdef void index_release(IndexCore *index) noexcept nogil
# Replaces all records of a name; count 0 removes the name. Uses name.lower. The caller holds the lock. INDEX_OK or an error of nodes.pxd.
cdef int index_put(IndexCore *index, const Name *name, const IndexRecord *records, uint32_t count) noexcept nogil
# Replacing all records at once: index_table makes a private table (NULL: out of memory), index_table_put fills it, and index_swap publishes it
# (the caller holds the lock) or table_free (index/table.pxd) frees it.
cdef IndexTable *index_table(const IndexCore *index) noexcept nogil
cdef int index_table_put(IndexCore *index, IndexTable **table, const Name *name, const IndexRecord *records, uint32_t count) noexcept nogil
cdef void index_swap(IndexCore *index, IndexTable *table) noexcept nogil
# For index/edits: publishes changes.after, a version with the slots of the one before or with its own. The caller holds the lock, and index_settled
# was true: no reader has the version before the current one. It waits up to a second for that.
cdef void index_change(IndexCore *index, IndexChanges *changes) noexcept nogil
cdef bint index_settled(IndexCore *index) noexcept nogil
# Frees the blocks whose grace period is over. Returns the octets that still wait. The caller holds the lock.
cdef uint64_t index_collect(IndexCore *index) noexcept nogil

# Whether the name is at or below the origin.
cdef bint index_holds(const IndexCore *index, const Name *name) noexcept nogil
# Initialises an index whose origin is set. 0, or -1: out of memory. No thread may read the index when index_end is called.
cdef int index_begin(IndexCore *index) noexcept nogil
cdef void index_end(IndexCore *index) noexcept nogil
