"""The record index: owner name -> node -> RRsets as ready wire, read without locks while one writer publishes.

A table of 16-byte slots holds each name's hash beside a pointer to its node; a node is one block: header, name, RRsets. What a
reader gets is borrowed until its worker's batch ends (_epoch). A writer never changes what a reader may read but for flags: it puts a new
node in the old one's place. Names under an index's origin have all their ancestors as nodes (empty non-terminals where
nothing is published), so the closest encloser is the first suffix that is found. A flat index has no ancestors: it answers exact names only.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.system.atomic cimport atomic_load_pointer
from fastdns.index.nodes cimport IndexCore, IndexNode, IndexRecord, IndexTable, RRset, rrset_record
from fastdns.message.reply cimport Reply, reply_add_record
from fastdns._wire cimport CLASS_IN, Name

cdef enum IndexOutcome:
    FOUND_HIT                   # result.rrset is it; NULL for ANY: all RRsets of result.node
    FOUND_NODATA                # the name is there, the type is not
    FOUND_CNAME                 # result.rrset is the CNAME
    FOUND_DNAME                 # result.node is above the name, result.rrset its DNAME
    FOUND_DELEGATION            # result.node is the cut, result.rrset its NS; glue: index_exact of their names
    FOUND_NXDOMAIN
    FOUND_OUTSIDE               # not at or below the origin

cdef struct IndexResult:
    IndexNode *node             # whose records answer, or NULL
    IndexNode *encloser         # closest encloser (wildcards, NXDOMAIN), or NULL
    const RRset *rrset
    uint8_t label               # of the query name at which node (or else encloser) begins
    uint8_t wildcard            # node is "*" below encloser

cdef struct IndexSnapshot:      # nodes as they were at one moment; keeps them, whatever is published since
    uint32_t count
    IndexNode *nodes[1]

# ---- reading (workers: between epoch_online and epoch_quiescent; see index/publish.pxd for writing) ----

cdef inline const IndexTable *index_current(const IndexCore *index) noexcept nogil:
    """The table as it is now; for who looks several things up that must be of one version."""
    return <const IndexTable *>atomic_load_pointer(<void **>&index.table)

# For `prefetch` hooks: the slot of the name, or of its ancestor with as many labels as any name has, and then the node that it leads to, are on
# their way into the CPU's cache. table_fetch_node is False when there is nothing to fetch.
cdef void table_fetch_slot(const IndexTable *table, const Name *name) noexcept nogil
cdef bint table_fetch_node(const IndexTable *table, const Name *name) noexcept nogil
cdef IndexNode *table_exact(const IndexTable *table, const uint8_t *lower, uint32_t length, uint32_t hash) noexcept nogil
cdef IndexNode *table_wildcard(const IndexTable *table, const uint8_t *suffix, uint32_t length) noexcept nogil  # "*" below a lower-case name
cdef IndexOutcome table_find(const IndexTable *table, const IndexCore *index, const Name *name, uint16_t qtype, IndexResult *out) noexcept nogil

# The node of exactly this name (lower-case wire and its hash), or NULL.
cdef IndexNode *index_exact(const IndexCore *index, const uint8_t *lower, uint32_t length, uint32_t hash) noexcept nogil
# The node of "*" in place of the name's first label, or NULL.
cdef IndexNode *index_wildcard(const IndexCore *index, const Name *name) noexcept nogil
# What the zone says to this name and type (RFC 1034 4.3.2, RFC 4592, RFC 6672). Not for flat indexes.
cdef IndexOutcome index_find(const IndexCore *index, const Name *name, uint16_t qtype, IndexResult *out) noexcept nogil

cdef inline int reply_add_rrset(Reply *reply, int section, const uint8_t *owner, uint8_t owner_length, const IndexNode *node,
                                const RRset *rrset) noexcept nogil:
    """Adds all records of an RRset, borrowed, class IN. -1 when the reply is full."""
    cdef IndexRecord record
    cdef const uint8_t *entry = NULL
    cdef uint32_t _i
    for _i in range(rrset.count):
        entry = rrset_record(node, rrset, entry, &record)
        if reply_add_record(reply, section, owner, owner_length, record.type, CLASS_IN, record.ttl, record.rdata, record.rdlength) < 0:
            return -1
    return 0

# ---- snapshots ----

# Canonical order of lower-case names (RFC 4034 6.1): below, at or above 0.
cdef int compare_names(const uint8_t *a, const uint8_t *b) noexcept nogil

# The nodes that have records, in canonical order (RFC 4034 6.1) when sorted. Takes the writer's lock. NULL: no memory.
cdef IndexSnapshot *index_snapshot(IndexCore *index, bint sorted) noexcept nogil
# From any thread.
cdef void snapshot_release(IndexSnapshot *snapshot) noexcept nogil

cdef class Index:
    cdef IndexCore *core
    cdef readonly object origin
    cdef object __weakref__
    cdef int _load(self, object name, Name *out) except -1
    cdef int _publish(self, IndexTable **table, object name, object records) except -1
