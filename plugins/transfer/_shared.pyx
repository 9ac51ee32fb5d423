"""Transfers that clients share. The contract is in _shared.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp
from fastdns.api.memory cimport atomic_load_pointer, atomic_store64, atomic_store_pointer, epoch_mark, epoch_passed
from fastdns.plugins.transfer._encoded cimport Encoded, encoded_ref, encoded_unref


cdef Encoded *shared_find(SharedZone *zone, const SharedKey *key, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef const SharedSet *found = <const SharedSet *>atomic_load_pointer(<void **>&zone.set)
    cdef const Encoded *encoded
    cdef uint32_t i
    if found == NULL:
        return NULL
    for i in range(found.count):
        encoded = found.encoded[i]
        if memcmp(&found.keys[i], key, sizeof(SharedKey)) == 0 and encoded.soa.owner_length == length and memcmp(encoded.soa.owner, name, length) == 0:
            return encoded_ref(found.encoded[i])
    return NULL


cdef void replace(SharedZone *zone, SharedSet *new) noexcept:
    cdef SharedSet *old = zone.set
    atomic_store_pointer(<void **>&zone.set, new)
    if old != NULL:
        epoch_mark(&old.mark)
        old.next = zone.retired
        zone.retired = old
    free_retired(zone, False)


cdef void free_retired(SharedZone *zone, bint all) noexcept:
    cdef SharedSet **at = &zone.retired
    cdef SharedSet *one
    cdef uint32_t i
    while at[0] != NULL:
        one = at[0]
        if not all and not epoch_passed(&one.mark):
            at = &one.next
            continue
        at[0] = one.next
        for i in range(one.count):
            encoded_unref(one.encoded[i])
        free(one)


cdef bint shared_put(SharedZone *zone, uint64_t version, const SharedKey *key, Encoded *encoded) noexcept:
    cdef SharedSet *new
    cdef uint32_t i, first = 0
    if zone.version != version:
        return True
    new = <SharedSet *>calloc(1, sizeof(SharedSet))
    if new == NULL:
        return False
    if zone.set != NULL:
        first = 1 if zone.set.count == SHARED_MAX else 0
        for i in range(first, zone.set.count):
            new.keys[new.count] = zone.set.keys[i]
            new.encoded[new.count] = encoded_ref(zone.set.encoded[i])
            new.count += 1
    new.keys[new.count] = key[0]
    new.encoded[new.count] = encoded_ref(encoded)
    new.count += 1
    replace(zone, new)
    return True


cdef void shared_clear(SharedZone *zone) noexcept:
    atomic_store64(&zone.version, zone.version + 1)
    replace(zone, NULL)


cdef void shared_free(SharedZone *zone) noexcept:
    if zone.set != NULL:
        zone.set.next = zone.retired
        zone.retired = zone.set
        zone.set = NULL
    free_retired(zone, True)
