"""Places of transfers. The contract is in _places.pxd."""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.api.memory cimport atomic_load64, atomic_store64, atomic_swap64

cdef enum:
    TIMES_FREE = 3

cdef uint64_t request_places[REQUESTS_MAX]
cdef uint64_t transfer_places[TRANSFERS_MAX]
cdef uint64_t encoding_places[ENCODINGS_MAX]
cdef uint64_t stream_places[STREAMS_MAX]

requests.count = REQUESTS_MAX
requests.networks = request_places
transfers.count = TRANSFERS_MAX
transfers.networks = transfer_places
encodings.count = ENCODINGS_MAX
encodings.networks = encoding_places
streams.count = STREAMS_MAX
streams.networks = stream_places


cdef int place_take(Places *places, uint64_t network) noexcept nogil:
    cdef uint64_t key = network | <uint64_t>1 << 63, taken
    cdef uint32_t i, own = 0, free = 0
    for i in range(places.count):
        taken = atomic_load64(&places.networks[i])
        own += taken == key
        free += taken == 0
    if own >= TIMES_FREE * free:
        return NO_PLACE
    for i in range(places.count):
        if atomic_load64(&places.networks[i]) == 0 and atomic_swap64(&places.networks[i], 0, key):
            return <int>i
    return NO_PLACE


cdef void place_give(Places *places, int place) noexcept nogil:
    if place != NO_PLACE:
        atomic_store64(&places.networks[place], 0)
