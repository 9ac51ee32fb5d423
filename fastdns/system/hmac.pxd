"""SHA-1 and SHA-2 (FIPS 180-4) and HMAC over them (RFC 2104), without the GIL or memory of their own.

Ours, and not a library's: what TSIG and NSEC3 hash is a few hundred octets, and the headers of OpenSSL are no part of a bare machine.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum Hash:
    HASH_SHA1
    HASH_SHA224
    HASH_SHA256
    HASH_SHA384
    HASH_SHA512

cdef enum:
    DIGEST_MAX = 64             # octets
    BLOCK_MAX = 128

cdef struct Digest:             # a hash under way
    Hash kind
    uint32_t held               # octets in `block`
    uint64_t length             # octets so far
    uint32_t narrow[8]          # state of SHA-1, SHA-224 and SHA-256
    uint64_t wide[8]            # of SHA-384 and SHA-512
    uint8_t block[BLOCK_MAX]

cdef struct HmacKey:            # a secret, made ready for one hash
    Digest inner
    Digest outer

cdef struct Hmac:
    Digest digest
    const HmacKey *key          # borrowed

cdef inline uint32_t hash_octets(Hash kind) noexcept nogil:
    """Length of the digest."""
    if kind == HASH_SHA1:
        return 20
    if kind == HASH_SHA224:
        return 28
    if kind == HASH_SHA256:
        return 32
    return 48 if kind == HASH_SHA384 else 64

cdef void digest_begin(Digest *digest, Hash kind) noexcept nogil
cdef void digest_add(Digest *digest, const uint8_t *data, uint32_t length) noexcept nogil
# Writes hash_octets octets; the digest is then used up.
cdef void digest_end(Digest *digest, uint8_t *out) noexcept nogil
# All three at once; data is read before out is written.
cdef void digest_of(Hash kind, const uint8_t *data, uint32_t length, uint8_t *out) noexcept nogil

cdef void hmac_prepare(HmacKey *key, Hash kind, const uint8_t *secret, uint32_t length) noexcept nogil
cdef void hmac_begin(Hmac *hmac, const HmacKey *key) noexcept nogil
cdef void hmac_add(Hmac *hmac, const uint8_t *data, uint32_t length) noexcept nogil
cdef void hmac_end(Hmac *hmac, uint8_t *out) noexcept nogil

# Are they equal? Takes as long whatever the octets are.
cdef bint same_digest(const uint8_t *a, const uint8_t *b, uint32_t length) noexcept nogil
