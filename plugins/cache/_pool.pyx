"""Memory of one cache. The contract is in _pool.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uintptr_t
from fastdns.api.memory cimport debug_freed, debug_made

cdef extern from "<sys/mman.h>" nogil:
    void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
    int munmap(void *address, size_t length)
    void *MAP_FAILED
    enum: PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS

cdef enum:
    HEAD = 64                   # octets kept for the Slab in front of the blocks
    PAGE = 4096

cdef uint32_t[SIZES] SIZE = [192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 16320]


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
    slab = pool.room[kind]
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
        unlink(pool, slab)
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
        link(pool, slab)
    if slab.used == 0:
        unlink(pool, slab)
        if pool.spares < SPARE_SLABS:
            slab.next = pool.spare
            pool.spare = slab
            pool.spares += 1
        else:
            unmap_slab(pool, slab, SLAB)


cdef void pool_trim(Pool *pool) noexcept nogil:
    cdef Slab *slab
    while pool.spare != NULL:
        slab = pool.spare
        pool.spare = slab.next
        pool.spares -= 1
        unmap_slab(pool, slab, SLAB)


# ---- slabs ----

cdef Slab *new_slab(Pool *pool, uint32_t kind) noexcept nogil:
    cdef Slab *slab = pool.spare
    if slab != NULL:
        pool.spare = slab.next
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
    link(pool, slab)
    return slab


cdef void link(Pool *pool, Slab *slab) noexcept nogil:
    slab.previous = NULL
    slab.next = pool.room[slab.kind]
    if slab.next != NULL:
        slab.next.previous = slab
    pool.room[slab.kind] = slab


cdef void unlink(Pool *pool, Slab *slab) noexcept nogil:
    if slab.previous != NULL:
        slab.previous.next = slab.next
    else:
        pool.room[slab.kind] = slab.next
    if slab.next != NULL:
        slab.next.previous = slab.previous


cdef Slab *map_slab(Pool *pool, uint32_t size) noexcept nogil:
    """Maps `size` octets (whole pages) at a multiple of SLAB."""
    cdef void *memory
    cdef uintptr_t start, slab
    if pool.mapped + size > pool.ceiling:
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
