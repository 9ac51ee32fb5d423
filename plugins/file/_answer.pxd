"""Answers from a zone, as file gives them: what auto and secondary share.

A handler calls zone_query from its `query` hook and zone_resume from `resume`; both give the verdict. The table of the zone is read once for
an answer, so it is of one version (what is found through the server, after parking, is followed by authority of the version of that moment).
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.query cimport Handler, Prefetch, Query, Verdict
from fastdns.api.names cimport Zones
from fastdns.api.records cimport IndexNode, IndexTable, RRset, ZoneState, ZoneVersion

cdef enum:                      # options
    ANSWER_PLAIN_REFERRALS = 1  # auto: AA is cleared even when an alias leads to the delegation

cdef struct Ask:                # a question and what is looked at for it
    Query *q
    const ZoneState *zone
    const IndexTable *table
    const ZoneVersion *version
    uint8_t signed              # DO: signatures and proofs too
    uint8_t options

cdef struct ZoneLook:           # what the prefetch hooks keep in the scratch from one round to the next
    const IndexTable *table

# For `prefetch` and `prefetch_next` hooks: zones is of the ZoneSet.
cdef Prefetch zone_prefetch(void **zones, Query *q, ZoneLook *look) noexcept nogil
cdef Prefetch zone_prefetch_next(Query *q, const ZoneLook *look) noexcept nogil
# ANSWERED, FAILED, PARKED; NEXT when nothing is there and the name is in `fall` (may be NULL). The name is in the zone.
cdef Verdict zone_query(Handler *self, Query *q, const ZoneState *zone, const Zones *fall, uint8_t options) noexcept nogil
# The child that looked up a target outside of the zone is done. zone NULL: it is served no more.
cdef Verdict zone_resume(Handler *self, Query *q, const ZoneState *zone) noexcept nogil

# ---- parts of answers, for _chase ----

cdef void add_set(Ask *ask, int section, const uint8_t *owner, uint8_t owner_length, const IndexNode *node, const RRset *rrset) noexcept nogil
# The signatures of a type at a node.
cdef void add_signatures(Ask *ask, int section, const uint8_t *owner, uint8_t owner_length, const IndexNode *node, uint16_t type) noexcept nogil
cdef void add_soa(Ask *ask) noexcept nogil
cdef void add_servers(Ask *ask, int section) noexcept nogil
cdef void add_referral(Ask *ask, const IndexNode *cut) noexcept nogil
# A and AAAA of the targets of the answer's SRV, MX, SVCB and HTTPS records that are in the zone, each target once.
cdef void add_targets(Ask *ask) noexcept nogil
# Has the node records that CoreDNS's tree would have?
cdef bint is_name(const Ask *ask, const IndexNode *node) noexcept nogil
