"""The cache of signatures. The contract is in _signatures.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy
from fastdns.system.atomic cimport atomic_load_pointer, atomic_peek8, atomic_poke8, atomic_poke32, atomic_store_pointer
from fastdns._wire cimport wire_multiplier, wire_seed

cdef enum:
    OCTETS_EACH = 1024          # of memory for each entry of the capacity

cdef struct Retired:            # comes before an entry in its memory
    Entry *next


cdef inline Retired *retired_of(Entry *entry) noexcept nogil:
    return <Retired *>entry - 1


cdef int signatures_open(Signatures *signatures, uint32_t capacity) noexcept nogil:
    cdef uint32_t buckets = 64
    while buckets < capacity:
        buckets *= 2
    signatures.capacity = capacity
    signatures.mask = buckets - 1
    signatures.octets_limit = <uint64_t>capacity * OCTETS_EACH
    signatures.buckets = <Entry **>calloc(buckets, sizeof(Entry *))
    signatures.ring = <Entry **>calloc(capacity, sizeof(Entry *))
    if signatures.buckets == NULL or signatures.ring == NULL:
        return -1
    return 0


cdef void signatures_close(Signatures *signatures) noexcept nogil:
    cdef uint32_t i
    if signatures.ring != NULL:
        for i in range(signatures.count):
            free(retired_of(signatures.ring[i]))
    signatures_free(signatures.retired)
    free(signatures.ring)
    free(signatures.buckets)
    signatures.ring = signatures.buckets = NULL
    signatures.retired = NULL
    signatures.count = 0


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
            if not atomic_peek8(&entry.used):
                atomic_poke8(&entry.used, 1)
            return entry
        entry = <Entry *>atomic_load_pointer(<void **>&entry.next)
    return NULL


cdef void unlink_entry(Signatures *signatures, Entry *entry) noexcept nogil:
    """Out of its bucket and the ring, whose last one takes its place there."""
    cdef Entry **link = &signatures.buckets[entry.hash & signatures.mask]
    cdef Entry *last
    while link[0] != entry:
        link = &link[0].next
    atomic_store_pointer(<void **>link, entry.next)
    atomic_poke32(&signatures.count, signatures.count - 1)
    last = signatures.ring[signatures.count]
    signatures.ring[entry.place] = last
    last.place = entry.place
    signatures.octets -= sizeof(Entry) + entry.key_length + entry.octets
    signatures.ring[signatures.count] = NULL
    retired_of(entry).next = signatures.retired     # its own `next` stays: a reader may stand on it
    signatures.retired = entry


cdef void make_room(Signatures *signatures, uint64_t size) noexcept nogil:
    cdef Entry *entry
    while signatures.count and (signatures.count >= signatures.capacity or signatures.octets + size > signatures.octets_limit):
        if signatures.hand >= signatures.count:
            signatures.hand = 0
        entry = signatures.ring[signatures.hand]
        if atomic_peek8(&entry.used):
            atomic_poke8(&entry.used, 0)
            signatures.hand += 1
        else:
            unlink_entry(signatures, entry)


cdef int signatures_put(Signatures *signatures, const uint8_t *key, uint32_t length, uint32_t expires, const uint8_t *octets, uint32_t size) noexcept nogil:
    cdef uint64_t hash = signatures_hash(key, length), all = sizeof(Entry) + length + size
    cdef Entry *entry = signatures_find(signatures, key, length, hash)
    cdef Retired *memory
    if entry != NULL:
        unlink_entry(signatures, entry)
    if all > signatures.octets_limit:
        return 0
    make_room(signatures, all)
    memory = <Retired *>malloc(sizeof(Retired) + all)
    if memory == NULL:
        return -1
    entry = <Entry *>(memory + 1)
    entry.hash = hash
    entry.place = signatures.count
    entry.expires = expires
    entry.key_length = length
    entry.octets = size
    entry.used = 0
    memcpy(entry + 1, key, length)
    memcpy(<uint8_t *>(entry + 1) + length, octets, size)
    signatures.ring[signatures.count] = entry
    atomic_poke32(&signatures.count, signatures.count + 1)
    signatures.octets += all
    entry.next = signatures.buckets[hash & signatures.mask]
    atomic_store_pointer(<void **>&signatures.buckets[hash & signatures.mask], entry)
    return 0


cdef void signatures_clean(Signatures *signatures, uint32_t moment) noexcept nogil:
    cdef uint32_t i = 0
    while i < signatures.count:
        if <int>(signatures.ring[i].expires - moment) < 0:
            unlink_entry(signatures, signatures.ring[i])
        else:
            i += 1


cdef Entry *signatures_settle(Signatures *signatures) noexcept nogil:
    cdef Entry *retired = signatures.retired
    signatures.retired = NULL
    return retired


cdef void signatures_free(Entry *retired) noexcept nogil:
    cdef Entry *entry
    while retired != NULL:
        entry = retired
        retired = retired_of(entry).next
        free(retired_of(entry))
