"""From a question to the block that takes it (spec/server.md 3)."""
from libc.stdint cimport uint32_t
from fastdns.walk.query cimport TAILORED_WALK, Query, ServerTable, Zone
from fastdns._wire cimport TYPE_DS, Name, octets_equal

cdef inline Zone *match_find(const ServerTable *server, const Name *name, uint32_t label) noexcept nogil:
    cdef uint32_t h = name.hash[label]
    cdef uint32_t slot = h & server.mask
    cdef uint32_t length = name.length - name.offset[label]
    cdef Zone *zone = server.slots[slot]
    while zone != NULL:
        if zone.hash == h and zone.length == length and octets_equal(zone.wire, name.lower + name.offset[label], length):
            return zone
        slot = (slot + 1) & server.mask
        zone = server.slots[slot]
    return NULL

cdef inline bint match_filters(Zone *zone, Query *q) noexcept nogil:
    cdef uint32_t i
    if zone.filter_count:
        q.tailored |= TAILORED_WALK
    for i in range(zone.filter_count):
        if not zone.filters[i](zone.filter_handlers[i], q):
            return False
    return True

cdef inline Zone *match_root(Query *q) noexcept nogil:
    cdef Zone *zone = q.server.root
    while zone != NULL and (zone.chain == NULL or not match_filters(zone, q)):
        zone = zone.same
    return zone

# The block for a DS query: of all blocks of the zones that its name is in, but for the root's, the last one that takes it. So the zone above comes
# before the zone itself and, as in CoreDNS, a later view before an earlier one.
cdef Zone *match_parent(Query *q) noexcept nogil

cdef inline Zone *match_zone(Query *q) noexcept nogil:
    cdef const ServerTable *server = q.server
    cdef Zone *zone
    cdef uint32_t label = 0, labels = q.name.labels
    if q.qtype == TYPE_DS:
        return match_parent(q)
    if labels > server.longest:
        label = labels - server.longest
    while label < labels:
        zone = match_find(server, q.name, label)
        while zone != NULL:
            if zone.chain == NULL:
                return NULL
            if match_filters(zone, q):
                return zone
            zone = zone.same
        label += 1
    return match_root(q)
