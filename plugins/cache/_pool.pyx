"""Memory of one cache. The contract is in _pool.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from fastdns.api.memory cimport atomic_peek64, debug_freed, debug_made, list_first, list_init, list_is_empty, list_prepend, list_remove

cdef extern from "<sys/mman.h>" nogil:
    void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
    int munmap(void *address, size_t length)
    void *MAP_FAILED
    enum: PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS

cdef enum:
    HEAD = 64                   # octets kept for the Slab in front of the blocks
    PAGE = 4096

cdef uint32_t[SIZES] SIZE = [192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 16320]


cdef void pool_init(Pool *pool, uint64_t ceiling) noexcept nogil:
    cdef uint32_t kind
    for kind in range(SIZES):
        list_init(&pool.usable[kind])
    list_init(&pool.spare)
    pool.ceiling = ceiling


cdef void *pool_take(Pool *pool, uint32_t size) noexcept nogil:
    cdef uint32_t kind = 0
    cdef Slab *slab
    cdef Block *block
    while kind < SIZES and SIZE[kind] < size:
        kind += 1
    if kind == SIZES:
        slab = map_slab(pool, (size + HEAD + PAGE - 1) & ~<uint32_t>(PAGE - 1))
        if slab == NULL:
            return NULL
        slab.kind = SIZES
        debug_made("entries")
        return <uint8_t *>slab + HEAD
    slab = <Slab *>list_first(&pool.usable[kind])
    if slab == NULL:
        slab = new_slab(pool, kind)
        if slab == NULL:
            return NULL
    block = slab.free
    if block != NULL:
        slab.free = block.next
    else:
        block = <Block *>(<uint8_t *>slab + slab.fresh)
        slab.fresh += slab.size
    slab.used += 1
    if slab.free == NULL and slab.fresh + slab.size > SLAB:
        list_remove(&slab.node)
    debug_made("entries")
    return block


cdef void pool_give(Pool *pool, void *memory) noexcept nogil:
    cdef Slab *slab = <Slab *>(<uintptr_t>memory & ~<uintptr_t>(SLAB - 1))
    cdef Block *block = <Block *>memory
    cdef bint full
    debug_freed("entries")
    if slab.kind == SIZES:
        unmap_slab(pool, slab, slab.size)
        return
    full = slab.free == NULL and slab.fresh + slab.size > SLAB
    block.next = slab.free
    slab.free = block
    slab.used -= 1
    if full:
        list_prepend(&pool.usable[slab.kind], &slab.node)
    if slab.used == 0:
        list_remove(&slab.node)
        if pool.spares < SPARE_SLABS:
            list_prepend(&pool.spare, &slab.node)
            pool.spares += 1
        else:
            unmap_slab(pool, slab, SLAB)


cdef void pool_trim(Pool *pool) noexcept nogil:
    cdef Slab *slab
    while not list_is_empty(&pool.spare):
        slab = <Slab *>list_first(&pool.spare)
        list_remove(&slab.node)
        pool.spares -= 1
        unmap_slab(pool, slab, SLAB)


# ---- slabs ----

cdef Slab *new_slab(Pool *pool, uint32_t kind) noexcept nogil:
    cdef Slab *slab = <Slab *>list_first(&pool.spare)
    if slab != NULL:
        list_remove(&slab.node)
        pool.spares -= 1
    else:
        slab = map_slab(pool, SLAB)
        if slab == NULL:
            return NULL
    slab.free = NULL
    slab.used = 0
    slab.fresh = HEAD
    slab.kind = kind
    slab.size = SIZE[kind]
    list_prepend(&pool.usable[kind], &slab.node)
    return slab


cdef Slab *map_slab(Pool *pool, uint32_t size) noexcept nogil:
    """Maps `size` octets (whole pages) at a multiple of SLAB."""
    cdef void *memory
    cdef uintptr_t start, slab
    if pool.mapped + size > atomic_peek64(&pool.ceiling):
        return NULL
    memory = mmap(NULL, <size_t>size + SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if memory == MAP_FAILED:
        return NULL
    start = <uintptr_t>memory
    slab = (start + SLAB - 1) & ~<uintptr_t>(SLAB - 1)
    if slab > start:
        munmap(memory, slab - start)
    if start + SLAB > slab:
        munmap(<void *>(slab + size), start + SLAB - slab)
    pool.mapped += size
    (<Slab *>slab).size = size
    return <Slab *>slab


cdef void unmap_slab(Pool *pool, Slab *slab, uint32_t size) noexcept nogil:
    pool.mapped -= size
    munmap(<void *>slab, size)
