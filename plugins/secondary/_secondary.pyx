"""The native handler of secondary.

A NOTIFY parks and goes to a thread of the control side, which knows who may send it.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.api.query cimport (ANSWERED, DROPPED, PARKED, Handler, Prefetch, Query, Verdict, query_answer, query_error, query_fail, query_park,
                                query_scratch)
from fastdns.api.worker cimport OffloadQueue, OffloadRequest, offload_abandon, offload_next, offload_open, offload_return, offload_send, offload_wait
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport FLAG_AA, OPCODE_NOTIFY, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_AXFR, TYPE_IXFR, flags_opcode
from fastdns.api.records cimport ZoneSet, ZoneState, zone_is_stale, zone_match, zone_slots
from fastdns.api.memory cimport atomic_peek8
from fastdns.api.network cimport Address
from fastdns.plugins.file._answer cimport ZoneLook, zone_prefetch_next, zone_prefetch, zone_query, zone_resume
from fastdns.plugins.file._file cimport FileState, FileHandler, pass_on

from fastdns.corefile.errors import defect
from fastdns.telemetry.log import Log

cdef enum:
    NOTICES_MAX = 256           # on their way, in the process; senders ask again (RFC 1996 3.6)
    ACCEPT_SECONDS = 5
    STALE_ANSWER = 3            # extended error (RFC 8914 4.4)

cdef struct Notice:
    OffloadRequest request      # first
    uint64_t handler
    Address client
    uint8_t accepted
    uint8_t zone_length
    uint8_t zone[NAME_MAX]      # lower case

cdef struct Scratch:
    Notice *notice              # NULL: not a NOTIFY
    ZoneLook look
    uint8_t parked


# ---- on the worker ----

cdef Prefetch secondary_prefetch(Handler *self, Query *q) noexcept nogil:
    return zone_prefetch((<const FileState *>self.state).zones, q, &(<Scratch *>query_scratch(self, q)).look)


cdef Prefetch secondary_prefetch_next(Handler *self, Query *q, uint32_t step) noexcept nogil:
    return zone_prefetch_next(q, &(<Scratch *>query_scratch(self, q)).look)


cdef Verdict secondary_query(Handler *self, Query *q) noexcept nogil:
    cdef const FileState *state = <const FileState *>self.state
    cdef const ZoneState *zone = zone_match(zone_slots(state.zones), q.name)
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef Notice *notice
    scratch.notice = NULL
    scratch.parked = 0
    if zone == NULL:
        return pass_on(self, q)
    if flags_opcode(q.message.flags) != OPCODE_NOTIFY or q.qtype == TYPE_AXFR or q.qtype == TYPE_IXFR:
        return answer(q, zone, zone_query(self, q, zone, state.fall, 0))
    notice = <Notice *>calloc(1, sizeof(Notice))
    if notice == NULL or query_park(q, q.worker.now + <int64_t>ACCEPT_SECONDS * 1000000000) < 0:
        free(notice)
        return DROPPED
    notice.handler = number_of(self)
    notice.client = q.client
    notice.zone_length = zone.index.origin.length
    memcpy(notice.zone, zone.index.origin.lower, notice.zone_length)
    if not offload_send(&queue, &notice.request, q):
        free(notice)
        return DROPPED
    scratch.notice = notice
    scratch.parked = 1
    return PARKED


cdef inline Verdict answer(Query *q, const ZoneState *zone, Verdict verdict) noexcept nogil:
    """The verdict for a zone that may be stale."""
    if verdict != ANSWERED or zone == NULL or not zone_is_stale(zone, q.worker.now):
        return verdict
    if atomic_peek8(&zone.stale_fails):
        return query_fail(q, RCODE_SERVFAIL, b"plugin/secondary: no primary has confirmed the zone in time")
    query_error(q, STALE_ANSWER, b"")
    return ANSWERED


cdef inline uint64_t number_of(const Handler *self) noexcept nogil:
    return (<const SecondaryState *>self.state).number


cdef Verdict secondary_resume(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef const ZoneState *zone
    cdef bint accepted
    if not scratch.parked:
        zone = zone_match(zone_slots((<const FileState *>self.state).zones), q.name)
        return answer(q, zone, zone_resume(self, q, zone, 0))
    if scratch.notice == NULL:
        return DROPPED
    accepted = scratch.notice.accepted
    free(scratch.notice)
    scratch.notice = NULL
    if not accepted:
        return DROPPED
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    return ANSWERED


cdef void secondary_abandon(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    if scratch.notice != NULL:
        offload_abandon(&scratch.notice.request)
        scratch.notice = NULL


# ---- to the control side ----

cdef OffloadQueue queue


cdef void end_notice(OffloadRequest *request) noexcept nogil:
    free(request)


def open_queue() -> None:
    offload_open(&queue, NOTICES_MAX, end_notice)


def serve_notifies(accept) -> None:
    cdef Notice *notice
    cdef OffloadRequest *rest
    log = Log("plugin/secondary")
    while True:
        with nogil:
            rest = offload_wait(&queue)
        while rest != NULL:
            notice = <Notice *>rest
            rest = offload_next(rest)
            try:
                notice.accepted = bool(accept(notice.handler, (<const char *>notice.zone)[:notice.zone_length],
                                              (<const char *>notice.client.octets)[:4 if notice.client.family == 4 else 16]))
            except Exception as error:
                log.error(defect(error))
            offload_return(&notice.request)


# ---- the handler ----

cdef class SecondaryHandler(FileHandler):

    def __cinit__(self, name, ZoneSet zones not None, fall=(), *, uint64_t number):
        self.own.file = self.state
        self.own.number = number
        self.handler.state = &self.own
        self.handler.scratch_size = sizeof(Scratch)
        self.handler.prefetch = secondary_prefetch
        self.handler.prefetch_next = secondary_prefetch_next
        self.handler.query = secondary_query
        self.handler.resume = secondary_resume
        self.handler.abandon = secondary_abandon

    def __init__(self, name, zones, fall=(), *, number):
        super().__init__(name, zones, fall)
