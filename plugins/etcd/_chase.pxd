"""Addresses and texts of a name, through the host names among its services: inside the zone by itself, outside through the server."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from fastdns.api.query cimport Handler, Query, Verdict
from fastdns.api.names cimport ZoneName, Zones
from fastdns.plugins.etcd._lookup cimport Found, Lookup
from fastdns.plugins.etcd._snapshot cimport Service, Snapshot, Source

cdef enum:
    LINKS_MAX = 10                  # aliases before the last one

cdef struct Etcd:                   # one server block's
    Source *source                  # borrowed, like the next
    const Zones *zones
    const Zones *fallthrough        # NULL: never
    uint32_t least                  # TTL that a lease gives, seconds
    uint32_t most
    bint apex_fallback              # the zone's name has the addresses of all names below it, where apex.dns has none

cdef struct Target:
    const uint8_t *wire
    uint32_t ttl
    uint8_t length

cdef struct Frame:                  # a name whose host names are followed; all it points to is in the query's arena
    Frame *below
    const uint8_t *name
    uint8_t name_length
    uint8_t depth
    uint32_t next                   # target to be followed
    uint32_t count
    uint32_t mark                   # records before the alias that is followed now
    Target targets[1]

cdef struct Extras:                 # targets of SRV and MX records, in the query's arena
    uint32_t next
    uint32_t count
    uint8_t second                  # the IPv4 addresses are there, it is the turn of the others
    Target targets[1]

cdef struct Chase:                  # in the query's scratch
    Frame *top
    Extras *extras
    uint8_t section                 # that records go to
    uint16_t qtype                  # that is followed

# Puts the records of a looked-up name into the reply, and what has to be followed on the stack.
cdef bint chase_push(const Etcd *etcd, Query *q, Chase *chase, Lookup *lookup, const uint8_t *owner, uint8_t owner_length) noexcept nogil
# Follows all there is: ANSWERED, PARKED or FAILED.
cdef Verdict chase_go(Handler *self, Query *q, const ZoneName *zone) noexcept nogil
# The child of a parked chase is done.
cdef Verdict chase_resume(Handler *self, Query *q, const ZoneName *zone) noexcept nogil
# Looks a name up for addresses or texts: of the zone itself what is below apex.dns, if there is something.
cdef Found lookup_data(const Etcd *etcd, Lookup *lookup, const Snapshot *snapshot, const uint8_t *name, uint32_t length, const ZoneName *zone,
                       uint16_t qtype) noexcept nogil
cdef uint32_t ttl_of(const Etcd *etcd, const Query *q, const Lookup *lookup, const Service *service) noexcept nogil
