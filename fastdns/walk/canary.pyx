"""Which of two configurations a client gets. The contract is in canary.pxd."""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.system.hash cimport hash_octets


cdef ChainSet *canary_choose(const Query *q, ChainSet *set, const Canary *canary, uint32_t listener) noexcept nogil:
    # Not the port: what a client asks over any transport, from any port, gets the same configuration.
    cdef uint64_t hash = hash_octets(q.client.octets, 4 if q.client.family == 4 else 16, canary.key)
    if (hash >> 32) < canary.threshold and canary.set.servers[listener] != NULL:
        return canary.set
    return set
