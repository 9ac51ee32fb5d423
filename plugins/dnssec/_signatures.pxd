"""Signatures by what they sign: found by workers without a lock, put in by whoever holds the GIL, bounded in number and octets.

A key is the signer's name and the canonical form of an RRset, compared as a whole: signatures never answer for another set. When it is full,
SIEVE says which of them go (system/eviction). What was taken out is freed by `signatures_retired`, after a grace period.

Memory order. The head of a bucket and `next` release an entry to the workers, which acquire it; whoever puts has the GIL.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.api.memory cimport Sieve, SieveLink

cdef struct Entry:
    SieveLink link              # first; once taken out: `older` is the next of those that wait to be freed
    Entry *next                 # of its bucket; atomic
    uint64_t hash
    uint32_t begins             # Unix seconds: the last of its signatures
    uint32_t expires            # Unix seconds: the first of its signatures
    uint32_t key_length
    uint32_t octets             # of the signatures: each its length in two octets, then the RRSIG's rdata
    uint8_t visited             # atomic: mark of SIEVE; any worker sets it
    # the key, and the signatures

cdef struct Signatures:
    uint32_t capacity           # entries
    uint32_t mask               # buckets - 1
    uint64_t octets             # of all entries
    uint64_t octets_limit
    Entry **buckets             # heads; atomic
    Sieve order                 # of the entries
    SieveLink *retired          # out of reach for new readers

cdef enum:
    FRESH = 2 * 86400           # seconds that a signature has to be good for still

cdef inline bint entry_good(const Entry *entry, uint32_t now) noexcept nogil:
    """Whether its signatures are good now and for some time to come. The wall clock may have been set back since they were made."""
    return <int>(now - entry.begins) >= 0 and <int>(entry.expires - now) >= FRESH

cdef inline const uint8_t *entry_key(const Entry *entry) noexcept nogil:
    return <const uint8_t *>(entry + 1)

cdef inline const uint8_t *entry_signatures(const Entry *entry) noexcept nogil:
    return <const uint8_t *>(entry + 1) + entry.key_length

cdef int signatures_open(Signatures *signatures, uint32_t capacity) noexcept nogil      # -1: no memory
cdef void signatures_close(Signatures *signatures) noexcept nogil                       # nobody reads any more
cdef uint64_t signatures_hash(const uint8_t *key, uint32_t length) noexcept nogil
# The entry for a key, or NULL; good until the reader's batch ends.
cdef Entry *signatures_find(Signatures *signatures, const uint8_t *key, uint32_t length, uint64_t hash) noexcept nogil
# Puts one in, in place of a former one for the key; -1: no memory. GIL held.
cdef int signatures_put(Signatures *signatures, const uint8_t *key, uint32_t length, uint32_t begins, uint32_t expires, const uint8_t *octets,
                        uint32_t size) noexcept nogil
# Takes out those that expire before `moment`. GIL held.
cdef void signatures_clean(Signatures *signatures, uint32_t moment) noexcept nogil
# What was taken out so far; to be freed by signatures_free after epoch_wait. GIL held.
cdef SieveLink *signatures_retired(Signatures *signatures) noexcept nogil
cdef void signatures_free(SieveLink *retired) noexcept nogil
