"""The record index: owner name -> node -> RRsets in wire form. Workers read it without locks while one writer publishes.

A hash table of 16-byte slots holds each name's hash and a pointer to its node. A node is one block of memory: header, name, RRsets. Pointers
that a reader gets are valid until its worker's batch ends (system/epoch.pxd). Apart from flags a writer does not change a node that readers
can see; it replaces the node by a new one. Every name below the origin has all its ancestors as nodes (empty non-terminals where nothing is
published), so the closest encloser is the longest suffix that is found. A flat index has no ancestors and answers exact names only.

Memory order. A version is released by IndexCore.table, a node (or an IndexChange) by its slot; readers acquire both. The slot's hash is relaxed: it is
stored before the pointer and loaded after it, and the name is compared. The counts of a version and the flags of a node are relaxed hints: a reader
that has an old one finds what it would have found a moment before. The reference that frees a node has acquired all others.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.system.atomic cimport atomic_load_pointer
from fastdns.index.nodes cimport IndexCore, IndexNode, IndexRecord, IndexTable, RRset, rrset_record
from fastdns.message.reply cimport Reply, reply_add_record
from fastdns._wire cimport CLASS_IN, Name

cdef enum IndexOutcome:
    FOUND_HIT                   # result.rrset is the RRset; NULL for ANY: all RRsets of result.node
    FOUND_NODATA                # the name exists, the type does not
    FOUND_CNAME                 # result.rrset is the CNAME
    FOUND_DNAME                 # result.node is an ancestor of the name, result.rrset its DNAME
    FOUND_DELEGATION            # result.node is the zone cut, result.rrset its NS; index_exact of the targets gives the glue
    FOUND_NXDOMAIN
    FOUND_OUTSIDE               # not at or below the origin

cdef struct IndexResult:
    IndexNode *node             # the node whose records answer, or NULL
    IndexNode *encloser         # closest encloser (wildcards, NXDOMAIN), or NULL
    const RRset *rrset
    uint8_t label               # of the query name at which node (or else encloser) begins
    uint8_t wildcard            # node is "*" below encloser

cdef struct IndexSnapshot:      # the nodes at one point of time; holds a reference to each
    void *file                  # a NodeFile, which some of them are in, or NULL
    uint32_t count
    IndexNode *nodes[1]

# ---- reading: by workers, between epoch_online and epoch_quiescent (index/publish.pxd has the writing side) ----

cdef inline const IndexTable *index_current(const IndexCore *index) noexcept nogil:
    """The current table, for a caller whose look-ups must all be of one version."""
    return <const IndexTable *>atomic_load_pointer(<void **>&index.table)

# Prefetching, for `prefetch` hooks: table_fetch_slot prefetches the slot of the name (or of its ancestor with most_labels labels), and
# table_fetch_node, called later, the node in that slot. False: there is no node to prefetch.
cdef void table_fetch_slot(const IndexTable *table, const Name *name) noexcept nogil
cdef bint table_fetch_node(const IndexTable *table, const Name *name) noexcept nogil
# index_exact, index_wildcard and index_find on a table from index_current.
cdef IndexNode *table_exact(const IndexTable *table, const uint8_t *lower, uint32_t length, uint32_t hash) noexcept nogil
cdef IndexNode *table_wildcard(const IndexTable *table, const uint8_t *suffix, uint32_t length) noexcept nogil  # "*" below a lower-case name
cdef IndexOutcome table_find(const IndexTable *table, const IndexCore *index, const Name *name, uint16_t qtype, IndexResult *out) noexcept nogil

# The node of exactly this name (wire form in lower case and its wire_name_hash), or NULL.
cdef IndexNode *index_exact(const IndexCore *index, const uint8_t *lower, uint32_t length, uint32_t hash) noexcept nogil
# The node of the name with its first label replaced by "*", or NULL.
cdef IndexNode *index_wildcard(const IndexCore *index, const Name *name) noexcept nogil
# Authoritative look-up of a name and type (RFC 1034 4.3.2, RFC 4592, RFC 6672). Not for flat indexes.
cdef IndexOutcome index_find(const IndexCore *index, const Name *name, uint16_t qtype, IndexResult *out) noexcept nogil

cdef inline int reply_add_rrset(Reply *reply, int section, const uint8_t *owner, uint8_t owner_length, const IndexNode *node,
                                const RRset *rrset) noexcept nogil:
    """Adds all records of an RRset in class IN; owner and rdata are borrowed. 0, or -1 when the reply is full."""
    cdef IndexRecord record
    cdef const uint8_t *entry = NULL
    cdef uint32_t _i
    for _i in range(rrset.count):
        entry = rrset_record(node, rrset, entry, &record)
        if reply_add_record(reply, section, owner, owner_length, record.type, CLASS_IN, record.ttl, record.rdata, record.rdlength) < 0:
            return -1
    return 0

# ---- snapshots ----

# Compares lower-case names in canonical order (RFC 4034 6.1): below 0, 0 or above 0.
cdef int compare_names(const uint8_t *a, const uint8_t *b) noexcept nogil

# The nodes that have records; sorted: in canonical order, else those of a file by their place. Takes the writer's lock, so workers must not call it. NULL:
# out of memory.
cdef IndexSnapshot *index_snapshot(IndexCore *index, bint sorted) noexcept nogil
# For who reads all nodes, one after the other: called for each, it has the process forget what it has read of a file from time to time.
cdef void snapshot_read(const IndexSnapshot *snapshot, uint32_t i) noexcept nogil
# Frees a snapshot, from any thread.
cdef void snapshot_release(IndexSnapshot *snapshot) noexcept nogil

cdef class Index:
    cdef IndexCore *core
    cdef readonly object origin
    cdef object __weakref__
    cdef int _load(self, object name, Name *out) except -1
    cdef int _publish(self, IndexTable **table, object name, object records) except -1
