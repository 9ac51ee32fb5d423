"""The services that a name asks for."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from fastdns.api.names cimport NAME_MAX
from fastdns.plugins.etcd._snapshot cimport Service, Snapshot

cdef enum Found:
    FOUND_NOTHING                   # there is no such key: a name error
    FOUND_SOME                      # keys; whether there are services for the type is for the walk to say
    FOUND_BROKEN                    # one of them cannot be read: `broken`

cdef struct Lookup:
    const Snapshot *snapshot        # borrowed until the batch ends
    const Service *broken
    uint32_t first                  # services [first, end)
    uint32_t end
    uint32_t next
    uint16_t qtype
    uint8_t star                    # the name has labels * or any: keys are compared with it
    uint16_t path_length            # of the name as a key
    uint8_t path[NAME_MAX]
    uint8_t grouped                 # only services of this group, and of none
    uint32_t group
    uint16_t group_length

# Looks a lower-case name in wire form up: the keys below it, or its own if there are none; with `exact` only its own.
cdef Found lookup_begin(Lookup *lookup, const Snapshot *snapshot, const uint8_t *name, bint exact, uint16_t qtype) noexcept nogil
# The next service; NULL at the end.
cdef const Service *lookup_next(Lookup *lookup) noexcept nogil
# Starts again.
cdef void lookup_again(Lookup *lookup) noexcept nogil
# The TTL of a service's records in seconds. `least` and `most` bound what a lease gives; now in ns, monotonic.
cdef uint32_t service_ttl(const Snapshot *snapshot, const Service *service, uint32_t least, uint32_t most, int64_t now) noexcept nogil
