"""The native handler of transfer: who may have which zone, and queries on their way to the providers and back.

A query that may have its zone parks, and a `TransferRequest` goes to the transfer thread, which asks the providers with the GIL. When it is
back the query's worker begins the stream.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, strncpy
from fastdns.api.query cimport (ANSWERED, ERROR_MAX, NEXT, PARKED, STREAM, TRANSPORT_TCP, TRANSPORT_TLS, Handler, NativeHandler, Query, Verdict,
                                handler_init, query_answer, query_fail, query_park, query_scratch)
from fastdns.api.worker cimport OffloadQueue, OffloadRequest, offload_abandon, offload_next, offload_open, offload_return, offload_send, offload_wait
from fastdns.api.reply cimport SECTION_ANSWER, reply_add_record, reply_copy
from fastdns.api.names cimport NAME_MAX, ZoneList, ZoneName, Zones, zones_match
from fastdns.api.wire cimport (CLASS_IN, RCODE_NOERROR, RCODE_REFUSED, RCODE_SERVFAIL, TYPE_AXFR, TYPE_IXFR, TYPE_SOA, load16,
                               wire_option)
from fastdns.api.network cimport Address, address_prefix
from fastdns.plugins.transfer._digest cimport DIGEST_OCTETS, OPTION_ZONE_DIGEST
from fastdns.plugins.transfer._places cimport NO_PLACE, TRANSFERS_MAX, place_give, place_take
from fastdns.plugins.transfer._stream cimport SOA_OCTETS, stream_log_current, stream_make
from fastdns.plugins.transfer._source cimport TransferRecord, TransferSource
from fastdns.plugins.transfer._transfer cimport Transfer

from fastdns._wire import name_wire
from fastdns.plugins.transfer.version import Version

cdef enum:
    PREPARE_SECONDS = 30        # that providers may take

cdef struct Peer:               # a `to` address
    uint8_t family              # 4 or 6; 0: anybody
    uint8_t octets[16]
    uint32_t scope              # of a link-local IPv6 address; 0: any

cdef struct Stanza:             # who may have a zone
    uint32_t count
    Peer *peers

cdef struct TransferState:
    const Zones *zones
    Stanza *stanzas             # one for each zone, in the order of `zones`
    uint32_t count              # of stanzas
    uint64_t number             # of the handler, in `handlers`

cdef enum TransferResult:
    TRANSFER_NONE                # no provider is authoritative for exactly this name
    TRANSFER_FAILED
    TRANSFER_CURRENT             # the client has this serial
    TRANSFER_RECORDS

cdef struct TransferRequest:
    OffloadRequest request      # first
    uint64_t handler
    int place                   # of _places.pxd; the stream's, once there is one
    uint32_t serial
    uint8_t incremental
    uint8_t shown               # the client says what its records are
    uint8_t digest[DIGEST_OCTETS]
    uint8_t zone_length
    uint8_t zone[NAME_MAX]      # lower case
    # ---- results of the providers ----
    TransferResult result
    TransferSource *source      # RECORDS
    TransferRecord soa          # in soa_octets
    TransferRecord second       # borrowed from source
    uint8_t soa_octets[SOA_OCTETS]
    char error[ERROR_MAX]

cdef struct Scratch:
    TransferRequest *pending


# ---- on the worker ----

cdef inline bint is_peer(const Peer *peer, const Address *client) noexcept nogil:
    if peer.family == 0:
        return True
    return peer.family == client.family and memcmp(peer.octets, client.octets, 4 if peer.family == 4 else 16) == 0 and (
        peer.scope == 0 or peer.scope == client.scope)


cdef bint is_allowed(const Stanza *stanza, const Address *client) noexcept nogil:
    cdef uint32_t i
    for i in range(stanza.count):
        if is_peer(&stanza.peers[i], client):
            return True
    return False


cdef Verdict transfer_query(Handler *self, Query *q) noexcept nogil:
    cdef const TransferState *state = <const TransferState *>self.state
    cdef const ZoneName *zone
    cdef TransferRequest *pending
    cdef const uint8_t *option
    cdef int place
    if q.qtype != TYPE_AXFR and q.qtype != TYPE_IXFR:
        return NEXT
    if q.transport != TRANSPORT_TCP and q.transport != TRANSPORT_TLS or q.parent != NULL or q.connection == NULL:
        return query_fail(q, RCODE_REFUSED, NULL)
    zone = zones_match(state.zones, q.name)
    if zone == NULL:
        return NEXT
    if not is_allowed(&state.stanzas[zone - state.zones.names], &q.client):
        query_answer(q, RCODE_REFUSED, 0)       # written here, so that it is logged
        return ANSWERED
    if q.qtype == TYPE_IXFR and (q.message.counts[2] != 1 or q.message.soa_serial_found != 1):
        return query_fail(q, RCODE_SERVFAIL, NULL)
    place = place_take(address_prefix(&q.client))
    if place == NO_PLACE:
        return query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: too many transfers")
    pending = <TransferRequest *>calloc(1, sizeof(TransferRequest))
    if pending == NULL or query_park(q, q.worker.now + <int64_t>PREPARE_SECONDS * 1000000000) < 0:
        place_give(place)
        free(pending)
        return query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: no memory")
    pending.place = place
    pending.handler = state.number
    pending.incremental = q.qtype == TYPE_IXFR
    pending.serial = q.message.soa_serial
    option = wire_option(&q.message.edns, OPTION_ZONE_DIGEST)
    if option != NULL and load16(option + 2) == DIGEST_OCTETS:
        pending.shown = 1
        memcpy(pending.digest, option + 4, DIGEST_OCTETS)
    pending.zone_length = q.name.length
    memcpy(pending.zone, q.name.lower, q.name.length)
    if not offload_send(&queue, &pending.request, q):
        place_give(place)
        free(pending)
        return query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: too many transfers")
    (<Scratch *>query_scratch(self, q)).pending = pending
    return PARKED


cdef void end_job(OffloadRequest *request) noexcept nogil:
    cdef TransferRequest *pending = <TransferRequest *>request
    if pending.source != NULL:
        pending.source.close(pending.source)
    place_give(pending.place)
    free(pending)


cdef Verdict transfer_resume(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef TransferRequest *pending = scratch.pending
    cdef Verdict verdict
    scratch.pending = NULL
    if pending.result == TRANSFER_NONE:
        verdict = NEXT
    elif pending.result == TRANSFER_FAILED:
        verdict = query_fail(q, RCODE_SERVFAIL, pending.error)
    elif pending.result == TRANSFER_CURRENT:
        verdict = answer_current(q, &pending.soa)
        if verdict == ANSWERED:
            stream_log_current(q, pending.serial)
    else:
        q.stream = stream_make(q, pending.source, &pending.soa, &pending.second, pending.place)
        verdict = STREAM if q.stream != NULL else query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: no memory")
    if verdict != STREAM:
        place_give(pending.place)
    free(pending)
    return verdict


cdef Verdict answer_current(Query *q, const TransferRecord *soa) noexcept nogil:
    """One message with the SOA: nothing is newer (RFC 1995 2)."""
    cdef const uint8_t *owner
    cdef const uint8_t *rdata
    query_answer(q, RCODE_NOERROR, 0)
    owner = reply_copy(&q.reply, soa.owner, soa.owner_length)
    rdata = reply_copy(&q.reply, soa.rdata, soa.rdlength)
    if owner == NULL or rdata == NULL:
        return query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: no memory")
    reply_add_record(&q.reply, SECTION_ANSWER, owner, soa.owner_length, soa.type, CLASS_IN, soa.ttl, rdata, soa.rdlength)
    return ANSWERED


cdef void transfer_abandon(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    if scratch.pending != NULL:
        offload_abandon(&scratch.pending.request)
        scratch.pending = NULL


# ---- to the transfer thread ----

cdef OffloadQueue queue


def open_queue() -> None:
    """Once, before any handler serves."""
    offload_open(&queue, TRANSFERS_MAX, end_job)


def serve_jobs(submit) -> None:
    """The transfer thread: waits for requests and hands each on as a Job, for ever."""
    cdef OffloadRequest *rest
    cdef Job job
    while True:
        with nogil:
            rest = offload_wait(&queue)
        while rest != NULL:
            job = Job.__new__(Job)
            job.pending = <TransferRequest *>rest
            rest = offload_next(rest)
            try:
                submit(job)
            except Exception as error:
                job.fail(error)
            job = None


cdef class Job:
    cdef TransferRequest *pending       # NULL once it is back on its worker

    def __init__(self):
        raise TypeError("made by serve_jobs")

    def __dealloc__(self):
        if self.pending != NULL:
            self.pending.result = TRANSFER_FAILED
            self.end()

    @property
    def handler(self):
        return self.pending.handler

    @property
    def zone(self):
        return (<const char *>self.pending.zone)[:self.pending.zone_length]

    @property
    def serial(self):
        return version_of(self.pending)

    def prepare(self, find):
        prepare(self.pending, find)
        self.end()

    cdef int fail(self, error) except -1:
        fail(self.pending, error)
        self.end()
        return 0

    cdef void end(self) noexcept:
        if self.pending != NULL:
            offload_return(&self.pending.request)
            self.pending = NULL


cdef object version_of(const TransferRequest *pending):
    """What the client has, None for AXFR."""
    return Version(pending.serial, (<const char *>pending.digest)[:DIGEST_OCTETS] if pending.shown else b"") if pending.incremental else None


cdef int fail(TransferRequest *pending, error) except -1:
    text = (str(error) or type(error).__name__).encode("ascii", "backslashreplace").replace(b"\n", b" ")
    strncpy(pending.error, text, ERROR_MAX - 1)
    pending.result = TRANSFER_FAILED
    return 0


cdef void prepare(TransferRequest *pending, find):
    """Asks the providers, and reads the first record."""
    cdef Transfer transfer
    try:
        transfer = find(pending.handler, (<const char *>pending.zone)[:pending.zone_length], version_of(pending))
        if transfer is None:
            pending.result = TRANSFER_NONE
        else:
            read_beginning(pending, transfer)
    except Exception as error:
        fail(pending, error)


cdef int read_beginning(TransferRequest *pending, Transfer transfer) except -1:
    """The SOA, which is copied, and the record behind it: when there is none, the client is up to date."""
    cdef TransferSource *source = transfer.source
    cdef int status
    if source == NULL:
        raise ValueError("plugin/transfer: a transfer that was used before")
    if source.next(source, &pending.soa) != 1 or pending.soa.type != TYPE_SOA or not 22 <= pending.soa.rdlength <= SOA_OCTETS - pending.soa.owner_length:
        raise ValueError("plugin/transfer: the zone does not begin with its SOA")
    memcpy(pending.soa_octets, pending.soa.owner, pending.soa.owner_length)
    memcpy(pending.soa_octets + pending.soa.owner_length, pending.soa.rdata, pending.soa.rdlength)
    pending.soa.owner = pending.soa_octets
    pending.soa.rdata = pending.soa_octets + pending.soa.owner_length
    status = source.next(source, &pending.second)
    if status < 0:
        raise ValueError("plugin/transfer: the zone cannot be read")
    pending.result = TRANSFER_RECORDS if status else TRANSFER_CURRENT
    if status:
        pending.source = transfer.take()
    return 0


# ---- the handler ----

cdef class TransferHandler(NativeHandler):
    cdef TransferState state
    cdef ZoneList zones
    cdef object notifier

    def __init__(self, str name, dict zones not None, uint64_t number, notifier):
        """zones: {zone: [(packed address or None for anybody, scope)]}"""
        handler_init(self)
        cdef uint32_t i
        NativeHandler.__init__(self, name)
        self.zones = ZoneList(zones)
        self.notifier = notifier
        self.state.zones = &self.zones.zones
        self.state.number = number
        self.state.stanzas = <Stanza *>calloc(self.zones.zones.count + 1, sizeof(Stanza))
        if self.state.stanzas == NULL:
            raise MemoryError
        self.state.count = self.zones.zones.count
        peers = {name_wire(zone).lower(): found for zone, found in zones.items()}
        for i in range(self.state.count):
            self._add(&self.state.stanzas[i], peers[(<const char *>self.zones.zones.names[i].wire)[:self.zones.zones.names[i].length]])
        self.handler.scratch_size = sizeof(Scratch)
        self.handler.state = &self.state
        self.handler.query = transfer_query
        self.handler.resume = transfer_resume
        self.handler.abandon = transfer_abandon

    def notify(self, str zone not None, str plugin="file") -> None:
        self.notifier.notify(zone, plugin)

    cdef int _add(self, Stanza *stanza, list peers) except -1:
        cdef bytes octets
        stanza.peers = <Peer *>calloc(len(peers) + 1, sizeof(Peer))
        if stanza.peers == NULL:
            raise MemoryError
        for octets, scope in peers:
            if octets is not None:
                stanza.peers[stanza.count].family = 4 if len(octets) == 4 else 6
                memcpy(stanza.peers[stanza.count].octets, <const uint8_t *>octets, len(octets))
                stanza.peers[stanza.count].scope = scope
            stanza.count += 1
        return 0

    def __dealloc__(self):
        cdef uint32_t i
        if self.state.stanzas != NULL:
            for i in range(self.state.count):
                free(self.state.stanzas[i].peers)
            free(self.state.stanzas)
