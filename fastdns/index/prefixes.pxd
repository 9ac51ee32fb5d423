"""Sets of networks: a radix tree over address prefixes, walked from the widest network that holds an address to the narrowest.

IPv4 and IPv6 have a tree each. Nodes are compressed: one step for each network on the way, and for each place where two networks part.
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
    uint32_t child[2]           # by the bit behind the prefix: places in Prefixes.nodes; 0: none
    uint32_t value              # what the network was given with; 0 where two networks merely part
    uint8_t bits

cdef struct PrefixKey:          # an address on its way through a tree
    uint64_t high
    uint64_t low

cdef struct Prefixes:           # owned by a PrefixTree; never changed
    const PrefixNode *nodes     # nodes[0] is nobody's
    uint32_t root[2]            # of IPv4 and IPv6; 0: no network

cdef inline const PrefixNode *prefix_fitting(const Prefixes *prefixes, uint32_t place, const PrefixKey *key) noexcept nogil:
    """The node at a place if its network holds the address, or NULL."""
    cdef const PrefixNode *node = &prefixes.nodes[place]
    if place == 0 or ((key.high ^ node.high) & node.high_mask) | ((key.low ^ node.low) & node.low_mask):
        return NULL
    return node

cdef inline const PrefixNode *prefixes_first(const Prefixes *prefixes, const Address *address, PrefixKey *key) noexcept nogil:
    """The widest node that holds the address, or NULL. Sets key for prefixes_next."""
    if address.family == 4:
        key.high = prefix_load(address.octets) & <uint64_t>0xFFFFFFFF00000000
        key.low = 0
        return prefix_fitting(prefixes, prefixes.root[0], key)
    key.high = prefix_load(address.octets)
    key.low = prefix_load(&address.octets[8])
    return prefix_fitting(prefixes, prefixes.root[1], key)

cdef inline const PrefixNode *prefixes_next(const Prefixes *prefixes, const PrefixNode *node, const PrefixKey *key) noexcept nogil:
    """The next narrower one that holds it, or NULL. One address has at most 129 nodes."""
    cdef uint64_t bit
    if node.bits < 64:
        bit = key.high >> (63 - node.bits)
    elif node.bits < 128:
        bit = key.low >> (127 - node.bits)
    else:
        return NULL
    return prefix_fitting(prefixes, node.child[bit & 1], key)

cdef class PrefixTree:          # PrefixTree({(octets, bits): value}); keep it as long as a handler uses `prefixes`
    cdef Prefixes prefixes
    cdef PrefixNode *nodes
    cdef uint32_t used
    cdef uint32_t make(self, list networks, uint32_t first, uint32_t end, uint32_t size) except? 0
