"""The native handler of auto: the answers of file, from zones that come and go."""
from fastdns.api.query cimport NEXT, Handler, Query, Verdict
from fastdns.api.names cimport ZoneList, Zones, zones_hold
from fastdns.api.records cimport ZoneSet, ZoneState, zone_match, zone_slots
from fastdns.plugins.file._answer cimport zone_query
from fastdns.plugins.file._file cimport FileHandler, FileState, pass_on
from fastdns.plugins.file._sections cimport ANSWER_PLAIN_REFERRALS

cdef struct AutoState:
    FileState file              # first: file's hooks read it
    const Zones *origins        # names that are looked at


cdef Verdict auto_query(Handler *self, Query *q) noexcept nogil:
    cdef const AutoState *state = <const AutoState *>self.state
    cdef const ZoneState *zone
    if not zones_hold(state.origins, q.name):
        return NEXT
    zone = zone_match(zone_slots(state.file.zones), q.name)
    return zone_query(self, q, zone, NULL, ANSWER_PLAIN_REFERRALS) if zone != NULL else pass_on(self, q)


cdef class AutoHandler(FileHandler):
    cdef AutoState looked_at
    cdef ZoneList origins

    def __cinit__(self, name, ZoneSet zones not None, fall=(), *, origins=()):
        self.origins = ZoneList(origins)
        self.looked_at.file = self.state
        self.looked_at.origins = &self.origins.zones
        self.handler.state = &self.looked_at
        self.handler.query = auto_query

    def __init__(self, name, zones, *, origins):
        super().__init__(name, zones)
