"""Which set of policies an address has by its networks: ranges of addresses, in their order, each with the set of the narrowest network that it is in.

A network makes two more ranges at most. A look-up takes a step for each time that their number doubles, whatever the networks and the address are.
"""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.api.memory cimport Blocks
from fastdns.api.network cimport Address
from fastdns.api.wire cimport load32

cdef struct Networks:           # owned by a PolicyTable; constant
    const uint32_t *four        # the first address of each range; that of the first range is 0
    const uint32_t *four_sets   # numbers of sets
    uint32_t four_count
    uint32_t six_count
    const uint64_t *six         # likewise, two words for each: the upper one comes first
    const uint32_t *six_sets

cdef inline uint32_t range_of_four(const Networks *networks, uint32_t address) noexcept nogil:
    cdef uint32_t first = 0, count = networks.four_count, half
    while count > 1:            # the range is one of `count` from `first` on
        half = count >> 1
        first += half if networks.four[first + half] <= address else 0
        count -= half
    return first

cdef inline uint32_t range_of_six(const Networks *networks, uint64_t high, uint64_t low) noexcept nogil:
    cdef uint32_t first = 0, count = networks.six_count, half
    cdef const uint64_t *middle
    while count > 1:
        half = count >> 1
        middle = networks.six + 2 * (first + half)
        first += half if middle[0] < high or middle[0] == high and middle[1] <= low else 0
        count -= half
    return first

cdef inline uint32_t networks_find(const Networks *networks, const Address *address) noexcept nogil:
    """The number of the set; 0: it is empty."""
    if address.family == 4:
        return networks.four_sets[range_of_four(networks, load32(address.octets))]
    return networks.six_sets[range_of_six(networks, <uint64_t>load32(address.octets) << 32 | load32(&address.octets[4]),
                                          <uint64_t>load32(&address.octets[8]) << 32 | load32(&address.octets[12]))]

# Octets of the memory that was taken for networks, {(octets, bits): number of a set, not 0}: the octets of a network end with its prefix. `union` gives
# the number of the set of two. Raises MemoryError.
cdef size_t networks_set(Networks *networks, Blocks *blocks, dict given, union) except 0
