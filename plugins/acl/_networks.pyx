"""Ranges of addresses; see _networks.pxd."""
from fastdns.api.memory cimport blocks_take
from fastdns.plugins.acl.ranges import ranges_of


cdef void *take(Blocks *blocks, size_t size, size_t *taken) except NULL:
    cdef void *memory = blocks_take(blocks, size)
    if memory == NULL:
        raise MemoryError
    taken[0] += size
    return memory


cdef size_t networks_set(Networks *networks, Blocks *blocks, dict given, union) except 0:
    cdef size_t taken = 0, i
    cdef uint32_t *four
    cdef uint32_t *sets
    cdef uint64_t *six
    found = ranges_of(given, 4, union)
    networks.four_count = <uint32_t>len(found)
    four = <uint32_t *>take(blocks, len(found) * sizeof(uint32_t), &taken)
    sets = <uint32_t *>take(blocks, len(found) * sizeof(uint32_t), &taken)
    networks.four, networks.four_sets = four, sets
    for i, (first, number) in enumerate(found):
        four[i], sets[i] = first, number
    found = ranges_of(given, 16, union)
    networks.six_count = <uint32_t>len(found)
    six = <uint64_t *>take(blocks, 2 * len(found) * sizeof(uint64_t), &taken)
    sets = <uint32_t *>take(blocks, len(found) * sizeof(uint32_t), &taken)
    networks.six, networks.six_sets = six, sets
    for i, (first, number) in enumerate(found):
        six[2 * i], six[2 * i + 1], sets[i] = first >> 64, first & 0xFFFFFFFFFFFFFFFF, number
    return taken
