"""What the agent has confirmed. The contract is in _known.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.string cimport memcpy, memset
from fastdns.api.random cimport hash_octets, hash_seed


cdef const KnownSlot *find(const Known *known, Subject *subject, const uint8_t *address, uint32_t length, uint64_t *key) noexcept nogil:
    """The set of slots that an address belongs to, and its key."""
    cdef uint64_t region = hash_octets(subject.client, sizeof(subject.client), hash_seed) & (REGIONS - 1)
    memset(subject.address, 0, sizeof(subject.address))
    memcpy(subject.address, address, length)
    subject.families[1] = 4 if length == 4 else 6
    key[0] = hash_octets(<const uint8_t *>subject, sizeof(Subject), hash_seed)
    return &known.slots[(region * REGION_SETS + (key[0] >> 32) % REGION_SETS) * SET_SLOTS]


cdef int64_t known_until(const Known *known, Subject *subject, const uint8_t *address, uint32_t length) noexcept nogil:
    cdef uint64_t key
    cdef const KnownSlot *slots = find(known, subject, address, length, &key)
    cdef uint32_t i
    for i in range(SET_SLOTS):
        if slots[i].key == key:
            return slots[i].until
    return 0


cdef void known_put(Known *known, Subject *subject, const uint8_t *address, uint32_t length, int64_t until) noexcept nogil:
    cdef uint64_t key
    cdef KnownSlot *slots = <KnownSlot *>find(known, subject, address, length, &key)
    cdef KnownSlot *oldest = slots
    cdef uint32_t i
    for i in range(SET_SLOTS):
        if slots[i].key == key:
            slots[i].until = max(slots[i].until, until)
            return
        if slots[i].until < oldest.until:
            oldest = &slots[i]
    oldest.key = key
    oldest.until = until
