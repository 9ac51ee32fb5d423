"""The data structures of the record index: the table of slots, the nodes and their RRsets. The functions are in index/index.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from fastdns.system.epoch cimport EpochMark
from fastdns._wire cimport Name
from fastdns.protocol.rrtypes cimport TYPE_KEY, TYPE_NSEC, TYPE_NXT, TYPE_RRSIG, TYPE_SIG

cdef enum:                      # IndexNode.flags
    NODE_APEX = 1               # the origin of the index
    NODE_CUT = 2                # NS below the apex: a delegation
    NODE_WILDCARD = 4           # the child "*" exists (not set in a flat index)
    NODE_DNAME = 8
    NODE_CNAME = 16
    NODE_HASHED = 32            # NSEC3 and its signatures only: the owner is not a name of the zone (RFC 5155 7.2.8)
    NODE_CONFLICT = 64          # records that must not be at one name (index/conflict.pxd)
    NODE_FILED = 128            # it is in a file (index/node_file.pxd). Constant

cdef enum:                      # results of the functions that put records
    INDEX_OK = 0
    INDEX_MEMORY = -1           # out of memory
    INDEX_OUTSIDE = -2          # not at or below the origin
    INDEX_TYPES = -3            # more than INDEX_TYPES_MAX types at one name
    INDEX_RECORDS = -4          # more than 65,535 records of one type
    INDEX_BUSY = -5             # a worker has not ended its batch since the change before

cdef enum:
    INDEX_TYPES_MAX = 100
    ENTRY_HEAD = 6              # octets of a record before its rdata: TTL and rdlength, in host byte order
    RETIRED_BLOCKS = 250        # blocks that share one mark
    NODE_HEAD = 13              # octets of a node before its name
    SLOT_REMOVED = 1            # IndexSlot.node: the name was removed, a probe continues
    SLOT_CHANGING = 2           # added to IndexSlot.node: it is the address of an IndexChange
    SLOT_MARKS = 3

# Of several CNAME or DNAME records of a name the canonically smallest is the RRset. The others are in a second RRset of that type, behind it, which
# look-ups of the type do not find.
cdef struct RRset:
    uint16_t type
    uint16_t count              # records
    uint32_t offset             # of the first record in the node: ENTRY_HEAD octets, then rdata; the records are adjacent

cdef struct IndexNode:
    uint32_t refs               # atomic: references of the index and of snapshots. Of a node in a file nobody counts them
    uint32_t children           # nodes one label below; only the writer uses it
    uint16_t rrsets             # 0: an empty non-terminal
    uint8_t flags
    uint8_t labels
    uint8_t length              # of the name
    uint8_t name[3]             # `length` octets in lower case; behind them, aligned to 4, RRset[rrsets]

cdef struct IndexTable

cdef struct IndexSlot:
    uint32_t hash
    uint32_t unused
    IndexNode *node             # atomic. NULL: free, ends a probe; SLOT_REMOVED; with SLOT_CHANGING: an IndexChange

cdef struct IndexChange:        # what a slot holds between two versions that share their slots (index/edits.pxd)
    uint64_t version            # the first version that has `after`
    IndexNode *before           # NULL: the name does not exist
    IndexNode *after
    IndexSlot *slot             # NULL: the versions have slots of their own
    IndexNode *covered          # the parent, whose NODE_WILDCARD ends with `before`

cdef struct IndexChanges:       # all changes from one version to the next, until no reader has the old one
    IndexTable *before
    IndexTable *after
    uint64_t bytes
    uint32_t count
    IndexChange items[1]

cdef struct IndexTable:         # a version of the index. Versions that follow each other may share their slots
    uint64_t version
    IndexSlot *slots
    uint32_t capacity           # slots
    uint32_t live               # nodes, empty non-terminals included
    uint32_t used               # slots that are not free
    uint32_t names              # nodes with records
    uint32_t cuts               # nodes with NODE_CUT or NODE_DNAME
    uint32_t dnames             # atomic: nodes with NODE_DNAME
    uint32_t conflicts          # nodes with NODE_CONFLICT
    uint8_t cut_least           # least and greatest number of labels of such nodes
    uint8_t cut_most
    uint8_t most_labels         # greatest number of labels of any name
    uint8_t shared              # the table is published: readers can see it
    uint64_t records
    uint64_t bytes              # of nodes and table, as malloc rounds them
    void *attachment            # owned: data of this version, the ZoneVersion of index/zone.pxd; freed with the table
    void (*attachment_free)(void *attachment) noexcept nogil
    void *file                  # a NodeFile, where the nodes below the origin go (index/node_file.pxd), or NULL
    void *slot_file             # a SlotFile, which has the slots (index/slot_file.pxd), or NULL
    uint64_t work               # slots and records that writers have looked at or copied since the index was made

cdef struct Retired:            # unlinked blocks that wait for their grace period
    Retired *next
    EpochMark mark
    uint64_t bytes
    uint32_t count
    uintptr_t blocks[RETIRED_BLOCKS]    # pointers; the low two bits are the kind of block (index/publish.pyx)

cdef struct IndexCore:          # valid as long as its Index
    IndexTable *table           # atomic
    uint8_t flat
    Name origin
    Retired *filling            # blocks unlinked by the change in progress; no mark yet
    Retired *oldest             # list of those with a mark
    Retired *newest
    uint32_t sealed             # length of that list
    IndexChanges *changing      # the last change of many names, while readers may have the version before it
    uint64_t puts               # calls of index_put
    uint64_t pending            # octets unlinked and not yet freed
    void *mutex                 # held by the writer

cdef struct IndexRecord:        # a record that a writer puts; the index copies it
    const uint8_t *rdata
    uint32_t ttl
    uint16_t type
    uint16_t rdlength

cdef inline IndexNode *slot_node(const IndexTable *table, IndexNode *held) noexcept nogil:
    """The node that a slot, which holds a pointer or mark, has in a version of the table; NULL: none."""
    cdef const IndexChange *change
    if not <uintptr_t>held & SLOT_MARKS:
        return held
    if <uintptr_t>held == SLOT_REMOVED:
        return NULL
    change = <const IndexChange *>(<uintptr_t>held - SLOT_CHANGING)
    return change.after if table.version >= change.version else change.before

cdef inline const RRset *node_rrsets(const IndexNode *node) noexcept nogil:
    """The array of the node's RRsets; node.rrsets is its length."""
    return <const RRset *>(<const uint8_t *>node + ((NODE_HEAD + node.length + 3) & ~<uint32_t>3))

