"""SHA-1 of short inputs. The contract is in _sha1.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns._wire cimport load32, store32


cdef inline uint32_t rotate(uint32_t x, int n) noexcept nogil:
    return x << n | x >> (32 - n)


cdef void add_block(uint32_t *h, const uint8_t *block) noexcept nogil:
    cdef uint32_t w[80]
    cdef uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], t
    cdef int i
    for i in range(16):
        w[i] = load32(block + 4 * i)
    for i in range(16, 80):
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1)
    for i in range(80):
        if i < 20:
            t = (b & c | ~b & d) + <uint32_t>0x5A827999
        elif i < 40:
            t = (b ^ c ^ d) + <uint32_t>0x6ED9EBA1
        elif i < 60:
            t = (b & c | b & d | c & d) + <uint32_t>0x8F1BBCDC
        else:
            t = (b ^ c ^ d) + <uint32_t>0xCA62C1D6
        t += rotate(a, 5) + e + w[i]
        e = d
        d = c
        c = rotate(b, 30)
        b = a
        a = t
    h[0] += a
    h[1] += b
    h[2] += c
    h[3] += d
    h[4] += e


cdef void sha1(const uint8_t *data, uint32_t length, uint8_t *out) noexcept nogil:
    cdef uint32_t h[5]
    cdef uint8_t last[128]
    cdef uint32_t at = 0, left, size
    cdef int i
    h[0] = <uint32_t>0x67452301
    h[1] = <uint32_t>0xEFCDAB89
    h[2] = <uint32_t>0x98BADCFE
    h[3] = <uint32_t>0x10325476
    h[4] = <uint32_t>0xC3D2E1F0
    while at + 64 <= length:
        add_block(h, data + at)
        at += 64
    left = length - at
    size = 64 if left < 56 else 128
    memset(last, 0, sizeof(last))
    memcpy(last, data + at, left)
    last[left] = 0x80
    store32(last + size - 8, length >> 29)
    store32(last + size - 4, length << 3)
    add_block(h, last)
    if size == 128:
        add_block(h, last + 64)
    for i in range(5):
        store32(out + 4 * i, h[i])
