"""The native handler of file: which zone, and what it says."""
from libc.stdint cimport uint32_t
from fastdns.api.query cimport DROPPED, NEXT, Handler, NativeHandler, Prefetch, Query, Verdict, handler_init, query_fail, query_scratch
from fastdns.api.names cimport ZoneList
from fastdns.api.wire cimport OPCODE_NOTIFY, RCODE_REFUSED, TYPE_AXFR, TYPE_IXFR, flags_opcode
from fastdns.api.records cimport Zone, ZoneSet, ZoneState, zone_match, zone_slots
from fastdns.api.log cimport LOG_INFO, LOG_LINE_MAX, log_put
from fastdns.api.text cimport Text, text_address, text_name, text_put
from fastdns.plugins.file._answer cimport ZoneLook, zone_prefetch_next, zone_prefetch, zone_query, zone_resume
from fastdns.plugins.transfer.journal import give, size
from fastdns.plugins.transfer.name_observer import ZoneObserver


cdef Verdict pass_on(Handler *self, Query *q) noexcept nogil:
    return query_fail(q, RCODE_REFUSED, NULL) if self.index + 1 == self.chain.count else NEXT


cdef void tell_notify(const Query *q, const ZoneState *zone) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    text_put(&text, b"Dropping notify from ", 21)
    text_address(&text, &q.client)
    text_put(&text, b" for ", 5)
    text_name(&text, zone.index.origin.lower)
    log_put(q.worker.id, LOG_INFO, b"file", line, text.used)


cdef Prefetch file_prefetch(Handler *self, Query *q) noexcept nogil:
    return zone_prefetch((<const FileState *>self.state).zones, q, <ZoneLook *>query_scratch(self, q))


cdef Prefetch file_prefetch_next(Handler *self, Query *q, uint32_t step) noexcept nogil:
    return zone_prefetch_next(q, <const ZoneLook *>query_scratch(self, q))


cdef Verdict file_query(Handler *self, Query *q) noexcept nogil:
    cdef const FileState *state = <const FileState *>self.state
    cdef const ZoneState *zone = zone_match(zone_slots(state.zones), q.name)
    if zone == NULL:
        return pass_on(self, q)
    if flags_opcode(q.message.flags) == OPCODE_NOTIFY and q.qtype != TYPE_AXFR and q.qtype != TYPE_IXFR:
        tell_notify(q, zone)
        return DROPPED
    return zone_query(self, q, zone, state.fall, 0)


cdef Verdict file_resume(Handler *self, Query *q) noexcept nogil:
    cdef const ZoneState *zone = zone_match(zone_slots((<const FileState *>self.state).zones), q.name)
    return zone_resume(self, q, zone, 0)


cdef class FileHandler(NativeHandler):

    def __cinit__(self, name, ZoneSet zones not None, fall=(), **_):
        handler_init(self)
        self.zones = zones
        self.fall = ZoneList(fall)
        self.state.zones = &zones.slots
        if self.fall.zones.count:
            self.state.fall = &self.fall.zones
        self.handler.state = &self.state
        self.handler.prefetch = file_prefetch
        self.handler.prefetch_next = file_prefetch_next
        self.handler.scratch_size = sizeof(ZoneLook)
        self.handler.query = file_query
        self.handler.resume = file_resume

    def __init__(self, name, zones, fall=()):
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
