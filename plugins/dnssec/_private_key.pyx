"""Private keys of DNSSEC: RSA, ECDSA and Ed25519 by libcrypto, which signs without the GIL. Names for Python are in _private_key.pyi."""
import sys

from libc.stdint cimport uint8_t

cdef extern from "<openssl/params.h>" nogil:
    ctypedef struct OSSL_PARAM:
        pass
    OSSL_PARAM OSSL_PARAM_construct_utf8_string(const char *key, char *text, size_t size)
    OSSL_PARAM OSSL_PARAM_construct_octet_string(const char *key, void *octets, size_t size)
    OSSL_PARAM OSSL_PARAM_construct_BN(const char *key, unsigned char *octets, size_t size)
    OSSL_PARAM OSSL_PARAM_construct_end()

cdef extern from "<openssl/err.h>" nogil:
    unsigned long ERR_peek_last_error()
    const char *ERR_reason_error_string(unsigned long error)
    void ERR_clear_error()

cdef extern from "<openssl/bn.h>" nogil:
    ctypedef struct BIGNUM:
        pass
    BIGNUM *BN_bin2bn(const unsigned char *octets, int size, BIGNUM *into)
    int BN_bn2binpad(const BIGNUM *number, unsigned char *out, int size)
    int BN_cmp(const BIGNUM *a, const BIGNUM *b)
    int BN_is_zero(const BIGNUM *number)
    void BN_clear_free(BIGNUM *number)

cdef extern from "<openssl/ec.h>" nogil:
    ctypedef struct EC_GROUP:
        pass
    ctypedef struct EC_POINT:
        pass
    ctypedef struct ECDSA_SIG:
        pass
    enum:
        POINT_CONVERSION_UNCOMPRESSED
        NID_X9_62_prime256v1
        NID_secp384r1
    EC_GROUP *EC_GROUP_new_by_curve_name(int nid)
    const BIGNUM *EC_GROUP_get0_order(const EC_GROUP *group)
    void EC_GROUP_free(EC_GROUP *group)
    EC_POINT *EC_POINT_new(const EC_GROUP *group)
    int EC_POINT_mul(const EC_GROUP *group, EC_POINT *product, const BIGNUM *factor, const EC_POINT *other, const BIGNUM *other_factor, void *context)
    size_t EC_POINT_point2oct(const EC_GROUP *group, const EC_POINT *point, int form, unsigned char *out, size_t capacity, void *context)
    void EC_POINT_free(EC_POINT *point)
    ECDSA_SIG *d2i_ECDSA_SIG(ECDSA_SIG **into, const unsigned char **octets, long size)
    void ECDSA_SIG_get0(const ECDSA_SIG *signature, const BIGNUM **r, const BIGNUM **s)
    void ECDSA_SIG_free(ECDSA_SIG *signature)

cdef extern from "<openssl/evp.h>" nogil:
    ctypedef struct EVP_PKEY:
        pass
    ctypedef struct EVP_PKEY_CTX:
        pass
    ctypedef struct EVP_MD_CTX:
        pass
    enum:
        EVP_PKEY_KEYPAIR
    EVP_PKEY_CTX *EVP_PKEY_CTX_new_from_name(void *library, const char *algorithm, const char *properties)
    EVP_PKEY_CTX *EVP_PKEY_CTX_new_from_pkey(void *library, EVP_PKEY *key, const char *properties)
    void EVP_PKEY_CTX_free(EVP_PKEY_CTX *context)
    int EVP_PKEY_fromdata_init(EVP_PKEY_CTX *context)
    int EVP_PKEY_fromdata(EVP_PKEY_CTX *context, EVP_PKEY **key, int selection, OSSL_PARAM *parameters)
    int EVP_PKEY_pairwise_check(EVP_PKEY_CTX *context)
    EVP_PKEY *EVP_PKEY_new_raw_private_key_ex(void *library, const char *algorithm, const char *properties, const unsigned char *octets, size_t size)
    int EVP_PKEY_get_raw_public_key(const EVP_PKEY *key, unsigned char *out, size_t *size)
    void EVP_PKEY_free(EVP_PKEY *key)
    EVP_MD_CTX *EVP_MD_CTX_new()
    void EVP_MD_CTX_free(EVP_MD_CTX *context)
    int EVP_DigestSignInit_ex(EVP_MD_CTX *context, EVP_PKEY_CTX **key_context, const char *hash, void *library, const char *properties, EVP_PKEY *key,
                              const OSSL_PARAM *parameters)
    int EVP_DigestSign(EVP_MD_CTX *context, unsigned char *out, size_t *size, const unsigned char *octets, size_t count)

