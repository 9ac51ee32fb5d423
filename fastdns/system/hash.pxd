"""A hash of octets that nobody outside of the process can foresee."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint64_t hash_mix(uint64_t a, uint64_t b) {
        __uint128_t product = (__uint128_t)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }

    /* Keyed hash of any octets: 64-bit multiply and fold, eight octets a step; the last step overlaps. */
    static inline uint64_t hash_octets(const uint8_t *p, uint32_t n, const uint64_t *seed) {
        uint64_t h = seed[0] ^ n, v, w;
        uint32_t a, b;
        if (n > 8) {
            for (; n > 8; p += 8, n -= 8) {
                memcpy(&v, p, 8);
                h = hash_mix(h ^ v, seed[1]);
            }
            memcpy(&v, p + n - 8, 8);
        } else if (n >= 4) {
            memcpy(&a, p, 4);
            memcpy(&b, p + n - 4, 4);
            v = ((uint64_t)a << 32) | b;
        } else if (n > 0) {
            v = ((uint64_t)p[0] << 16) | ((uint64_t)p[n >> 1] << 8) | p[n - 1];
        } else {
            v = 0;
        }
        w = hash_mix(h ^ v, seed[1] ^ 0x9E3779B97F4A7C15ull);
        return hash_mix(w ^ seed[0], 0xD6E8FEB86659FD93ull);
    }
    """
    uint64_t hash_octets(const uint8_t *data, uint32_t length, const uint64_t *seed) noexcept

cdef uint64_t hash_seed[2]          # random for each process

# One of 256 classes of clients' networks (system/address: address_network).
cdef inline uint8_t hash_network(uint64_t network) noexcept nogil:
    return <uint8_t>(hash_octets(<const uint8_t *>&network, sizeof(network), hash_seed) & 0xFF)
