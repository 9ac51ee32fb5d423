"""Changes of many names of an index that readers see at one moment, at a cost by the number of names that change.

    edits = edits_begin(index)                      # the caller holds the lock (index/publish.pxd); NULL: out of memory
    edit = edits_find(edits, &name, 0)              # a name as it is and as it will be
    status = edits_put(edits, &name, records, count)
    status = edits_prepare(edits)                   # edits.table is the next version: its attachment is the caller's to set
    edits_apply(edits)                              # in the same hold of the lock or a later one, when edits_fit says that the index is as it was
    edits_free(edits)                               # always; frees what was not applied

Two versions share their slots. While readers may have the older one, a slot that differs holds an `IndexChange`, which has a node for each. When
they have ended, the slot gets its node. Only if the slots are too full does the next version get slots of its own. The slots of a name never move.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.index.nodes cimport IndexChanges, IndexCore, IndexNode, IndexRecord, IndexTable
from fastdns._wire cimport Name

cdef struct IndexEdit:          # a name
    IndexEdit *next             # with the same place in `buckets`
    IndexEdit *following        # in the order in which they were made
    IndexEdit *parent           # NULL for the origin
    IndexNode *before           # the index's; NULL: the name does not exist
    IndexNode *after            # `before`, or one that belongs to the edits; NULL: the name will not exist
    void *context               # the caller's
    uint32_t hash
    uint32_t children           # of `after`
    uint8_t labels
    uint8_t length
    uint8_t name[1]             # lower case

cdef struct IndexEdits:
    IndexCore *index
    uint64_t version            # that is changed
    uint64_t puts
    IndexEdit **buckets
    uint32_t capacity
    uint32_t count
    IndexEdit *first
    IndexEdit *last
    IndexTable *table           # by edits_prepare
    uint8_t grown               # it has slots of its own
    IndexChanges *changes

cdef IndexEdits *edits_begin(IndexCore *index) noexcept nogil
# The edit of the name's suffix that begins at a label. NULL: out of memory.
cdef IndexEdit *edits_find(IndexEdits *edits, const Name *name, uint32_t label) noexcept nogil
# The edit of a whole name in lower case, if there is one; else NULL.
cdef IndexEdit *edits_have(const IndexEdits *edits, const uint8_t *lower, uint32_t length, uint32_t hash) noexcept nogil
# Replaces all records of a name, which is at or below the origin; count 0 removes them. INDEX_OK or an error of nodes.pxd.
cdef int edits_put(IndexEdits *edits, const Name *name, const IndexRecord *records, uint32_t count) noexcept nogil
# INDEX_OK, INDEX_MEMORY or INDEX_BUSY. The caller holds the lock.
cdef int edits_prepare(IndexEdits *edits) noexcept nogil
cdef bint edits_fit(const IndexEdits *edits) noexcept nogil
cdef void edits_apply(IndexEdits *edits) noexcept nogil
cdef void edits_free(IndexEdits *edits) noexcept nogil
