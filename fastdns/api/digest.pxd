"""SHA-1, SHA-2 (FIPS 180-4) and HMAC (RFC 2104)."""
from fastdns.system.digest cimport (DIGEST_MAX, HASH_SHA1, HASH_SHA224, HASH_SHA256, HASH_SHA384, HASH_SHA512, Hash, Hmac, digest_of, hash_octets,
                                    hmac_add, hmac_begin, hmac_end, same_digest)