cdef inline const RRset *node_rrset(const IndexNode *node, uint16_t type) noexcept nogil:
    """The node's RRset of a type, or NULL."""
    cdef const RRset *rrset = node_rrsets(node)
    cdef uint32_t i
    for i in range(node.rrsets):
        if rrset[i].type == type:
            return &rrset[i]
    return NULL

cdef inline const uint8_t *rrset_record(const IndexNode *node, const RRset *rrset, const uint8_t *previous, IndexRecord *out) noexcept nogil:
    """Reads the first record (previous NULL) or the one behind previous into out. Returns its address, which is `previous` of the next call.
    The caller counts the records (rrset.count)."""
    cdef const uint8_t *entry = <const uint8_t *>node + rrset.offset
    if previous != NULL:
        memcpy(&out.rdlength, previous + 4, 2)
        entry = previous + ENTRY_HEAD + out.rdlength
    memcpy(&out.ttl, entry, 4)
    memcpy(&out.rdlength, entry + 4, 2)
    out.type = rrset.type
    out.rdata = entry + ENTRY_HEAD
    return entry

cdef inline bint is_beside_cname(uint16_t type) noexcept nogil:
    """May records of the type be at a name that has a CNAME record (RFC 2181 10.1, RFC 4034 3 and 4)?"""
    return type == TYPE_RRSIG or type == TYPE_NSEC or type == TYPE_SIG or type == TYPE_KEY or type == TYPE_NXT

cdef inline int alias_order(const uint8_t *a, uint32_t a_length, const uint8_t *b, uint32_t b_length) noexcept nogil:
    """Canonical order of the rdata of two CNAME or DNAME records (RFC 4034 6.3): below 0, 0 or above 0. The octets of lengths are not letters."""
    cdef uint32_t i
    cdef uint8_t x, y
    for i in range(min(a_length, b_length)):
        x = a[i] | 32 if a[i] >= c'A' and a[i] <= c'Z' else a[i]
        y = b[i] | 32 if b[i] >= c'A' and b[i] <= c'Z' else b[i]
        if x != y:
            return <int>x - <int>y
    return <int>a_length - <int>b_length
