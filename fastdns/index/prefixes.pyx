"""Sets of networks. The contract is in index/prefixes.pxd."""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.system.address cimport Address


cdef class PrefixTree:
    def __init__(self, networks):
        found = {}
        for (octets, bits), value in networks.items():
            if len(octets) not in (4, 16) or not 0 <= bits <= 8 * len(octets) or not 0 < value <= 0xFFFFFFFF:
                raise ValueError(f"no network: {octets!r}/{bits} = {value}")
            size = 8 * len(octets)
            address = int.from_bytes(octets, "big") >> (size - bits) << (size - bits) << (128 - size)
            if found.setdefault((size, address, bits), value) != value:
                raise ValueError(f"the network {octets!r}/{bits} twice")
        ordered = sorted((size, address, bits, value) for (size, address, bits), value in found.items())
        fours = sum(size == 32 for size, _, _, _ in ordered)
        # A binary tree with a leaf for each network has fewer inner nodes than leaves.
        self.nodes = <PrefixNode *>calloc(2 * len(ordered) + 1, sizeof(PrefixNode))
        if self.nodes == NULL:
            raise MemoryError
        self.used = 1
        self.prefixes.nodes = self.nodes
        self.prefixes.root[0] = self.make(ordered, 0, fours, 32)
        self.prefixes.root[1] = self.make(ordered, fours, <uint32_t>len(ordered), 128)

    def __dealloc__(self):
        free(self.nodes)

    cdef uint32_t make(self, list networks, uint32_t first, uint32_t end, uint32_t size) except? 0:
        """Builds the tree of networks[first:end], which are sorted; returns the index of its root. Its depth is at most 129."""
        cdef PrefixNode *node
        cdef uint32_t place = self.used, split, bits
        if first == end:
            return 0
        _, address, least, value = networks[first]
        # The networks are sorted: the common prefix of the first and the last is that of all.
        differing = (address ^ networks[end - 1][1]).bit_length()
        bits = min(least, 128 - differing)
        mask = mask_of(bits)
        self.used += 1
        node = &self.nodes[place]
        node.bits = <unsigned char>bits
        node.high = <uint64_t>((address & mask) >> 64)
        node.low = <uint64_t>(address & mask & 0xFFFFFFFFFFFFFFFF)
        node.high_mask = <uint64_t>(mask >> 64)
        node.low_mask = <uint64_t>(mask & 0xFFFFFFFFFFFFFFFF)
        if bits == least:           # the first network contains the others
            node.value = value
            first += 1
        if bits < size:
            split = parting(networks, first, end, 127 - bits)
            node.child[0] = self.make(networks, first, split, size)
            node.child[1] = self.make(networks, split, end, size)
        return place

    def find(self, bytes octets not None):
        cdef Address address
        cdef PrefixKey key
        cdef const PrefixNode *node
        if len(octets) not in (4, 16):
            raise ValueError("no address")
        memset(&address, 0, sizeof(address))
        address.family = 4 if len(octets) == 4 else 6
        memcpy(address.octets, <const unsigned char *>octets, len(octets))
        found = []
        node = prefixes_first(&self.prefixes, &address, &key)
        while node != NULL:
            if node.value:
                found.append(node.value)
            node = prefixes_next(&self.prefixes, node, &key)
        return found


cdef object mask_of(object bits):
    return ((1 << bits) - 1) << (128 - bits)


cdef uint32_t parting(list networks, uint32_t first, uint32_t end, object bit) except? 0xFFFFFFFF:
    """Index of the first network that has this bit set; the networks are sorted."""
    cdef uint32_t middle
    while first < end:
        middle = first + (end - first) // 2
        if networks[middle][1] >> bit & 1:
            end = middle
        else:
            first = middle + 1
    return first
