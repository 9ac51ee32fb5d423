"""The process's seed of hashes; see system/hash.pxd."""
from libc.stdint cimport uint64_t
from fastdns.system.random cimport Random, random_init, random_next

cdef uint64_t hash_seed[2]


cdef void seed_hash() noexcept:
    cdef Random random
    cdef int i
    random_init(&random)
    for i in range(2):
        hash_seed[i] = (<uint64_t>random_next(&random) << 32) | random_next(&random) | 1

seed_hash()
