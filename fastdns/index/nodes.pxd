"""What the record index is made of: a table of slots, nodes that are one block each, RRsets as ready wire. See index/index.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from fastdns.system.epoch cimport EpochTicket
from fastdns._wire cimport Name

cdef enum:                      # IndexNode.flags
    NODE_APEX = 1               # the origin of the index
    NODE_CUT = 2                # NS below the apex: a delegation
    NODE_WILDCARD = 4           # the name "*" stands directly below (not kept in a flat index)
    NODE_DNAME = 8
    NODE_CNAME = 16
    NODE_HASHED = 32            # NSEC3 and its signatures alone: no name of the zone (RFC 5155 7.2.8)

cdef enum:                      # results of index_put and its like
    INDEX_OK = 0
    INDEX_MEMORY = -1
    INDEX_OUTSIDE = -2          # not at or below the origin
    INDEX_TYPES = -3            # more than INDEX_TYPES_MAX types at one name
    INDEX_RECORDS = -4          # more than 65,535 records of one type

cdef enum:
    INDEX_TYPES_MAX = 100
    ENTRY_HEAD = 6              # octets of a record before its rdata: TTL and length, in the machine's byte order
    RETIRED_BLOCKS = 250        # of one ticket
    NODE_HEAD = 13              # octets of a node before its name

cdef struct RRset:
    uint16_t type
    uint16_t count              # records
    uint32_t offset             # of the first record in the node: ENTRY_HEAD, rdata; the next one follows at once

cdef struct IndexNode:
    uint32_t refs               # the index and the snapshots that hold it (atomic)
    uint32_t children           # nodes one label below; the writer's
    uint16_t rrsets             # 0: an empty non-terminal
    uint8_t flags
    uint8_t labels
    uint8_t length              # of the name
    uint8_t name[3]             # lower case; goes on for `length` octets; then, aligned to 4, RRset[rrsets]

cdef struct IndexSlot:
    uint32_t hash
    uint32_t unused
    IndexNode *node             # NULL: free, ends a probe; (IndexNode *)1: removed, does not

cdef struct IndexTable:
    uint32_t capacity           # slots
    uint32_t live               # nodes, empty non-terminals included
    uint32_t used               # slots that are not free
    uint32_t names              # nodes with records
    uint32_t cuts               # nodes with NODE_CUT or NODE_DNAME
    uint8_t cut_least           # labels that such nodes have, at least and at most
    uint8_t cut_most
    uint8_t most_labels         # of any name
    uint8_t shared              # readers may see it
    uint64_t records
    uint64_t bytes              # of nodes and table, as malloc rounds them
    void *annex                 # what belongs to this version of a zone (_zone); goes with the table
    void (*annex_free)(void *annex) noexcept nogil
    IndexSlot slots[1]

cdef struct Retired:             # unlinked blocks that wait for their grace period
    Retired *next
    EpochTicket ticket
    uint64_t bytes
    uint32_t count
    uintptr_t blocks[RETIRED_BLOCKS]    # what each is stands in its low bits

cdef struct IndexCore:          # stands as long as its Index
    IndexTable *table           # atomic
    uint8_t flat
    Name origin
    Retired *filling            # blocks of the change at work
    Retired *oldest             # sealed, with their tickets
    Retired *newest
    uint32_t sealed
    uint64_t pending            # octets unlinked and not yet freed
    void *mutex                 # one writer at a time

cdef struct IndexRecord:        # what writers hand over; copied
    const uint8_t *rdata
    uint32_t ttl
    uint16_t type
    uint16_t rdlength

cdef inline bint is_node(const IndexNode *node) noexcept nogil:
    """Is a slot's pointer a node, neither free nor removed?"""
    return <uintptr_t>node > 1

cdef inline const RRset *node_rrsets(const IndexNode *node) noexcept nogil:
    """The node's RRsets, node.rrsets of them."""
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
    """Reads the first record (previous NULL) or the one behind previous into out; returns where it stands. Count them: there is no end mark."""
    cdef const uint8_t *entry = <const uint8_t *>node + rrset.offset
    if previous != NULL:
        memcpy(&out.rdlength, previous + 4, 2)
        entry = previous + ENTRY_HEAD + out.rdlength
    memcpy(&out.ttl, entry, 4)
    memcpy(&out.rdlength, entry + 4, 2)
    out.type = rrset.type
    out.rdata = entry + ENTRY_HEAD
    return entry
