"""The native handler of dynupdate.

Queries are answered as file answers them. An UPDATE parks, and its octets go to a thread of the control side.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport (ANSWERED, NEXT, PARKED, Handler, Prefetch, Query, Verdict, query_answer, query_fail, query_park, query_scratch)
from fastdns.api.worker cimport (OffloadQueue, OffloadRequest, offload_abandon, offload_next, offload_open, offload_return, offload_send, offload_wait,
                                 offload_wanted)
from fastdns.api.names cimport NAME_MAX, Name
from fastdns.api.wire cimport (CLASS_IN, FLAG_AA, OPCODE_UPDATE, RCODE_FORMERR, RCODE_NOTAUTH, RCODE_REFUSED, RCODE_SERVFAIL, TYPE_SOA, Message,
                               Section, WireRecord, flags_opcode, rdata_valid, wire_begin_records, wire_expand_rdata, wire_next_record,
                               wire_read_name)
from fastdns.api.records cimport ZoneSet, zone_match, zone_slots
from fastdns.api.log cimport LOG_DEBUG, LOG_LINE_MAX, log_put, log_wants_debug
from fastdns.api.text cimport Text, text_name, text_put, text_string
from fastdns.plugins.file._answer cimport ZoneLook, zone_prefetch, zone_prefetch_next, zone_resume
from fastdns.plugins.file._file cimport FileHandler, FileState, file_query
from fastdns.plugins.tsig._tsig cimport tsig_signer

from fastdns._wire import name_wire
from fastdns.corefile.errors import defect
from fastdns.telemetry.log import Log

cdef enum:
    UPDATES_MAX = 256           # that wait, in the process; one more takes the place of one of the zone, then the network, that has most
    UPDATE_SECONDS = 10
    RDATA_MAX = 65535

cdef struct UpdateRequest:      # followed by the octets of the message
    OffloadRequest request      # first
    uint64_t handler
    Message message
    uint32_t length
    uint16_t rcode              # of the reply
    uint8_t key_length
    uint8_t key[NAME_MAX]       # lower case

cdef struct Scratch:
    UpdateRequest *update       # NULL: none, or it is back
    ZoneLook look
    uint8_t parked              # an UPDATE waits


# ---- on the worker ----

cdef Prefetch dynupdate_prefetch(Handler *self, Query *q) noexcept nogil:
    return zone_prefetch((<const FileState *>self.state).zones, q, &(<Scratch *>query_scratch(self, q)).look)


cdef Prefetch dynupdate_prefetch_next(Handler *self, Query *q, uint32_t step) noexcept nogil:
    return zone_prefetch_next(q, &(<Scratch *>query_scratch(self, q)).look)


cdef Verdict dynupdate_query(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    scratch.update = NULL
    scratch.parked = 0
    if flags_opcode(q.message.flags) == OPCODE_UPDATE:
        return take_update(self, q, scratch)
    if zone_match(zone_slots((<const FileState *>self.state).zones), q.name) == NULL:
        return NEXT
    return file_query(self, q)


cdef inline Verdict answer(Query *q, uint16_t rcode) noexcept nogil:
    query_answer(q, rcode, FLAG_AA)
    return ANSWERED


cdef Verdict take_update(Handler *self, Query *q, Scratch *scratch) noexcept nogil:
    """It goes to nobody below: who only answers queries might confirm what it does not do."""
    cdef const UpdateState *state = <const UpdateState *>self.state
    cdef const uint8_t *key
    cdef uint8_t key_length = 0
    cdef UpdateRequest *update
    if q.qtype != TYPE_SOA or q.qclass != CLASS_IN:
        return answer(q, RCODE_FORMERR)
    if q.name.length != state.origin_length or memcmp(q.name.lower, state.origin, state.origin_length) != 0:
        return answer(q, RCODE_NOTAUTH)
    key = tsig_signer(q, &key_length)
    if key == NULL:
        tell_unsigned(q)
        return answer(q, RCODE_REFUSED)
    update = <UpdateRequest *>calloc(1, sizeof(UpdateRequest) + q.packet_length)
    if update == NULL or query_park(q, q.worker.now + <int64_t>UPDATE_SECONDS * 1000000000) < 0:
        free(update)
        return query_fail(q, RCODE_SERVFAIL, b"plugin/dynupdate: no memory")
    update.handler = state.number
    update.message = q.message
    update.rcode = RCODE_SERVFAIL
    update.key_length = key_length
    memcpy(update.key, key, key_length)
    update.length = q.packet_length
    memcpy(update + 1, q.packet, q.packet_length)
    if not offload_send(&queue, &update.request, q):
        free(update)
        return query_fail(q, RCODE_SERVFAIL, b"plugin/dynupdate: too many updates are waiting")
    scratch.update = update
    scratch.parked = 1
    return PARKED


cdef void tell_unsigned(const Query *q) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    if not log_wants_debug():
        return
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    text_put(&text, b"refusing UPDATE for ", 20)
    text_name(&text, q.name.lower)
    text_string(&text, b" without a validated TSIG identity")
    log_put(q.worker.id, LOG_DEBUG, b"dynupdate", line, text.used)


cdef Verdict dynupdate_resume(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef uint16_t rcode
    if not scratch.parked:
        return zone_resume(self, q, zone_match(zone_slots((<const FileState *>self.state).zones), q.name), 0)
    rcode = scratch.update.rcode
    free(scratch.update)
    scratch.update = NULL
    return answer(q, rcode)


cdef void dynupdate_abandon(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    if scratch.update != NULL:
        offload_abandon(&scratch.update.request)
        scratch.update = NULL


# ---- to the control side ----

cdef OffloadQueue queue


cdef void end_update(OffloadRequest *request) noexcept nogil:
    free(request)


def open_queue() -> None:
    offload_open(&queue, UPDATES_MAX, end_update)


cdef class Update:
    cdef UpdateRequest *pending     # NULL once it is back on its worker

    def __init__(self):
        raise TypeError("made by serve_updates")

    def __dealloc__(self):
        if self.pending != NULL:
            offload_return(&self.pending.request)

    cdef UpdateRequest *waiting(self) except NULL:
        if self.pending == NULL:
            raise ValueError("the update is answered")
        return self.pending

    @property
    def number(self):
        return self.waiting().handler

    @property
    def key(self):
        cdef UpdateRequest *pending = self.waiting()
        return (<const char *>pending.key)[:pending.key_length]

    @property
    def wanted(self):
        return offload_wanted(&self.waiting().request)

    def sections(self):
        cdef UpdateRequest *pending = self.waiting()
        cdef const uint8_t *packet = <const uint8_t *>(pending + 1)
        cdef uint32_t length = pending.length, at
        cdef uint8_t rdata[RDATA_MAX]
        cdef Section section
        cdef WireRecord record
        cdef Name owner
        cdef int status, size
        cdef tuple found = ([], [])
        wire_begin_records(packet, length, &pending.message, &section)
        while True:
            status = wire_next_record(&section, &record)
            if status == 0 or status > 0 and record.section == 2:
                return found
            at = record.owner
            size = wire_expand_rdata(packet, length, &record, rdata, RDATA_MAX) if status > 0 and record.rdlength else 0
            if status < 0 or size < 0 or wire_read_name(packet, length, &at, &owner) < 0:
                raise ValueError("dns: malformed message")
            octets = (<const char *>rdata)[:size] if not size or rdata_valid(record.type, rdata, <uint32_t>size) else None
            (<list>found[record.section]).append(((<const char *>owner.lower)[:owner.length], record.type, record.klass, record.ttl, octets))

    def answer(self, uint16_t rcode):
        cdef UpdateRequest *pending = self.waiting()
        pending.rcode = rcode
        self.pending = NULL
        offload_return(&pending.request)


def serve_updates(take) -> None:
    cdef OffloadRequest *rest
    cdef Update update
    log = Log("plugin/dynupdate")
    while True:
        with nogil:
            rest = offload_wait(&queue)
        while rest != NULL:
            update = Update.__new__(Update)
            update.pending = <UpdateRequest *>rest
            rest = offload_next(rest)
            try:
                take(update)
            except Exception as error:
                log.error(defect(error))
            update = None


# ---- the handler ----

cdef class DynupdateHandler(FileHandler):

    def __cinit__(self, name, ZoneSet zones not None, *, str origin not None, uint64_t number):
        cdef bytes wire = name_wire(origin.lower())
        self.origin = origin
        self.own.file = self.state
        self.own.number = number
        self.own.origin_length = <uint32_t>len(wire)
        memcpy(self.own.origin, <const uint8_t *>wire, len(wire))
        self.handler.state = &self.own
        self.handler.scratch_size = sizeof(Scratch)
        self.handler.prefetch = dynupdate_prefetch
        self.handler.prefetch_next = dynupdate_prefetch_next
        self.handler.query = dynupdate_query
        self.handler.resume = dynupdate_resume
        self.handler.abandon = dynupdate_abandon

    def __init__(self, name, zones, *, origin, number):
        super().__init__(name, zones)

    def cache_bypass_zones(self) -> list:
        return [self.origin]

    cpdef close(self):
        done, self.on_close = self.on_close, None
        if done is not None:
            done()
