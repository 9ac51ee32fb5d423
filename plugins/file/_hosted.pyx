"""The native handler of hosted zones (azure, clouddns, route53): the answers of file, from zones of which several may have one name.

They are looked at in their order, until one has an answer, or the name without the type. What the last one says stands.
"""
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from fastdns.api.query cimport NEXT, Handler, Prefetch, Query, Verdict, query_scratch
from fastdns.api.names cimport ZoneList, Zones
from fastdns.api.records cimport ZoneSet, ZoneState, zone_match, zone_slots
from fastdns.plugins.file._answer cimport ZoneLook, zone_prefetch_next, zone_prefetch, zone_query, zone_resume
from fastdns.plugins.file._file cimport FileHandler, FileState, pass_on
from fastdns.plugins.file._sections cimport ANSWER_PASS_REFERRALS, ANSWER_PLAIN_REFERRALS
from fastdns.plugins.transfer.name_observer import ZoneObserver

cdef struct HostedState:
    FileState *sets             # owned by the handler: in each the zone that comes next of its name. A name that a set lacks is in none after it
    uint32_t count              # at least 1
    const Zones *all_names      # what goes on from a zone that is not the last one

cdef struct HostedScratch:
    ZoneLook look
    uint32_t set                # of the zone that answers


cdef Prefetch hosted_prefetch(Handler *self, Query *q) noexcept nogil:
    return zone_prefetch((<const HostedState *>self.state).sets[0].zones, q, &(<HostedScratch *>query_scratch(self, q)).look)


cdef Prefetch hosted_prefetch_next(Handler *self, Query *q, uint32_t step) noexcept nogil:
    return zone_prefetch_next(q, &(<HostedScratch *>query_scratch(self, q)).look)


cdef inline const ZoneState *zone_of(const HostedState *state, const Query *q, uint32_t number) noexcept nogil:
    return zone_match(zone_slots(state.sets[number].zones), q.name)


cdef Verdict hosted_query(Handler *self, Query *q) noexcept nogil:
    cdef const HostedState *state = <const HostedState *>self.state
    cdef HostedScratch *scratch = <HostedScratch *>query_scratch(self, q)
    cdef const ZoneState *zone = zone_of(state, q, 0)
    cdef const ZoneState *after
    cdef Verdict verdict
    scratch.set = 0
    if zone == NULL:
        return pass_on(self, q)
    while scratch.set + 1 < state.count:
        after = zone_of(state, q, scratch.set + 1)
        if after == NULL or after.index.origin.length != zone.index.origin.length:
            break
        verdict = zone_query(self, q, zone, state.all_names, ANSWER_PLAIN_REFERRALS | ANSWER_PASS_REFERRALS)
        if verdict != NEXT:
            return verdict
        zone = after
        scratch.set += 1
    return zone_query(self, q, zone, state.sets[0].fall, ANSWER_PLAIN_REFERRALS | ANSWER_PASS_REFERRALS)


cdef Verdict hosted_resume(Handler *self, Query *q) noexcept nogil:
    return zone_resume(self, q, zone_of(<const HostedState *>self.state, q, (<HostedScratch *>query_scratch(self, q)).set), 0)


cdef class HostedHandler(FileHandler):
    cdef HostedState hosted
    cdef tuple others
    cdef ZoneList all_names

    def __cinit__(self, name, ZoneSet zones not None, fall=(), *, others=()):
        cdef ZoneSet other
        cdef uint32_t at = 1
        self.others = tuple(others)
        self.all_names = ZoneList(["."])
        self.hosted.all_names = &self.all_names.zones
        self.hosted.count = <uint32_t>(1 + len(self.others))
        self.hosted.sets = <FileState *>calloc(self.hosted.count, sizeof(FileState))
        if self.hosted.sets == NULL:
            raise MemoryError
        self.hosted.sets[0] = self.state
        for other in self.others:
            self.hosted.sets[at].zones = &other.slots
            at += 1
        self.handler.state = &self.hosted
        self.handler.scratch_size = sizeof(HostedScratch)
        self.handler.prefetch = hosted_prefetch
        self.handler.prefetch_next = hosted_prefetch_next
        self.handler.query = hosted_query
        self.handler.resume = hosted_resume

    def __init__(self, name, zones, fall=(), *, others=()):
        super().__init__(name, zones, fall)

    def name_observer(self, unkept):
        return ZoneObserver([self.zones, *self.others], unkept)

    def __dealloc__(self):
        free(self.hosted.sets)
