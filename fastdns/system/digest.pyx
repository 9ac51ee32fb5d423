"""Digests and HMAC by libcrypto. The contract is in system/digest.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free

cdef extern from "<openssl/crypto.h>" nogil:
    enum:
        OPENSSL_VERSION
    const char *OpenSSL_version(int kind)
    int CRYPTO_memcmp(const void *a, const void *b, size_t length)

cdef extern from "<openssl/err.h>" nogil:
    void ERR_clear_error()

cdef extern from "<openssl/params.h>" nogil:
    ctypedef struct OSSL_PARAM:
        pass
    OSSL_PARAM OSSL_PARAM_construct_utf8_string(const char *key, char *text, size_t size)
    OSSL_PARAM OSSL_PARAM_construct_end()

cdef extern from "<openssl/core_names.h>" nogil:
    const char *OSSL_MAC_PARAM_DIGEST

cdef extern from "<openssl/evp.h>" nogil:
    ctypedef struct EVP_MD:
        pass
    ctypedef struct EVP_MD_CTX:
        pass
    ctypedef struct EVP_MAC:
        pass
    EVP_MD *EVP_MD_fetch(void *library, const char *algorithm, const char *properties)
    EVP_MD_CTX *EVP_MD_CTX_new()
    void EVP_MD_CTX_free(EVP_MD_CTX *context)
    int EVP_DigestInit_ex2(EVP_MD_CTX *context, const EVP_MD *digest, const OSSL_PARAM *parameters)
    int EVP_DigestUpdate(EVP_MD_CTX *context, const void *data, size_t length)
    int EVP_DigestFinal_ex(EVP_MD_CTX *context, unsigned char *out, unsigned int *length)
    EVP_MAC *EVP_MAC_fetch(void *library, const char *algorithm, const char *properties)
    EVP_MAC_CTX *EVP_MAC_CTX_new(EVP_MAC *mac)
    void EVP_MAC_CTX_free(EVP_MAC_CTX *context)
    int EVP_MAC_CTX_set_params(EVP_MAC_CTX *context, const OSSL_PARAM *parameters)
    int EVP_MAC_init(EVP_MAC_CTX *context, const unsigned char *key, size_t length, const OSSL_PARAM *parameters)
    int EVP_MAC_update(EVP_MAC_CTX *context, const unsigned char *data, size_t length)
    int EVP_MAC_final(EVP_MAC_CTX *context, unsigned char *out, size_t *length, size_t capacity)

cdef struct Contexts:           # of a thread; NULL as long as there was no need
    EVP_MD_CTX *digests[HASHES]
    EVP_MAC_CTX *codes[HASHES]

cdef extern from *:
    """
    #include <pthread.h>
    static __thread void *digest_contexts;          /* of type Contexts; freed at the thread's end */
    """
    void *digest_contexts
    ctypedef unsigned int pthread_key_t
    int pthread_key_create(pthread_key_t *key, void (*end)(void *) noexcept nogil) nogil
    int pthread_setspecific(pthread_key_t key, const void *value) nogil

cdef const char *names[HASHES]
names[:] = [b"SHA1", b"SHA2-224", b"SHA2-256", b"SHA2-384", b"SHA2-512"]

cdef EVP_MD *digests[HASHES]    # as long as the process; NULL: not offered
cdef EVP_MAC *code_method       # likewise
cdef pthread_key_t at_end       # has free_contexts called


cdef void free_contexts(void *value) noexcept nogil:
    cdef Contexts *contexts = <Contexts *>value
    cdef int i
    for i in range(HASHES):
        EVP_MD_CTX_free(contexts.digests[i])
        EVP_MAC_CTX_free(contexts.codes[i])
    free(contexts)


cdef int fetch() except -1:
    global code_method
    cdef int i
    for i in range(HASHES):
        digests[i] = EVP_MD_fetch(NULL, names[i], NULL)
    code_method = EVP_MAC_fetch(NULL, b"HMAC", NULL)
    ERR_clear_error()           # the queue is that of Python's own modules, too
    if pthread_key_create(&at_end, free_contexts) != 0:
        raise MemoryError
    return 0


fetch()


# ---- contexts ----

cdef Contexts *contexts_here() noexcept nogil:
    """This thread's; NULL without memory."""
    global digest_contexts
    if digest_contexts == NULL:
        digest_contexts = calloc(1, sizeof(Contexts))
        if digest_contexts != NULL and pthread_setspecific(at_end, digest_contexts) != 0:
            free(digest_contexts)
            digest_contexts = NULL
    return <Contexts *>digest_contexts


