"""Chains of nodes in order. The contract is in index/chain.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy, memmove
from fastdns.system.atomic cimport atomic_add32, atomic_load32
from fastdns.index.index cimport compare_names
from fastdns.index.nodes cimport IndexNode

cdef enum:
    CHUNK_NODES = 256           # most of a chunk
    CHUNK_FILLED = 192          # of a chunk that is made with others at once
    CHUNK_FEW = 64              # a chunk with fewer is merged with the one before it, if both have at most CHUNK_FILLED


# ---- look-up ----

cdef inline int order(const OrderedNode *entry, uint64_t key, const uint8_t *lower) noexcept nogil:
    if entry.key != key:
        return -1 if entry.key < key else 1
    return compare_names(entry.node.name, lower)


cdef uint32_t find_part(const Chain *chain, uint64_t key, const uint8_t *lower) noexcept nogil:
    """The number of parts that begin at or before the name."""
    cdef uint32_t low = 0, high = chain.parts_count, middle
    cdef const ChainPart *part
    while low < high:
        middle = low + (high - low) // 2
        part = &chain.parts[middle]
        if part.key < key or part.key == key and compare_names(part.chunk.nodes[0].node.name, lower) <= 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef uint32_t find_node(const ChainChunk *chunk, uint64_t key, const uint8_t *lower) noexcept nogil:
    """The number of nodes at or before the name."""
    cdef uint32_t low = 0, high = chunk.count, middle
    while low < high:
        middle = low + (high - low) // 2
        if order(&chunk.nodes[middle], key, lower) <= 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef const IndexNode *chain_before(const Chain *chain, uint64_t key, const uint8_t *lower) noexcept nogil:
    cdef uint32_t part
    cdef const ChainChunk *chunk
    if chain.count == 0:
        return NULL
    part = find_part(chain, key, lower)
    if part == 0:
        chunk = chain.parts[chain.parts_count - 1].chunk
        return chunk.nodes[chunk.count - 1].node
    chunk = chain.parts[part - 1].chunk
    return chunk.nodes[find_node(chunk, key, lower) - 1].node


# ---- chunks ----

cdef ChainChunk *make_chunk(const OrderedNode *nodes, uint32_t count, uint32_t capacity) noexcept nogil:
    cdef ChainChunk *chunk = <ChainChunk *>malloc(sizeof(ChainChunk) + capacity * sizeof(OrderedNode))
    if chunk != NULL:
        chunk.refs = 1
        chunk.count = count
        chunk.capacity = capacity
        memcpy(chunk.nodes, nodes, count * sizeof(OrderedNode))
    return chunk


cdef void release(ChainChunk *chunk) noexcept nogil:
    if atomic_add32(&chunk.refs, <uint32_t>-1) == 0:
        free(chunk)


cdef int insert_part(Chain *chain, uint32_t at, ChainChunk *chunk) noexcept nogil:
    cdef void *grown
    if chain.parts_count == chain.capacity:
        grown = realloc(chain.parts, (<uint64_t>chain.capacity * 2 + 4) * sizeof(ChainPart))
        if grown == NULL:
            return -1
        chain.parts = <ChainPart *>grown
        chain.capacity = chain.capacity * 2 + 4
    memmove(&chain.parts[at + 1], &chain.parts[at], (chain.parts_count - at) * sizeof(ChainPart))
    chain.parts[at].chunk = chunk
    chain.parts[at].key = chunk.nodes[0].key
    chain.parts_count += 1
    return 0


cdef void remove_part(Chain *chain, uint32_t at) noexcept nogil:
    release(chain.parts[at].chunk)
    chain.parts_count -= 1
    memmove(&chain.parts[at], &chain.parts[at + 1], (chain.parts_count - at) * sizeof(ChainPart))


cdef int own(Chain *chain, ChainPart *part, uint32_t more) noexcept nogil:
    """Gives the part a chunk that no other chain has, with room for so many more nodes."""
    cdef ChainChunk *chunk = part.chunk
    cdef uint32_t capacity
    if atomic_load32(&chunk.refs) == 1 and chunk.capacity - chunk.count >= more:
        return 0
    capacity = chunk.count + more
    if more:
        capacity = min(capacity + 15, <uint32_t>CHUNK_NODES)
    chunk = make_chunk(chunk.nodes, chunk.count, capacity)
    if chunk == NULL:
        return -1
    chain.copied += chunk.count
    release(part.chunk)
    part.chunk = chunk
    return 0


cdef int split(Chain *chain, uint32_t at) noexcept nogil:
    """Halves a full chunk."""
    cdef const ChainChunk *chunk = chain.parts[at].chunk
    cdef uint32_t half = chunk.count // 2
    cdef ChainChunk *upper = make_chunk(&chunk.nodes[half], chunk.count - half, CHUNK_NODES)
    cdef ChainChunk *lower = make_chunk(chunk.nodes, half, CHUNK_NODES)
    if upper == NULL or lower == NULL or insert_part(chain, at + 1, upper) < 0:
        free(upper)
        free(lower)
        return -1
    chain.copied += chunk.count
    release(chain.parts[at].chunk)
    chain.parts[at].chunk = lower
    return 0


cdef int merge(Chain *chain, uint32_t at) noexcept nogil:
    """Puts the nodes of a part behind those of the one before it."""
    cdef const ChainChunk *chunk = chain.parts[at].chunk
    cdef ChainPart *before = &chain.parts[at - 1]
    if before.chunk.count + chunk.count > CHUNK_FILLED:
        return 0
    if own(chain, before, chunk.count) < 0:
        return -1
    memcpy(&before.chunk.nodes[before.chunk.count], chunk.nodes, chunk.count * sizeof(OrderedNode))
    before.chunk.count += chunk.count
    chain.copied += chunk.count
    remove_part(chain, at)
    return 0


# ---- chains ----

cdef int compare_ordered(const void *a, const void *b) noexcept nogil:
    cdef const OrderedNode *other = <const OrderedNode *>b
    return order(<const OrderedNode *>a, other.key, other.node.name)


cdef int chain_build(Chain *chain, OrderedNode *nodes, uint32_t count) noexcept nogil:
    cdef uint32_t at = 0, filled
    cdef ChainChunk *chunk
    qsort(nodes, count, sizeof(OrderedNode), compare_ordered)
    while at < count:
        filled = min(count - at, <uint32_t>CHUNK_FILLED)
        chunk = make_chunk(&nodes[at], filled, filled)
        if chunk == NULL:
            return -1
        if insert_part(chain, chain.parts_count, chunk) < 0:
            free(chunk)
            return -1
        at += filled
    chain.count = count
    return 0


cdef int chain_share(Chain *chain, const Chain *other) noexcept nogil:
    cdef uint32_t i
    if other.parts_count == 0:
        return 0
    chain.parts = <ChainPart *>malloc(other.parts_count * sizeof(ChainPart))
    if chain.parts == NULL:
        return -1
    memcpy(chain.parts, other.parts, other.parts_count * sizeof(ChainPart))
    for i in range(other.parts_count):
        atomic_add32(&chain.parts[i].chunk.refs, 1)
    chain.parts_count = other.parts_count
    chain.capacity = other.parts_count
    chain.count = other.count
    return 0


cdef int chain_put(Chain *chain, uint64_t key, const IndexNode *node) noexcept nogil:
    cdef OrderedNode entry
    cdef ChainChunk *chunk
    cdef uint32_t part, at
    entry.key = key
    entry.node = node
    if chain.parts_count == 0:
        chunk = make_chunk(&entry, 1, 16)
        if chunk == NULL or insert_part(chain, 0, chunk) < 0:
            free(chunk)
            return -1
        chain.count = 1
        return 0
    part = find_part(chain, key, node.name)
    part -= part > 0
    chunk = chain.parts[part].chunk
    at = find_node(chunk, key, node.name)
    if at and order(&chunk.nodes[at - 1], key, node.name) == 0:
        if own(chain, &chain.parts[part], 0) < 0:
            return -1
        chain.parts[part].chunk.nodes[at - 1].node = node
        return 0
    if chunk.count == CHUNK_NODES:
        if split(chain, part) < 0:
            return -1
        return chain_put(chain, key, node)
    if own(chain, &chain.parts[part], 1) < 0:
        return -1
    chunk = chain.parts[part].chunk
    memmove(&chunk.nodes[at + 1], &chunk.nodes[at], (chunk.count - at) * sizeof(OrderedNode))
    chunk.nodes[at] = entry
    chunk.count += 1
    chain.parts[part].key = chunk.nodes[0].key
    chain.count += 1
    return 0


cdef int chain_remove(Chain *chain, uint64_t key, const uint8_t *lower) noexcept nogil:
    cdef uint32_t part = find_part(chain, key, lower), at
    cdef ChainChunk *chunk
    if part == 0:
        return 0
    part -= 1
    chunk = chain.parts[part].chunk
    at = find_node(chunk, key, lower)
    if at == 0 or order(&chunk.nodes[at - 1], key, lower) != 0:
        return 0
    chain.count -= 1
    if chunk.count == 1:
        remove_part(chain, part)
        return 0
    if own(chain, &chain.parts[part], 0) < 0:
        return -1
    chunk = chain.parts[part].chunk
    chunk.count -= 1
    memmove(&chunk.nodes[at - 1], &chunk.nodes[at], (chunk.count + 1 - at) * sizeof(OrderedNode))
    chain.parts[part].key = chunk.nodes[0].key
    return merge(chain, part) if part and chunk.count < CHUNK_FEW else 0


cdef void chain_free(Chain *chain) noexcept nogil:
    cdef uint32_t i
    for i in range(chain.parts_count):
        release(chain.parts[i].chunk)
    free(chain.parts)
