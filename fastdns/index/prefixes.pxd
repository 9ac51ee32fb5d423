"""Sets of networks: a compressed radix tree over address prefixes. A look-up gives the networks that contain an address, the widest first.

IPv4 and IPv6 have a tree each. A node is a network of the set, or the longest common prefix of two of them.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.system.address cimport Address

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t prefix_load(const uint8_t *octets) {
        uint64_t v;
        memcpy(&v, octets, 8);
        return __builtin_bswap64(v);    /* every machine that this is built for is little-endian */
    }
    """
    uint64_t prefix_load(const uint8_t *octets) noexcept nogil

cdef struct PrefixNode:
    uint64_t high               # the network's octets, in host order; IPv4 in the upper half of high
    uint64_t low
    uint64_t high_mask
    uint64_t low_mask
    uint32_t child[2]           # by the bit behind the prefix: indexes into Prefixes.nodes; 0: none
    uint32_t value              # the network's number; 0: a common prefix, not a network of the set
    uint8_t bits                # length of the prefix

cdef struct PrefixKey:          # an address in host byte order
    uint64_t high
    uint64_t low

cdef struct Prefixes:           # owned by a PrefixTree; constant
    const PrefixNode *nodes     # nodes[0] is unused
    uint32_t root[2]            # indexes of the roots of IPv4 and IPv6; 0: no network

cdef inline const PrefixNode *prefix_fitting(const Prefixes *prefixes, uint32_t place, const PrefixKey *key) noexcept nogil:
    """The node at index `place` if its prefix contains the address, or NULL."""
    cdef const PrefixNode *node = &prefixes.nodes[place]
    if place == 0 or ((key.high ^ node.high) & node.high_mask) | ((key.low ^ node.low) & node.low_mask):
        return NULL
    return node

cdef inline const PrefixNode *prefixes_first(const Prefixes *prefixes, const Address *address, PrefixKey *key) noexcept nogil:
    """The widest node that contains the address, or NULL. Sets key for prefixes_next. The caller skips nodes with value 0."""
    if address.family == 4:
        key.high = prefix_load(address.octets) & <uint64_t>0xFFFFFFFF00000000
        key.low = 0
        return prefix_fitting(prefixes, prefixes.root[0], key)
    key.high = prefix_load(address.octets)
    key.low = prefix_load(&address.octets[8])
    return prefix_fitting(prefixes, prefixes.root[1], key)

cdef inline const PrefixNode *prefixes_next(const Prefixes *prefixes, const PrefixNode *node, const PrefixKey *key) noexcept nogil:
    """The next narrower node that contains the address, or NULL. An address is in at most 129 nodes."""
    cdef uint64_t bit
    if node.bits < 64:
        bit = key.high >> (63 - node.bits)
    elif node.bits < 128:
        bit = key.low >> (127 - node.bits)
    else:
        return NULL
    return prefix_fitting(prefixes, node.child[bit & 1], key)

cdef class PrefixTree:          # PrefixTree({(octets, bits): value}); a handler that uses `prefixes` holds a reference
    cdef Prefixes prefixes
    cdef PrefixNode *nodes
    cdef uint32_t used
    cdef uint32_t make(self, list networks, uint32_t first, uint32_t end, uint32_t size) except? 0