cdef EVP_MD_CTX *digest_context(Hash kind) noexcept nogil:
    cdef Contexts *contexts = contexts_here()
    if contexts == NULL:
        return NULL
    if contexts.digests[<int>kind] == NULL:
        contexts.digests[<int>kind] = EVP_MD_CTX_new()
    return contexts.digests[<int>kind]


cdef EVP_MAC_CTX *code_context(Hash kind) noexcept nogil:
    """Set to the hash, without a secret."""
    cdef Contexts *contexts = contexts_here()
    cdef EVP_MAC_CTX *made
    cdef OSSL_PARAM parameters[2]
    if contexts == NULL:
        return NULL
    made = contexts.codes[<int>kind]
    if made == NULL and code_method != NULL:
        made = EVP_MAC_CTX_new(code_method)
        parameters[0] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, <char *>names[<int>kind], 0)
        parameters[1] = OSSL_PARAM_construct_end()
        if made != NULL and EVP_MAC_CTX_set_params(made, parameters) != 1:
            EVP_MAC_CTX_free(made)
            made = NULL
        contexts.codes[<int>kind] = made
    return made


# ---- digests ----

cdef bint digest_offered(Hash kind) noexcept nogil:
    return digests[<int>kind] != NULL


cdef int digest_of(Hash kind, const uint8_t *data, uint32_t length, uint8_t *out) noexcept nogil:
    cdef EVP_MD_CTX *context = digest_context(kind)
    if context == NULL or digests[<int>kind] == NULL:
        return -1
    if (EVP_DigestInit_ex2(context, digests[<int>kind], NULL) == 1 and EVP_DigestUpdate(context, data, length) == 1
            and EVP_DigestFinal_ex(context, out, NULL) == 1):
        return 0
    ERR_clear_error()
    return -1


# ---- HMAC ----

cdef void hmac_begin(Hmac *hmac, Hash kind, const uint8_t *secret, uint32_t length) noexcept nogil:
    hmac.context = code_context(kind)
    if hmac.context != NULL and EVP_MAC_init(hmac.context, secret, length, NULL) != 1:
        hmac.context = NULL


cdef void hmac_add(Hmac *hmac, const uint8_t *data, uint32_t length) noexcept nogil:
    if hmac.context != NULL and EVP_MAC_update(hmac.context, data, length) != 1:
        hmac.context = NULL


cdef int hmac_end(Hmac *hmac, uint8_t *out) noexcept nogil:
    cdef size_t written
    if hmac.context != NULL and EVP_MAC_final(hmac.context, out, &written, DIGEST_MAX) == 1:
        return 0
    ERR_clear_error()
    return -1


cdef bint same_digest(const uint8_t *a, const uint8_t *b, uint32_t length) noexcept nogil:
    return CRYPTO_memcmp(a, b, length) == 0


# ---- Python ----

class DigestError(ValueError):
    """See system/digest.pyi."""


KINDS = {"sha1": HASH_SHA1, "sha224": HASH_SHA224, "sha256": HASH_SHA256, "sha384": HASH_SHA384, "sha512": HASH_SHA512}


cdef object failure(str what, str kind):
    library = (<bytes>OpenSSL_version(OPENSSL_VERSION)).decode()
    return DigestError(f"libcrypto ({library}) does not offer {what}{kind.replace('sha', 'SHA-')}")


def hash_of(str kind, bytes data not None) -> bytes:
    """Digest of data; see system/digest.pyi."""
    cdef uint8_t out[DIGEST_MAX]
    cdef Hash number = <Hash><int>KINDS[kind]
    if digest_of(number, data, <uint32_t>len(data), out) < 0:
        raise failure("", kind)
    return out[:hash_octets(number)]


def hmac_of(str kind, bytes secret not None, list parts) -> bytes:
    """HMAC of the parts, one after another; see system/digest.pyi."""
    cdef Hmac hmac
    cdef uint8_t out[DIGEST_MAX]
    cdef Hash number = <Hash><int>KINDS[kind]
    cdef bytes part
    hmac_begin(&hmac, number, secret, <uint32_t>len(secret))
    for part in parts:
        hmac_add(&hmac, part, <uint32_t>len(part))
    if hmac_end(&hmac, out) < 0:
        raise failure("HMAC with such a secret over ", kind)
    return out[:hash_octets(number)]


def same(bytes a not None, bytes b not None) -> bool:
    """Whether two digests of one length are equal."""
    if len(a) != len(b):
        raise ValueError("digests of different lengths")
    return bool(same_digest(a, b, <uint32_t>len(a)))
