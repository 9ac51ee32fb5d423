"""What the agent has confirmed: for which client, of which name, which address, until when.

Each worker has a table of its own. A client has a region of it by the hash of its address, so who asks for many names displaces what is known of few others.
What was displaced is asked again.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t

cdef enum:
    REGIONS = 256
    REGION_SETS = 64
    SET_SLOTS = 4

cdef struct KnownSlot:
    uint64_t key                # keyed hash of client, name and address
    int64_t until               # ns, monotonic; 0: free

cdef struct Known:
    KnownSlot slots[REGIONS * REGION_SETS * SET_SLOTS]

cdef struct Subject:            # whom and what addresses are for
    uint8_t client[16]
    uint64_t name               # keyed hash of its lower-case wire form
    uint8_t address[16]         # set by known_until and known_put; zeros behind an IPv4 address
    uint8_t families[8]         # of client and address (4 or 6); zeros

# Until when (ns, monotonic) an address of 4 or 16 octets is known; 0: it is not.
cdef int64_t known_until(const Known *known, Subject *subject, const uint8_t *address, uint32_t length) noexcept nogil
# It is known until then, or longer.
cdef void known_put(Known *known, Subject *subject, const uint8_t *address, uint32_t length, int64_t until) noexcept nogil
