"""Unpredictable numbers for ids, ports and probe names: ChaCha20 keyed from getrandom(2), a generator for each thread that asks."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef struct Random:
    uint32_t key[8]
    uint64_t counter
    uint32_t block[16]
    uint32_t used                   # words of block given out; 16: make a new one
    uint32_t pid                    # of the process that keyed it (fork-safe)

cdef void random_init(Random *random) noexcept nogil        # keys it; aborts the process if the kernel gives no randomness
cdef uint32_t random_next(Random *random) noexcept nogil
cdef inline uint32_t random_below(Random *random, uint32_t n) noexcept nogil:
    """Uniform below n (n > 0), up to a bias of n / 2**32."""
    return <uint32_t>((<uint64_t>random_next(random) * n) >> 32)