cdef enum:
    SIGNATURE_MAX = 2048        # octets: RSA with 16384 bits, the most that libcrypto takes
    PARAMETERS_MAX = 9
    ED25519_OCTETS = 32
    POINT_MAX = 97              # P-384's, with the octet of its form


class BadKeyError(ValueError):
    """See _private_key.pyi."""


class SigningError(ValueError):
    """See _private_key.pyi."""


cdef class PrivateKey:
    """See _private_key.pyi."""
    cdef EVP_PKEY *key          # owned
    cdef bytes hash             # its name to libcrypto, None: the algorithm has its own
    cdef int coordinate         # octets of each of the two numbers of an ECDSA signature, 0: not ECDSA
    cdef readonly bytes public

    def __dealloc__(self):
        EVP_PKEY_free(self.key)

    def sign(self, bytes data not None) -> bytes:
        """See _private_key.pyi."""
        cdef uint8_t out[SIGNATURE_MAX]
        cdef size_t size = SIGNATURE_MAX
        cdef const char *hash = NULL if self.hash is None else <const char *>self.hash
        cdef const unsigned char *octets = data
        cdef size_t count = len(data)
        cdef int done
        with nogil:
            done = signature(self.key, hash, octets, count, out, &size)
            if done == 0 and self.coordinate:
                done = two_numbers(out, &size, self.coordinate)
        if done < 0:
            raise SigningError(last_error())
        return out[:size]


cdef int signature(EVP_PKEY *key, const char *hash, const unsigned char *octets, size_t count, uint8_t *out, size_t *size) noexcept nogil:
    """Writes libcrypto's form of a signature. 0, or -1."""
    cdef EVP_MD_CTX *context = EVP_MD_CTX_new()
    cdef bint done = (context != NULL and EVP_DigestSignInit_ex(context, NULL, hash, NULL, NULL, key, NULL) == 1
                      and EVP_DigestSign(context, out, size, octets, count) == 1)
    EVP_MD_CTX_free(context)
    return 0 if done else -1


cdef int two_numbers(uint8_t *out, size_t *size, int coordinate) noexcept nogil:
    """DER to two numbers of fixed length (RFC 6605 4), in place. 0, or -1."""
    cdef const unsigned char *at = out
    cdef const BIGNUM *r
    cdef const BIGNUM *s
    cdef ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &at, <long>size[0])
    cdef bint done
    if numbers == NULL:
        return -1
    ECDSA_SIG_get0(numbers, &r, &s)
    done = BN_bn2binpad(r, out, coordinate) == coordinate and BN_bn2binpad(s, out + coordinate, coordinate) == coordinate
    ECDSA_SIG_free(numbers)
    size[0] = 2 * coordinate
    return 0 if done else -1


cdef str last_error():
    """The reason of the thread's last error; the queue, which is that of Python's own modules too, is empty then."""
    cdef const char *reason = ERR_reason_error_string(ERR_peek_last_error())
    text = "libcrypto failed" if reason == NULL else (<bytes>reason).decode()
    ERR_clear_error()
    return text


cdef PrivateKey owned(EVP_PKEY *key, bytes hash, int coordinate, bytes public):
    cdef PrivateKey made = PrivateKey.__new__(PrivateKey)
    made.key = key
    made.hash = hash
    made.coordinate = coordinate
    made.public = public
    return made


# ---- keys from their numbers ----

