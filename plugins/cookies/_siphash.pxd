"""SipHash-2-4 (Aumasson and Bernstein, 2012), which interoperable server cookies are made with (RFC 9018 4.4)."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    #define SIP_TURN(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
    #define SIP_ROUND(a, b, c, d) do { \\
        a += b; b = SIP_TURN(b, 13); b ^= a; a = SIP_TURN(a, 32); \\
        c += d; d = SIP_TURN(d, 16); d ^= c; \\
        a += d; d = SIP_TURN(d, 21); d ^= a; \\
        c += b; b = SIP_TURN(b, 17); b ^= c; c = SIP_TURN(c, 32); } while (0)

    static inline uint64_t sip_load(const uint8_t *p) {
        uint64_t v = 0;
        int i;
        for (i = 7; i >= 0; i--)
            v = v << 8 | p[i];
        return v;
    }

    /* The hash of n octets under a key of 16, as 8 octets, the lowest first. */
    static inline void siphash24(const uint8_t *key, const uint8_t *p, uint32_t n, uint8_t *out) {
        uint64_t k0 = sip_load(key), k1 = sip_load(key + 8), m, last = (uint64_t)n << 56;
        uint64_t a = k0 ^ 0x736f6d6570736575ull, b = k1 ^ 0x646f72616e646f6dull;
        uint64_t c = k0 ^ 0x6c7967656e657261ull, d = k1 ^ 0x7465646279746573ull;
        uint32_t i;
        for (; n >= 8; p += 8, n -= 8) {
            m = sip_load(p);
            d ^= m;
            SIP_ROUND(a, b, c, d);
            SIP_ROUND(a, b, c, d);
            a ^= m;
        }
        for (i = 0; i < n; i++)
            last |= (uint64_t)p[i] << (8 * i);
        d ^= last;
        SIP_ROUND(a, b, c, d);
        SIP_ROUND(a, b, c, d);
        a ^= last;
        c ^= 0xff;
        SIP_ROUND(a, b, c, d);
        SIP_ROUND(a, b, c, d);
        SIP_ROUND(a, b, c, d);
        SIP_ROUND(a, b, c, d);
        a ^= b ^ c ^ d;
        for (i = 0; i < 8; i++)
            out[i] = (uint8_t)(a >> (8 * i));
    }
    """
    void siphash24(const uint8_t *key, const uint8_t *data, uint32_t length, uint8_t *out) noexcept
