"""Chains of nodes in order, for denial of existence. A chain is an array of chunks; versions of a zone share the chunks in which they do not differ.

A chain is constant once workers can read it. A new version begins with `chain_share`, and `chain_put` and `chain_remove` copy a chunk that another
chain has before they change it.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.index.nodes cimport IndexNode

cdef struct OrderedNode:        # of a chain, in the order of key and name
    uint64_t key                # of a name with NSEC: first octets of the labels below the origin, rightmost label first; with NSEC3: of the hash
    const IndexNode *node

cdef struct ChainChunk:         # a part of one or more chains; constant as soon as two have it
    uint32_t refs               # atomic
    uint32_t count
    uint32_t capacity
    OrderedNode nodes[1]

cdef struct ChainPart:
    uint64_t key                # of the first node
    ChainChunk *chunk

cdef struct Chain:              # nodes with NSEC or NSEC3 records
    uint32_t count              # of nodes
    uint32_t parts_count
    uint32_t capacity
    uint32_t copied             # nodes copied while the chain was changed
    ChainPart *parts

# The last node at or before a key and lower-case name, or else the last one of all: chains are circular. NULL: the chain is empty.
cdef const IndexNode *chain_before(const Chain *chain, uint64_t key, const uint8_t *lower) noexcept nogil
# Sorts the nodes and makes a chain of them. 0, or -1: out of memory.
cdef int chain_build(Chain *chain, OrderedNode *nodes, uint32_t count) noexcept nogil
# Makes an empty chain equal to another one. 0, or -1: out of memory.
cdef int chain_share(Chain *chain, const Chain *other) noexcept nogil
# Puts a node, in the place of one with the same name. 0, or -1: out of memory.
cdef int chain_put(Chain *chain, uint64_t key, const IndexNode *node) noexcept nogil
# Removes the node of a name, if there is one. 0, or -1: out of memory.
cdef int chain_remove(Chain *chain, uint64_t key, const uint8_t *lower) noexcept nogil
cdef void chain_free(Chain *chain) noexcept nogil