cdef EVP_PKEY *key_of(const char *algorithm, dict values) except NULL:
    """A key of libcrypto's named parameters: texts (str), octets (bytes) or numbers (int). BadKeyError."""
    cdef OSSL_PARAM parameters[PARAMETERS_MAX]
    cdef EVP_PKEY *key = NULL
    cdef EVP_PKEY_CTX *context
    cdef int count = 0
    cdef bytes octets
    cdef bint done
    held = []                   # what the parameters point to
    for name, value in values.items():
        if isinstance(value, int):
            octets = value.to_bytes(max(1, (value.bit_length() + 7) // 8), sys.byteorder)
            parameters[count] = OSSL_PARAM_construct_BN(<const char *>name, octets, len(octets))
        elif isinstance(value, str):
            octets = value.encode()
            parameters[count] = OSSL_PARAM_construct_utf8_string(<const char *>name, <char *>octets, 0)
        else:
            octets = value
            parameters[count] = OSSL_PARAM_construct_octet_string(<const char *>name, <char *>octets, len(octets))
        held.append((name, octets))
        count += 1
    parameters[count] = OSSL_PARAM_construct_end()
    context = EVP_PKEY_CTX_new_from_name(NULL, algorithm, NULL)
    done = context != NULL and EVP_PKEY_fromdata_init(context) == 1 and EVP_PKEY_fromdata(context, &key, EVP_PKEY_KEYPAIR, parameters) == 1
    EVP_PKEY_CTX_free(context)
    if not done:
        raise BadKeyError(last_error())
    return key


def rsa_key(numbers, str digest not None) -> PrivateKey:
    """See _private_key.pyi."""
    n, e, d, p, q = numbers
    if min(p, q) < 2:
        raise BadKeyError("a prime is missing")
    cdef EVP_PKEY *key = key_of(b"RSA", {
        b"n": n, b"e": e, b"d": d, b"rsa-factor1": p, b"rsa-factor2": q,
        b"rsa-exponent1": d % (p - 1), b"rsa-exponent2": d % (q - 1), b"rsa-coefficient1": pow(q, -1, p),
    })
    cdef PrivateKey made = owned(key, digest.encode(), 0, b"")
    cdef EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL)
    cdef bint fits = context != NULL and EVP_PKEY_pairwise_check(context) == 1
    EVP_PKEY_CTX_free(context)
    if not fits or n.bit_length() > 8 * SIGNATURE_MAX:
        raise BadKeyError(last_error())
    exponent = e.to_bytes((e.bit_length() + 7) // 8, "big")
    prefix = bytes([len(exponent)]) if len(exponent) < 256 else b"\0" + len(exponent).to_bytes(2, "big")        # RFC 3110 2
    made.public = prefix + exponent + n.to_bytes((n.bit_length() + 7) // 8, "big")
    return made


def ecdsa_key(bytes secret not None, int coordinate) -> PrivateKey:
    """See _private_key.pyi."""
    cdef uint8_t point[POINT_MAX]
    cdef bint p256 = coordinate == 32
    if multiple(NID_X9_62_prime256v1 if p256 else NID_secp384r1, secret, len(secret), point, 2 * coordinate + 1) < 0:
        raise BadKeyError(last_error())
    cdef bytes octets = point[:2 * coordinate + 1]
    cdef EVP_PKEY *key = key_of(b"EC", {b"group": "P-256" if p256 else "P-384", b"pub": octets, b"priv": int.from_bytes(secret, "big")})
    return owned(key, b"SHA256" if p256 else b"SHA384", coordinate, octets[1:])


cdef int multiple(int curve, const unsigned char *secret, Py_ssize_t size, uint8_t *point, size_t octets) noexcept:
    """The public point of a secret number that is at least 1 and below the curve's order. 0, or -1."""
    cdef EC_GROUP *group = EC_GROUP_new_by_curve_name(curve)
    cdef BIGNUM *factor = BN_bin2bn(secret, <int>size, NULL)
    cdef EC_POINT *product = NULL if group == NULL else EC_POINT_new(group)
    cdef bint done = (product != NULL and factor != NULL and not BN_is_zero(factor) and BN_cmp(factor, EC_GROUP_get0_order(group)) < 0
                      and EC_POINT_mul(group, product, factor, NULL, NULL, NULL) == 1
                      and EC_POINT_point2oct(group, product, POINT_CONVERSION_UNCOMPRESSED, point, octets, NULL) == octets)
    EC_POINT_free(product)
    BN_clear_free(factor)
    EC_GROUP_free(group)
    return 0 if done else -1


def ed25519_key(bytes secret not None) -> PrivateKey:
    """See _private_key.pyi."""
    cdef uint8_t public[ED25519_OCTETS]
    cdef size_t size = ED25519_OCTETS
    cdef EVP_PKEY *key = EVP_PKEY_new_raw_private_key_ex(NULL, b"ED25519", NULL, secret, len(secret))
    if key == NULL:
        raise BadKeyError(last_error())
    cdef PrivateKey made = owned(key, None, 0, b"")
    if EVP_PKEY_get_raw_public_key(key, public, &size) != 1:
        raise BadKeyError(last_error())
    made.public = public[:size]
    return made
