"""SHA-1, SHA-2 and HMAC. The contract is in system/hmac.pxd.

The constants of FIPS 180-4 are the leading bits of roots of primes; they are computed when the module is loaded.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from fastdns._wire cimport load32, store32

import math

cdef uint64_t wide_rounds[80]       # K of SHA-512
cdef uint32_t narrow_rounds[64]     # K of SHA-256: the upper halves
cdef uint64_t wide_start[2][8]      # H of SHA-512 and SHA-384
cdef uint32_t narrow_start[2][8]    # H of SHA-256 and SHA-224


def _primes(count):
    found = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found


def _cube_root(number):
    """The largest whole number whose cube is not above it (Newton)."""
    root = 1 << (number.bit_length() + 2) // 3
    while True:
        closer = (2 * root + number // (root * root)) // 3
        if closer >= root:
            return root
        root = closer


cdef int fill() except -1:
    cdef uint32_t i
    mask = (1 << 64) - 1
    primes = _primes(80)
    for i in range(80):
        wide_rounds[i] = _cube_root(primes[i] << 192) & mask
        if i < 64:
            narrow_rounds[i] = <uint32_t>(wide_rounds[i] >> 32)
    for i in range(8):
        wide_start[0][i] = math.isqrt(primes[i] << 128) & mask
        wide_start[1][i] = math.isqrt(primes[8 + i] << 128) & mask
        narrow_start[0][i] = <uint32_t>(wide_start[0][i] >> 32)
        narrow_start[1][i] = <uint32_t>wide_start[1][i]
    return 0


fill()


# ---- blocks ----

cdef inline uint32_t left(uint32_t v, int n) noexcept nogil:
    return (v << n) | (v >> (32 - n))


cdef inline uint32_t right(uint32_t v, int n) noexcept nogil:
    return (v >> n) | (v << (32 - n))


cdef inline uint64_t right64(uint64_t v, int n) noexcept nogil:
    return (v >> n) | (v << (64 - n))


cdef void sha1_block(uint32_t *state, const uint8_t *block) noexcept nogil:
    cdef uint32_t w[80]
    cdef uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f, k, t
    cdef int i
    for i in range(16):
        w[i] = load32(block + 4 * i)
    for i in range(16, 80):
        w[i] = left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1)
    for i in range(80):
        if i < 20:
            f, k = (b & c) | (~b & d), 0x5A827999
        elif i < 40:
            f, k = b ^ c ^ d, 0x6ED9EBA1
        elif i < 60:
            f, k = (b & c) | (b & d) | (c & d), 0x8F1BBCDC
        else:
            f, k = b ^ c ^ d, 0xCA62C1D6
        t = left(a, 5) + f + e + k + w[i]
        e = d
        d = c
        c = left(b, 30)
        b = a
        a = t
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e


cdef void sha256_block(uint32_t *state, const uint8_t *block) noexcept nogil:
    cdef uint32_t w[64]
    cdef uint32_t s[8]
    cdef uint32_t t, u
    cdef int i, j
    for i in range(16):
        w[i] = load32(block + 4 * i)
    for i in range(16, 64):
        t = right(w[i - 15], 7) ^ right(w[i - 15], 18) ^ (w[i - 15] >> 3)
        u = right(w[i - 2], 17) ^ right(w[i - 2], 19) ^ (w[i - 2] >> 10)
        w[i] = w[i - 16] + t + w[i - 7] + u
    memcpy(s, state, sizeof(s))
    for i in range(64):
        t = s[7] + (right(s[4], 6) ^ right(s[4], 11) ^ right(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + narrow_rounds[i] + w[i]
        u = (right(s[0], 2) ^ right(s[0], 13) ^ right(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]))
        for j in range(7, 0, -1):
            s[j] = s[j - 1]
        s[4] += t
        s[0] = t + u
    for i in range(8):
        state[i] += s[i]


cdef void sha512_block(uint64_t *state, const uint8_t *block) noexcept nogil:
    cdef uint64_t w[80]
    cdef uint64_t s[8]
    cdef uint64_t t, u
    cdef int i, j
    for i in range(16):
        w[i] = (<uint64_t>load32(block + 8 * i) << 32) | load32(block + 8 * i + 4)
    for i in range(16, 80):
        t = right64(w[i - 15], 1) ^ right64(w[i - 15], 8) ^ (w[i - 15] >> 7)
        u = right64(w[i - 2], 19) ^ right64(w[i - 2], 61) ^ (w[i - 2] >> 6)
        w[i] = w[i - 16] + t + w[i - 7] + u
    memcpy(s, state, sizeof(s))
    for i in range(80):
        t = s[7] + (right64(s[4], 14) ^ right64(s[4], 18) ^ right64(s[4], 41)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + wide_rounds[i] + w[i]
        u = (right64(s[0], 28) ^ right64(s[0], 34) ^ right64(s[0], 39)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]))
        for j in range(7, 0, -1):
            s[j] = s[j - 1]
        s[4] += t
        s[0] = t + u
    for i in range(8):
        state[i] += s[i]


# ---- digests ----

cdef inline uint32_t block_octets(Hash kind) noexcept nogil:
    return 128 if kind == HASH_SHA384 or kind == HASH_SHA512 else 64


cdef inline void take_block(Digest *digest, const uint8_t *block) noexcept nogil:
    if digest.kind == HASH_SHA1:
        sha1_block(digest.narrow, block)
    elif digest.kind == HASH_SHA224 or digest.kind == HASH_SHA256:
        sha256_block(digest.narrow, block)
    else:
        sha512_block(digest.wide, block)


cdef void digest_begin(Digest *digest, Hash kind) noexcept nogil:
    memset(digest, 0, sizeof(Digest))
    digest.kind = kind
    if kind == HASH_SHA1:
        digest.narrow[0] = 0x67452301
        digest.narrow[1] = 0xEFCDAB89
        digest.narrow[2] = 0x98BADCFE
        digest.narrow[3] = 0x10325476
        digest.narrow[4] = 0xC3D2E1F0
    elif kind == HASH_SHA256 or kind == HASH_SHA224:
        memcpy(digest.narrow, narrow_start[1 if kind == HASH_SHA224 else 0], sizeof(digest.narrow))
    else:
        memcpy(digest.wide, wide_start[1 if kind == HASH_SHA384 else 0], sizeof(digest.wide))


cdef void digest_add(Digest *digest, const uint8_t *data, uint32_t length) noexcept nogil:
    cdef uint32_t size = block_octets(digest.kind), n
    digest.length += length
    if digest.held:
        n = min(size - digest.held, length)
        memcpy(digest.block + digest.held, data, n)
        digest.held += n
        data += n
        length -= n
        if digest.held < size:
            return
        take_block(digest, digest.block)
        digest.held = 0
    while length >= size:
        take_block(digest, data)
        data += size
        length -= size
    if length:
        memcpy(digest.block, data, length)
        digest.held = length


cdef void digest_end(Digest *digest, uint8_t *out) noexcept nogil:
    cdef uint32_t size = block_octets(digest.kind), i, octets = hash_octets(digest.kind)
    cdef uint64_t bits = digest.length * 8
    digest.block[digest.held] = 0x80
    digest.held += 1
    if digest.held > size - size // 8:      # no room for the length
        memset(digest.block + digest.held, 0, size - digest.held)
        take_block(digest, digest.block)
        digest.held = 0
    memset(digest.block + digest.held, 0, size - digest.held)
    store32(digest.block + size - 8, <uint32_t>(bits >> 32))
    store32(digest.block + size - 4, <uint32_t>bits)
    take_block(digest, digest.block)
    for i in range(octets // 4):
        if size == 64:
            store32(out + 4 * i, digest.narrow[i])
        else:
            store32(out + 4 * i, <uint32_t>(digest.wide[i // 2] >> (0 if i & 1 else 32)))


cdef void digest_of(Hash kind, const uint8_t *data, uint32_t length, uint8_t *out) noexcept nogil:
    cdef Digest digest
    digest_begin(&digest, kind)
    digest_add(&digest, data, length)
    digest_end(&digest, out)


# ---- HMAC ----

cdef void hmac_prepare(HmacKey *key, Hash kind, const uint8_t *secret, uint32_t length) noexcept nogil:
    cdef uint8_t block[BLOCK_MAX]
    cdef uint32_t i, size = block_octets(kind)
    memset(block, 0, sizeof(block))
    if length > size:
        digest_begin(&key.inner, kind)
        digest_add(&key.inner, secret, length)
        digest_end(&key.inner, block)
    elif length:
        memcpy(block, secret, length)
    for i in range(size):
        block[i] ^= 0x36
    digest_begin(&key.inner, kind)
    digest_add(&key.inner, block, size)
    for i in range(size):
        block[i] ^= 0x36 ^ 0x5C
    digest_begin(&key.outer, kind)
    digest_add(&key.outer, block, size)


cdef void hmac_begin(Hmac *hmac, const HmacKey *key) noexcept nogil:
    hmac.key = key
    hmac.digest = key.inner


cdef void hmac_add(Hmac *hmac, const uint8_t *data, uint32_t length) noexcept nogil:
    digest_add(&hmac.digest, data, length)


cdef void hmac_end(Hmac *hmac, uint8_t *out) noexcept nogil:
    cdef uint8_t inner[DIGEST_MAX]
    cdef Hash kind = hmac.digest.kind
    digest_end(&hmac.digest, inner)
    hmac.digest = hmac.key.outer
    digest_add(&hmac.digest, inner, hash_octets(kind))
    digest_end(&hmac.digest, out)


cdef bint same_digest(const uint8_t *a, const uint8_t *b, uint32_t length) noexcept nogil:
    cdef uint32_t i
    cdef uint8_t difference = 0
    for i in range(length):
        difference |= a[i] ^ b[i]
    return difference == 0


# ---- the Python side: tests ----

KINDS = {"sha1": HASH_SHA1, "sha224": HASH_SHA224, "sha256": HASH_SHA256, "sha384": HASH_SHA384, "sha512": HASH_SHA512}


def hash_of(str kind, list parts) -> bytes:
    """Digest of the parts, one after another; see system/hmac.pyi."""
    cdef Digest digest
    cdef uint8_t out[DIGEST_MAX]
    cdef bytes part
    digest_begin(&digest, <Hash><int>KINDS[kind])
    for part in parts:
        digest_add(&digest, part, <uint32_t>len(part))
    digest_end(&digest, out)
    return out[:hash_octets(digest.kind)]


def hmac_of(str kind, bytes secret not None, list parts) -> bytes:
    """HMAC of the parts, one after another; see system/hmac.pyi."""
    cdef HmacKey key
    cdef Hmac hmac
    cdef uint8_t out[DIGEST_MAX]
    cdef bytes part
    hmac_prepare(&key, <Hash><int>KINDS[kind], secret, <uint32_t>len(secret))
    hmac_begin(&hmac, &key)
    for part in parts:
        hmac_add(&hmac, part, <uint32_t>len(part))
    hmac_end(&hmac, out)
    return out[:hash_octets(hmac.digest.kind)]


def same(bytes a not None, bytes b not None) -> bool:
    """Whether two digests of one length are equal."""
    if len(a) != len(b):
        raise ValueError("digests of different lengths")
    return bool(same_digest(a, b, <uint32_t>len(a)))
