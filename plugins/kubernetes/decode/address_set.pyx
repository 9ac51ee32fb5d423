"""A set of IP addresses; see address_set.pxd."""
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp
from fastdns.api.random cimport hash_octets, hash_seed


cdef int address_set_begin(AddressSet *addresses, uint32_t count) noexcept nogil:
    cdef uint32_t size = 4
    addresses.slots = NULL
    addresses.mask = 0
    if count == 0:
        return 0
    while size < 2 * count:
        size *= 2
    addresses.slots = <AddressSlot *>calloc(size, sizeof(AddressSlot))
    addresses.mask = size - 1
    return 0 if addresses.slots != NULL else -1


cdef AddressSlot *slot_of(const AddressSet *addresses, const uint8_t *ip, uint8_t family) noexcept nogil:
    """The slot of an address, or the free one where it belongs."""
    cdef uint32_t size = 4 if family == 4 else 16
    cdef uint32_t i = <uint32_t>hash_octets(ip, size, hash_seed) & addresses.mask
    cdef AddressSlot *slot
    while True:
        slot = &addresses.slots[i]
        if slot.ip == NULL or (slot.family == family and memcmp(slot.ip, ip, size) == 0):
            return slot
        i = (i + 1) & addresses.mask


cdef bint address_set_add(AddressSet *addresses, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef AddressSlot *slot = slot_of(addresses, ip, family)
    if slot.ip != NULL:
        return False
    slot.ip = ip
    slot.family = family
    return True


cdef bint address_set_has(const AddressSet *addresses, const uint8_t *ip, uint8_t family) noexcept nogil:
    return addresses.slots != NULL and slot_of(addresses, ip, family).ip != NULL


cdef void address_set_end(AddressSet *addresses) noexcept nogil:
    free(addresses.slots)
    addresses.slots = NULL
