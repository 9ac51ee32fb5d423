"""A set of IP addresses: whether one is there costs the same however many there are. Addresses are borrowed, and made by whoever calls."""
from libc.stdint cimport uint8_t, uint32_t

cdef struct AddressSlot:
    const uint8_t *ip               # NULL: free
    uint8_t family

cdef struct AddressSet:
    AddressSlot *slots              # owned; NULL: the set is empty and takes none
    uint32_t mask

# An empty set for `count` addresses at most. -1 when memory ran out. `address_set_end` frees it.
cdef int address_set_begin(AddressSet *addresses, uint32_t count) noexcept nogil
# False: the address was there.
cdef bint address_set_add(AddressSet *addresses, const uint8_t *ip, uint8_t family) noexcept nogil
cdef bint address_set_has(const AddressSet *addresses, const uint8_t *ip, uint8_t family) noexcept nogil
cdef void address_set_end(AddressSet *addresses) noexcept nogil
