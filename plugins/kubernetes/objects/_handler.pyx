"""The native handler of zones that are made of objects: the answers of file, without NS records beside them."""
from fastdns.api.query cimport ANSWERED, NEXT, Handler, Query, Verdict, query_answer, query_do, query_fail
from fastdns.api.names cimport ZoneList, ZoneName, Zones, zones_match
from fastdns.api.records cimport ZoneSet, ZoneState, index_current, table_exact, zone_match, zone_slots, zone_version
from fastdns.api.wire cimport FLAG_AA, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_AXFR, TYPE_IXFR
from fastdns.plugins.file._answer cimport zone_query, zone_resume
from fastdns.plugins.file._file cimport FileHandler, FileState
from fastdns.plugins.file._sections cimport ANSWER_ALONE, Ask, add_soa

cdef struct ObjectState:
    FileState file              # first: file's hooks for prefetching read it
    const Zones *hosts          # names that exist without records: the servers', and those between them and their zones


cdef Verdict object_query(Handler *self, Query *q) noexcept nogil:
    cdef const ObjectState *state = <const ObjectState *>self.state
    cdef const ZoneState *zone = zone_match(zone_slots(state.file.zones), q.name)
    cdef const ZoneName *host
    cdef Ask ask
    if zone == NULL:
        return NEXT
    ask.table = index_current(zone.index)
    ask.version = zone_version(ask.table)
    if ask.version == NULL:
        return query_fail(q, RCODE_SERVFAIL, b"could not sync required resources")
    host = zones_match(state.hosts, q.name)
    if host != NULL and host.length == q.name.length and q.qtype != TYPE_AXFR and q.qtype != TYPE_IXFR and (
            table_exact(ask.table, q.name.lower, q.name.length, q.name.hash[0]) == NULL):
        ask.q = q
        ask.zone = zone
        ask.signed = query_do(q)
        ask.options = ANSWER_ALONE
        query_answer(q, RCODE_NOERROR, FLAG_AA)
        add_soa(&ask)
        return ANSWERED
    return zone_query(self, q, zone, state.file.fall, ANSWER_ALONE)


cdef Verdict object_resume(Handler *self, Query *q) noexcept nogil:
    return zone_resume(self, q, zone_match(zone_slots((<const ObjectState *>self.state).file.zones), q.name), ANSWER_ALONE)


cdef class ObjectHandler(FileHandler):
    cdef ObjectState objects
    cdef ZoneList hosts

    def __cinit__(self, name, ZoneSet zones not None, fall=(), *, hosts=()):
        self.hosts = ZoneList(list(hosts))
        self.objects.hosts = &self.hosts.zones
        self.objects.file = self.state
        self.handler.state = &self.objects
        self.handler.query = object_query
        self.handler.resume = object_resume

    def __init__(self, name, zones, fall=(), *, hosts=()):
        super().__init__(name, zones, fall)
