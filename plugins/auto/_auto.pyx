"""The native handler of auto: the answers of file, from zones that come and go."""
from libc.stdint cimport uint32_t
from fastdns.api.query cimport NEXT, Handler, NativeHandler, Prefetch, Query, Verdict, handler_init, query_scratch
from fastdns.api.names cimport ZoneList, Zones, zones_hold
from fastdns.api.records cimport Zone, ZoneSet, ZoneState, zone_match, zone_slots
from fastdns.plugins.file._sections cimport ANSWER_PLAIN_REFERRALS
from fastdns.plugins.file._answer cimport ZoneLook, zone_prefetch_next, zone_prefetch, zone_query, zone_resume
from fastdns.plugins.file._file cimport pass_on
from fastdns.plugins.transfer.journal import give, size
from fastdns.plugins.transfer.name_observer import ZoneObserver

cdef struct AutoState:
    void **zones                # of the ZoneSet
    const Zones *origins        # names that are looked at


cdef Prefetch auto_prefetch(Handler *self, Query *q) noexcept nogil:
    return zone_prefetch((<const AutoState *>self.state).zones, q, <ZoneLook *>query_scratch(self, q))


cdef Prefetch auto_prefetch_next(Handler *self, Query *q, uint32_t step) noexcept nogil:
    return zone_prefetch_next(q, <const ZoneLook *>query_scratch(self, q))


cdef Verdict auto_query(Handler *self, Query *q) noexcept nogil:
    cdef const AutoState *state = <const AutoState *>self.state
    cdef const ZoneState *zone
    if not zones_hold(state.origins, q.name):
        return NEXT
    zone = zone_match(zone_slots(state.zones), q.name)
    return zone_query(self, q, zone, NULL, ANSWER_PLAIN_REFERRALS) if zone != NULL else pass_on(self, q)


cdef Verdict auto_resume(Handler *self, Query *q) noexcept nogil:
    return zone_resume(self, q, zone_match(zone_slots((<const AutoState *>self.state).zones), q.name), 0)


cdef class AutoHandler(NativeHandler):
    cdef AutoState state
    cdef readonly ZoneSet zones
    cdef ZoneList origins

    def __cinit__(self, name, ZoneSet zones not None, origins):
        handler_init(self)
        self.zones = zones
        self.origins = ZoneList(origins)
        self.state.zones = &zones.slots
        self.state.origins = &self.origins.zones
        self.handler.state = &self.state
        self.handler.prefetch = auto_prefetch
        self.handler.prefetch_next = auto_prefetch_next
        self.handler.scratch_size = sizeof(ZoneLook)
        self.handler.query = auto_query
        self.handler.resume = auto_resume

    def __init__(self, name, zones, origins):
        super().__init__(name)

    def transfer(self, bytes zone not None, serial):
        cdef Zone found
        for found in self.zones.zones:
            if found.wire == zone:
                return give(found, serial)
        return None

    def transfer_size(self, bytes zone not None, serial):
        cdef Zone found
        for found in self.zones.zones:
            if found.wire == zone:
                return size(found, serial)
        return 0

    def name_observer(self, unkept):
        return ZoneObserver([self.zones], unkept)
