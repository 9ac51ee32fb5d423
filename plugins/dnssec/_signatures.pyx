"""The cache of signatures. The contract is in _signatures.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.names cimport wire_multiplier, wire_seed
from fastdns.api.memory cimport (SieveLink, atomic_load_pointer, atomic_store_pointer, sieve_add, sieve_advance, sieve_hand, sieve_hit, sieve_passes,
                                 sieve_remove)

cdef enum:
    OCTETS_EACH = 1024          # of memory for each entry of the capacity


cdef int signatures_open(Signatures *signatures, uint32_t capacity) noexcept nogil:
    cdef uint32_t buckets = 64
    while buckets < capacity:
        buckets *= 2
    signatures.capacity = capacity
    signatures.mask = buckets - 1
    signatures.octets_limit = <uint64_t>capacity * OCTETS_EACH
    signatures.buckets = <Entry **>calloc(buckets, sizeof(Entry *))
    return 0 if signatures.buckets != NULL else -1


cdef void signatures_close(Signatures *signatures) noexcept nogil:
    signatures_free(signatures.order.newest)
    signatures_free(signatures.retired)
    free(signatures.buckets)
    memset(signatures, 0, sizeof(Signatures))


cdef uint64_t signatures_hash(const uint8_t *key, uint32_t length) noexcept nogil:
    """Eight octets at a time, each times a number of the process's own."""
    cdef uint64_t h = wire_seed ^ length, part
    cdef uint32_t at = 0
    while at + 8 <= length:
        memcpy(&part, key + at, 8)
        h = (h ^ part) * wire_multiplier
        h ^= h >> 29
        at += 8
    part = 0
    memcpy(&part, key + at, length - at)
    h = (h ^ part) * wire_multiplier
    return h ^ (h >> 32)


cdef Entry *signatures_find(Signatures *signatures, const uint8_t *key, uint32_t length, uint64_t hash) noexcept nogil:
    cdef Entry *entry = <Entry *>atomic_load_pointer(<void **>&signatures.buckets[hash & signatures.mask])
    while entry != NULL:
        if entry.hash == hash and entry.key_length == length and memcmp(entry_key(entry), key, length) == 0:
            sieve_hit(&entry.visited)
            return entry
        entry = <Entry *>atomic_load_pointer(<void **>&entry.next)
    return NULL


cdef void unlink_entry(Signatures *signatures, Entry *entry) noexcept nogil:
    """Out of its bucket and the order; its `next` stays: a reader may stand on it."""
    cdef Entry **link = &signatures.buckets[entry.hash & signatures.mask]
    while link[0] != entry:
        link = &link[0].next
    atomic_store_pointer(<void **>link, entry.next)
    signatures.octets -= sizeof(Entry) + entry.key_length + entry.octets
    sieve_remove(&signatures.order, &entry.link)
    entry.link.older = signatures.retired
    signatures.retired = &entry.link


cdef void make_room(Signatures *signatures, uint64_t size) noexcept nogil:
    cdef Entry *entry
    while signatures.order.count and (signatures.order.count >= signatures.capacity or signatures.octets + size > signatures.octets_limit):
        entry = <Entry *>sieve_hand(&signatures.order)
        while sieve_passes(&entry.visited, True):
            entry = <Entry *>sieve_advance(&signatures.order)
        unlink_entry(signatures, entry)


cdef int signatures_put(Signatures *signatures, const uint8_t *key, uint32_t length, uint32_t begins, uint32_t expires, const uint8_t *octets,
                        uint32_t size) noexcept nogil:
    cdef uint64_t hash = signatures_hash(key, length), all = sizeof(Entry) + length + size
    cdef Entry *entry = signatures_find(signatures, key, length, hash)
    if entry != NULL:
        unlink_entry(signatures, entry)
    if all > signatures.octets_limit:
        return 0
    make_room(signatures, all)
    entry = <Entry *>malloc(all)
    if entry == NULL:
        return -1
    entry.hash = hash
    entry.begins = begins
    entry.expires = expires
    entry.key_length = length
    entry.octets = size
    entry.visited = 0
    memcpy(entry + 1, key, length)
    memcpy(<uint8_t *>(entry + 1) + length, octets, size)
    sieve_add(&signatures.order, &entry.link)
    signatures.octets += all
    entry.next = signatures.buckets[hash & signatures.mask]
    atomic_store_pointer(<void **>&signatures.buckets[hash & signatures.mask], entry)
    return 0


cdef void signatures_clean(Signatures *signatures, uint32_t moment) noexcept nogil:
    cdef SieveLink *at = signatures.order.oldest
    cdef Entry *entry
    while at != NULL:
        entry = <Entry *>at
        at = at.newer
        if <int>(entry.expires - moment) < 0:
            unlink_entry(signatures, entry)


cdef SieveLink *signatures_retired(Signatures *signatures) noexcept nogil:
    cdef SieveLink *retired = signatures.retired
    signatures.retired = NULL
    return retired


cdef void signatures_free(SieveLink *retired) noexcept nogil:
    """A chain of entries through `older`."""
    cdef SieveLink *entry
    while retired != NULL:
        entry = retired
        retired = entry.older
        free(entry)
