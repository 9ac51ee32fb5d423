"""The endpoints and ports of a headless service that a zone has.

SRV records are the product of endpoints and ports, which a few small objects make as large as memory. A zone has ENDPOINTS_MOST endpoints of a service, and
SRV_FREE SRV records and SRV_EACH for each of its endpoints. Beyond, each slice loses its last ports, so that the names of the other ports are complete.

Objects alone decide, not their order: servers that have the same objects have the same records.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.plugins.kubernetes.store.records cimport EndpointRecord, PortRecord, SliceRecord

cdef enum:
    ENDPOINTS_MOST = 15000
    SRV_FREE = 4096
    SRV_EACH = 4

cdef struct ChosenEndpoint:         # borrowed from the store
    const SliceRecord *slice
    const EndpointRecord *endpoint

cdef struct PortOrder:
    const char *text                # of the slice
    const PortRecord *port
    uint32_t number                 # of the port in the slice

cdef struct Selection:
    const SliceRecord *slices       # borrowed; all endpoints are chosen where `chosen` is NULL
    ChosenEndpoint *chosen          # owned; grouped by slice
    uint32_t count                  # of chosen
    uint32_t ports_most             # of a slice
    PortOrder *order                # owned; room for the ports of any slice
    uint32_t *ports                 # owned; numbers of the ports of slice `current`
    uint32_t port_count
    const SliceRecord *current
    const SliceRecord *slice        # cursor
    uint32_t next
    uint8_t unnamed
    uint64_t endpoints_left_out
    uint64_t ports_left_out         # ports of all chosen endpoints

# Chooses from a service's slices. `unnamed`: ports without a name count. False: memory ran out.
cdef bint selection_begin(Selection *selection, const SliceRecord *slices, bint unnamed) noexcept nogil
cdef void selection_end(Selection *selection) noexcept nogil
# The next endpoint, of which selection.ports has the ports.
cdef bint selection_next(Selection *selection, ChosenEndpoint *out) noexcept nogil
cdef void selection_rewind(Selection *selection) noexcept nogil
