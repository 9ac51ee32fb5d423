"""Memory of one cache: blocks of a few sizes out of slabs, so that it stays bounded and entries of one size do not fragment that of another.

A slab serves one size until it is empty again; then it may serve any, or goes back to the kernel. What is counted is what is mapped. The caller
holds the pool's lock, which only workers take.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.api.memory cimport List, ListNode

cdef enum:
    SLAB = 65536                # octets, and its alignment
    SIZES = 18
    SPARE_SLABS = 4             # empty ones kept for the next need

cdef struct Block:              # a free one
    Block *next

cdef struct Slab:               # the head of one, or of a block too large for any slab (size is then its mapping's)
    ListNode node               # first; of the slabs of this size that have free blocks, or of the spare ones
    Block *free
    uint32_t used               # blocks given out
    uint32_t fresh              # offset of what was never given out
    uint32_t kind               # index of the size; SIZES for one large block
    uint32_t size               # octets of a block, or of the whole mapping

cdef struct Pool:
    uint32_t lock
    uint32_t spares
    List usable[SIZES]          # slabs with free blocks
    List spare                  # `spares` empty ones
    uint64_t mapped             # octets
    uint64_t ceiling            # octets; atomic

cdef void pool_init(Pool *pool, uint64_t ceiling) noexcept nogil
# A block of at least `size` octets, aligned to 16, or NULL: the ceiling is reached, or memory is out.
cdef void *pool_take(Pool *pool, uint32_t size) noexcept nogil
cdef void pool_give(Pool *pool, void *block) noexcept nogil
# Unmaps the spare slabs. With every block given back nothing is left.
cdef void pool_trim(Pool *pool) noexcept nogil
