"""Digests of zones' contents; see _digest.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from fastdns.api.digest cimport HASH_SHA256, digest_of
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport store16, store32
from fastdns.plugins.transfer._source cimport TransferRecord

cdef enum:
    HEAD = 8                        # octets behind the owner: type, TTL, length of rdata
    SHORT = 1024                    # octets of rdata of almost all records

cdef struct Text:                   # of one record
    uint8_t octets[NAME_MAX + HEAD + SHORT]


cdef bint hash_record(const TransferRecord *record, uint64_t *words) noexcept nogil:
    """A record with longer rdata is hashed as its head and the digest of its rdata."""
    cdef Text text
    cdef uint8_t digest[32]
    cdef uint32_t used = record.owner_length, i
    for i in range(used):               # length octets are below A
        text.octets[i] = record.owner[i] + 32 if 65 <= record.owner[i] <= 90 else record.owner[i]
    store16(text.octets + used, record.type)
    store32(text.octets + used + 2, record.ttl)
    store16(text.octets + used + 6, record.rdlength)
    used += HEAD
    if record.rdlength <= SHORT:
        memcpy(text.octets + used, record.rdata, record.rdlength)
        used += record.rdlength
    else:
        if digest_of(HASH_SHA256, record.rdata, record.rdlength, text.octets + used) < 0:
            return False
        used += 32
    if digest_of(HASH_SHA256, text.octets, used, digest) < 0:
        return False
    for i in range(4):
        words[i] = load64(digest + 24 - 8 * i)
    return True


cdef uint64_t load64(const uint8_t *octets) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint32_t i
    for i in range(8):
        value = value << 8 | octets[i]
    return value


cdef void store64(uint8_t *out, uint64_t value) noexcept nogil:
    store32(out, <uint32_t>(value >> 32))
    store32(out + 4, <uint32_t>value)


cdef void digest_add(ContentDigest *digest, const TransferRecord *record) noexcept nogil:
    cdef uint64_t words[4]
    if not hash_record(record, words):
        digest.failed = 1
        return
    add_words(digest, words)


cdef void digest_merge(ContentDigest *digest, const ContentDigest *other) noexcept nogil:
    digest.failed |= other.failed
    add_words(digest, other.words)


cdef void add_words(ContentDigest *digest, const uint64_t *words) noexcept nogil:
    cdef uint64_t carry = 0, sum
    cdef uint32_t i
    for i in range(4):
        sum = digest.words[i] + carry
        carry = sum < carry
        sum += words[i]
        carry += sum < words[i]
        digest.words[i] = sum


cdef void digest_remove(ContentDigest *digest, const TransferRecord *record) noexcept nogil:
    """a - b is ~(~a + b)."""
    complement(digest)
    digest_add(digest, record)
    complement(digest)


cdef void complement(ContentDigest *digest) noexcept nogil:
    cdef uint32_t i
    for i in range(4):
        digest.words[i] = ~digest.words[i]


cdef void digest_read(ContentDigest *digest, const uint8_t *octets) noexcept nogil:
    cdef uint32_t i
    for i in range(4):
        digest.words[3 - i] = load64(octets + 8 * i)
    digest.failed = 0


cdef void zonemd_write(uint8_t *out, uint32_t serial, const ContentDigest *digest) noexcept nogil:
    cdef uint32_t i
    store32(out, serial)
    out[4] = SCHEME_PRIVATE
    out[5] = HASH_PRIVATE
    for i in range(4):
        store64(out + 6 + 8 * i, digest.words[3 - i])


cdef bint zonemd_read(const uint8_t *rdata, uint32_t length, ContentDigest *digest) noexcept nogil:
    if length != ZONEMD_OCTETS or rdata[4] != SCHEME_PRIVATE or rdata[5] != HASH_PRIVATE:
        return False
    digest_read(digest, rdata + 6)
    return True


cdef bint same_content(const ContentDigest *a, const ContentDigest *b) noexcept nogil:
    return not a.failed and not b.failed and memcmp(a.words, b.words, DIGEST_OCTETS) == 0
