"""Transfers of a zone that clients share: by what a client asks and has, since the zone's last version.

Workers find them without a lock. Those who prepare replace the whole set, under the GIL, and free the former one after an epoch.

Memory order: `SharedZone.set` is stored when the set is complete, and a set is constant; encodings are counted.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.api.memory cimport EpochMark
from fastdns.plugins.transfer._digest cimport DIGEST_OCTETS
from fastdns.plugins.transfer._encoded cimport Encoded

cdef enum:
    SHARED_MAX = 24                 # of a zone; the oldest goes for a new one

cdef struct SharedKey:              # what a client asks and has; zeroed at first
    uint32_t serial
    uint8_t incremental             # else AXFR, and the rest is 0
    uint8_t shown                   # its records have the digest
    uint8_t digest[DIGEST_OCTETS]

cdef struct SharedSet:
    SharedSet *next                 # retired before it
    EpochMark mark                  # when it was retired
    uint32_t count
    SharedKey keys[SHARED_MAX]
    Encoded *encoded[SHARED_MAX]    # a reference each

cdef struct SharedZone:             # of a `to` list: its zones, but for their names
    SharedSet *set                  # atomic; NULL: none
    SharedSet *retired
    uint64_t version                # atomic: how often a zone was told to have changed; written with the GIL

# On a worker. A reference, or NULL.
cdef Encoded *shared_find(SharedZone *zone, const SharedKey *key, const uint8_t *name, uint32_t length) noexcept nogil
# With the GIL. Adds a reference of its own, unless the zone has changed since it had this version. False: memory ran out.
cdef bint shared_put(SharedZone *zone, uint64_t version, const SharedKey *key, Encoded *encoded) noexcept
# The zone has changed.
cdef void shared_clear(SharedZone *zone) noexcept
# No worker looks at it any more.
cdef void shared_free(SharedZone *zone) noexcept
