"""Blocks of zeroed memory that live as long as their owner, an object of an extension type.

A Python list of their addresses would not do: the garbage collector may empty it before ``__dealloc__`` of an owner in a cycle.
"""
from libc.stdlib cimport calloc, free

cdef struct Block:
    Block *next
    size_t unused               # keeps what stands behind it aligned to 16 octets

cdef struct Blocks:             # begins zeroed
    Block *first


cdef inline void *blocks_take(Blocks *blocks, size_t size) noexcept nogil:
    """NULL: no memory."""
    cdef Block *block = <Block *>calloc(1, sizeof(Block) + size)
    if block == NULL:
        return NULL
    block.next = blocks.first
    blocks.first = block
    return block + 1


cdef inline void blocks_free(Blocks *blocks) noexcept nogil:
    cdef Block *block
    while blocks.first != NULL:
        block = blocks.first
        blocks.first = block.next
        free(block)
