"""The block of a DS query; see walk/match.pxd."""
from libc.stdint cimport uint32_t
from fastdns.walk.query cimport Query, Zone


cdef Zone *match_parent(Query *q) noexcept nogil:
    cdef Zone *zone
    cdef Zone *found = NULL
    cdef uint32_t label = 0, labels = q.name.labels
    while label < labels or labels == 0 and label == 0:
        zone = match_find(q.server, q.name, label) if labels else q.server.root
        while zone != NULL:
            if zone.chain == NULL:
                return NULL
            if match_filters(zone, q):
                found = zone
            zone = zone.same
        label += 1
    return found if found != NULL else match_root(q)
