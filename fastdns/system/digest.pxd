"""SHA-1 and SHA-2 (FIPS 180-4) and HMAC over them (RFC 2104), by libcrypto, without the GIL.

Each thread keeps a context for each hash, made at the first use and freed at the thread's end: its digests and codes are computed there. libcrypto itself
allocates in each call (OpenSSL 3.0): the hash's state for a digest (96 to 216 octets), a copy of the secret and four such states for a code.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef enum Hash:
    HASH_SHA1
    HASH_SHA224
    HASH_SHA256
    HASH_SHA384
    HASH_SHA512

cdef enum:
    HASHES = 5                  # of Hash
    DIGEST_MAX = 64             # octets

cdef extern from *:
    """
    typedef struct evp_mac_ctx_st EVP_MAC_CTX;      /* as in openssl/types.h */
    """
    ctypedef struct EVP_MAC_CTX:
        pass

cdef struct Hmac:               # under way; no other of the same thread and hash may be
    EVP_MAC_CTX *context        # the thread's; NULL: failed

cdef inline uint32_t hash_octets(Hash kind) noexcept nogil:
    """Length of the digest."""
    if kind == HASH_SHA1:
        return 20
    if kind == HASH_SHA224:
        return 28
    if kind == HASH_SHA256:
        return 32
    return 48 if kind == HASH_SHA384 else 64

# Does libcrypto offer the hash? Under a FIPS configuration some may be missing.
cdef bint digest_offered(Hash kind) noexcept nogil
# Writes hash_octets octets; data is read before. 0, or -1 when libcrypto does not offer the hash or has no memory.
cdef int digest_of(Hash kind, const uint8_t *data, uint32_t length, uint8_t *out) noexcept nogil

# A code of several parts. Only hmac_end reports failure.
cdef void hmac_begin(Hmac *hmac, Hash kind, const uint8_t *secret, uint32_t length) noexcept nogil
cdef void hmac_add(Hmac *hmac, const uint8_t *data, uint32_t length) noexcept nogil
# Writes hash_octets octets. 0, or -1 when libcrypto does not offer the hash, refuses the secret or has no memory.
cdef int hmac_end(Hmac *hmac, uint8_t *out) noexcept nogil

# Are they equal? Takes as long whatever the octets are.
cdef bint same_digest(const uint8_t *a, const uint8_t *b, uint32_t length) noexcept nogil
