"""How names come into an index and leave it: one writer at a time, readers that never wait, memory freed after its grace period."""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.index.nodes cimport IndexCore, IndexNode, IndexRecord, IndexTable
from fastdns._wire cimport Name

# Any thread but a worker may publish; never while holding the GIL, since another writer may wait for it.

cdef void index_lock(IndexCore *index) noexcept nogil
# Ends a change: what it unlinked is freed once the workers have passed. wait: up to so many milliseconds here, else with a later change.
cdef void index_unlock(IndexCore *index, uint32_t wait) noexcept nogil
# Gives the lock back and leaves all that to a later change.
cdef void index_release(IndexCore *index) noexcept nogil
# Replaces all records of a name; no records: removes it. name is lower case. Locked.
cdef int index_put(IndexCore *index, const Name *name, const IndexRecord *records, uint32_t count) noexcept nogil
# A whole new zone: fill a table that nobody sees, then swap it in (locked) or free it. NULL: no memory.
cdef IndexTable *index_table(const IndexCore *index) noexcept nogil
cdef int index_table_put(IndexCore *index, IndexTable **table, const Name *name, const IndexRecord *records, uint32_t count) noexcept nogil
cdef void index_table_free(IndexTable *table) noexcept nogil
cdef void index_swap(IndexCore *index, IndexTable *table) noexcept nogil
# Frees what has passed; 0 when nothing is left to free.
cdef uint64_t index_collect(IndexCore *index) noexcept nogil

# Lets a node go that somebody held (snapshots); from any thread.
cdef void node_release(IndexNode *node) noexcept nogil
# Is the name at or below the origin?
cdef bint index_holds(const IndexCore *index, const Name *name) noexcept nogil
# The parts of a new index; -1: no memory. Nobody may read it any more when it ends.
cdef int index_begin(IndexCore *index) noexcept nogil
cdef void index_end(IndexCore *index) noexcept nogil
