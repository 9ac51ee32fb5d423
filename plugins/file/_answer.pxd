"""Answers from a zone, as file gives them: what auto and secondary share.

A handler calls zone_query from its `query` hook and zone_resume from `resume`; both give the verdict. The table of the zone is read once for
an answer, so it is of one version (what is found through the server, after parking, is followed by authority of the version of that moment).
"""
from libc.stdint cimport uint8_t
from fastdns.api.query cimport Handler, Prefetch, Query, Verdict
from fastdns.api.names cimport Zones
from fastdns.api.records cimport IndexTable, ZoneState

cdef struct ZoneLook:           # what looking ahead keeps in the scratch from one round to the next
    const IndexTable *table

# For `prefetch` and `prefetch_next` hooks: zones is of the ZoneSet.
cdef Prefetch zone_prefetch(void **zones, Query *q, ZoneLook *look) noexcept nogil
cdef Prefetch zone_prefetch_next(Query *q, const ZoneLook *look) noexcept nogil
# ANSWERED, FAILED, PARKED; NEXT when nothing is there and the name is in `fall` (may be NULL). The name is in the zone.
cdef Verdict zone_query(Handler *self, Query *q, const ZoneState *zone, const Zones *fall, uint8_t options) noexcept nogil
# The child that looked up a target outside of the zone is done. zone NULL: it is served no more.
cdef Verdict zone_resume(Handler *self, Query *q, const ZoneState *zone, uint8_t options) noexcept nogil
