"""The native handler of transfer: who may have which zone, and queries on their way to the providers and back.

A query that may have its zone parks, and a `TransferRequest` goes to the transfer thread, which asks the providers with the GIL. When it is
back the query's worker begins the stream.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset, strncpy
from fastdns.api.query cimport (ANSWERED, ERROR_MAX, NEXT, PARKED, STREAM, TRANSPORT_TCP, TRANSPORT_TLS, Handler, NativeHandler, Query, Verdict,
                                handler_init, query_answer, query_fail, query_park, query_scratch)
from fastdns.api.worker cimport OffloadQueue, OffloadRequest, offload_abandon, offload_next, offload_open, offload_return, offload_send, offload_wait
from fastdns.api.reply cimport SECTION_ANSWER, reply_add_record, reply_copy
from fastdns.api.memory cimport atomic_load64
from fastdns.api.names cimport NAME_MAX, Name, ZoneList, ZoneName, Zones, wire_name_copy, zones_match
from fastdns.api.wire cimport (CLASS_IN, RCODE_NOERROR, RCODE_REFUSED, RCODE_SERVFAIL, TYPE_AXFR, TYPE_IXFR, TYPE_SOA, load16,
                               wire_option)
from fastdns.api.network cimport Address, address_prefix
from fastdns.plugins.transfer._digest cimport DIGEST_OCTETS, OPTION_ZONE_DIGEST
from fastdns.api.metrics cimport Metric, metric_add
from fastdns.plugins.transfer._encoded cimport Encoded, encoded_make, encoded_ref, encoded_unref
from fastdns.plugins.transfer._places cimport NO_PLACE, REQUESTS_MAX, encodings, place_give, place_take, requests, streams, transfers
from fastdns.plugins.transfer._shared cimport SharedKey, SharedZone, shared_clear, shared_find, shared_free, shared_put
from fastdns.plugins.transfer._stream cimport stream_encoded, stream_log_current, stream_make
from fastdns.plugins.transfer._source cimport SOA_OCTETS, TransferRecord, TransferSource
from fastdns.plugins.transfer._transfer cimport Transfer

import threading
import weakref

from fastdns._wire import name_text, name_wire
from fastdns.plugins.transfer.version import Version

cdef enum:
    PREPARE_SECONDS = 30        # that providers may take

cdef struct Peer:               # a `to` address
    uint8_t family              # 4 or 6; 0: anybody
    uint8_t octets[16]
    uint32_t scope              # of a link-local IPv6 address; 0: any

cdef struct Stanza:             # who may have a zone
    uint32_t count
    Peer *peers                 # sorted by family and octets, so that anybody comes first
    SharedZone shared
    uint32_t cells[3]           # of TRANSFERS, by TransferKind

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
    TRANSFER_ENCODED             # for all who ask the same

cdef enum TransferKind:
    KIND_WHOLE
    KIND_DIFFERENCE
    KIND_CURRENT

KINDS = ("whole", "difference", "current")

cdef Metric TRANSFERS = Metric(
    "fastdns_transfer_transfers_total",
    "Counter of transfers: the whole zone, differences, or the SOA alone for who has the last version.",
    "counter",
    ("zone", "kind"),
)

cdef struct TransferRequest:
    OffloadRequest request      # first
    uint64_t handler
    int requested               # its place of `requests`
    int place                   # of `transfers`, or NO_PLACE; the stream's, once there is one
    uint64_t network            # of the client
    Stanza *stanza
    SharedKey key               # what the client asks and has
    uint64_t version            # of the zone, as far as it was told
    uint8_t zone_length
    uint8_t zone[NAME_MAX]      # lower case
    # ---- results of the providers ----
    TransferResult result
    TransferSource *source      # RECORDS
    Encoded *encoded            # ENCODED: a reference
    TransferRecord soa          # in soa_octets
    TransferRecord second       # borrowed from source
    uint8_t soa_octets[SOA_OCTETS]
    char error[ERROR_MAX]

cdef struct Scratch:
    TransferRequest *pending


# ---- on the worker ----

cdef inline int compare(const Peer *peer, const Address *client) noexcept nogil:
    if peer.family != client.family:
        return <int>peer.family - <int>client.family
    return memcmp(peer.octets, client.octets, 4 if peer.family == 4 else 16)


cdef bint is_allowed(const Stanza *stanza, const Address *client) noexcept nogil:
    cdef uint32_t low = 0, high = stanza.count, middle
    if stanza.count and stanza.peers[0].family == 0:
        return True
    while low < high:
        middle = (low + high) // 2
        if compare(&stanza.peers[middle], client) < 0:
            low = middle + 1
        else:
            high = middle
    while low < stanza.count and compare(&stanza.peers[low], client) == 0:      # an IPv6 address on several links
        if stanza.peers[low].scope == 0 or stanza.peers[low].scope == client.scope:
            return True
        low += 1
    return False


cdef Verdict transfer_query(Handler *self, Query *q) noexcept nogil:
    cdef const TransferState *state = <const TransferState *>self.state
    cdef const ZoneName *zone
    cdef Stanza *stanza
    cdef SharedKey key
    cdef Encoded *encoded
    cdef const uint8_t *option
    if q.qtype != TYPE_AXFR and q.qtype != TYPE_IXFR:
        return NEXT
    if q.transport != TRANSPORT_TCP and q.transport != TRANSPORT_TLS or q.parent != NULL or q.connection == NULL:
        return query_fail(q, RCODE_REFUSED, NULL)
    zone = zones_match(state.zones, q.name)
    if zone == NULL:
        return NEXT
    stanza = &state.stanzas[zone - state.zones.names]
    if not is_allowed(stanza, &q.client):
        query_answer(q, RCODE_REFUSED, 0)       # written here, so that it is logged
        return ANSWERED
    if q.qtype == TYPE_IXFR and (q.message.counts[2] != 1 or q.message.soa_serial_found != 1):
        return query_fail(q, RCODE_SERVFAIL, NULL)
    memset(&key, 0, sizeof(SharedKey))
    if q.qtype == TYPE_IXFR:
        key.incremental = 1
        key.serial = q.message.soa_serial
        option = wire_option(&q.message.edns, OPTION_ZONE_DIGEST)
        if option != NULL and load16(option + 2) == DIGEST_OCTETS:
            key.shown = 1
            memcpy(key.digest, option + 4, DIGEST_OCTETS)
    encoded = shared_find(&stanza.shared, &key, q.name.lower, q.name.length)
    if encoded != NULL:
        return give_encoded(q, stanza, encoded)
    return ask_providers(self, q, stanza, &key)


cdef Verdict ask_providers(Handler *self, Query *q, Stanza *stanza, const SharedKey *key) noexcept nogil:
    cdef const TransferState *state = <const TransferState *>self.state
    cdef TransferRequest *pending
    cdef int place = place_take(&requests, address_prefix(&q.client))
    if place == NO_PLACE:
        return query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: too many transfers")
    pending = <TransferRequest *>calloc(1, sizeof(TransferRequest))
    if pending == NULL or query_park(q, q.worker.now + <int64_t>PREPARE_SECONDS * 1000000000) < 0:
        place_give(&requests, place)
        free(pending)
        return query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: no memory")
    pending.requested = place
    pending.place = NO_PLACE
    pending.network = address_prefix(&q.client)
    pending.handler = state.number
    pending.stanza = stanza
    pending.key = key[0]
    pending.version = atomic_load64(&stanza.shared.version)
    pending.zone_length = q.name.length
    memcpy(pending.zone, q.name.lower, q.name.length)
    if not offload_send(&queue, &pending.request, q):
        free_request(pending)
        return query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: too many transfers")
    (<Scratch *>query_scratch(self, q)).pending = pending
    return PARKED


cdef void free_request(TransferRequest *pending) noexcept nogil:
    """But for what its stream has taken over."""
    if pending.source != NULL:
        pending.source.close(pending.source)
    if pending.encoded != NULL:
        encoded_unref(pending.encoded)
    place_give(&transfers, pending.place)
    place_give(&requests, pending.requested)
    free(pending)


cdef void end_job(OffloadRequest *request) noexcept nogil:
    free_request(<TransferRequest *>request)


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
        verdict = give_current(q, pending.stanza, &pending.soa)
    elif pending.result == TRANSFER_ENCODED:
        verdict = give_encoded(q, pending.stanza, encoded_ref(pending.encoded))
    else:
        q.stream = stream_make(q, pending.source, &pending.soa, &pending.second, pending.place)
        pending.source = NULL
        if q.stream != NULL:
            pending.place = NO_PLACE
            count(q, pending.stanza, KIND_DIFFERENCE if pending.second.type == TYPE_SOA else KIND_WHOLE)
        verdict = STREAM if q.stream != NULL else query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: no memory")
    free_request(pending)
    return verdict


cdef inline void count(Query *q, const Stanza *stanza, TransferKind kind) noexcept nogil:
    metric_add(stanza.cells[<int>kind], q.worker.id, 1)


cdef Verdict give_encoded(Query *q, const Stanza *stanza, Encoded *encoded) noexcept nogil:
    """Takes over the reference."""
    cdef int place = NO_PLACE
    cdef Verdict verdict
    if encoded.first == NULL:
        verdict = give_current(q, stanza, &encoded.soa)
        encoded_unref(encoded)
        return verdict
    if encoded.messages > 1:
        place = place_take(&streams, address_prefix(&q.client))
        if place == NO_PLACE:
            encoded_unref(encoded)
            return query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: too many transfers")
    count(q, stanza, KIND_WHOLE if encoded.whole else KIND_DIFFERENCE)
    q.stream = stream_encoded(q, encoded, place)
    return STREAM if q.stream != NULL else query_fail(q, RCODE_SERVFAIL, b"plugin/transfer: no memory")


cdef Verdict give_current(Query *q, const Stanza *stanza, const TransferRecord *soa) noexcept nogil:
    cdef Verdict verdict = answer_current(q, soa)
    if verdict == ANSWERED:
        count(q, stanza, KIND_CURRENT)
        stream_log_current(q, q.message.soa_serial)
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
    offload_open(&queue, REQUESTS_MAX, end_job)


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
            job.owner = handlers.get(job.pending.handler)
            try:
                if job.owner is not None:       # else nobody waits for it any more
                    submit(job)
            except Exception as error:
                job.fail(error)
            job = None


#: A whole zone is encoded by one thread at a time: others may want the same.
whole_lock = threading.Lock()
#: By number.
handlers: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


cdef class Job:
    cdef TransferRequest *pending       # NULL once it is back on its worker
    cdef TransferHandler owner          # of pending.stanza
    cdef Encoded *encoded               # a reference: what it was answered with; NULL: not for others

    def __init__(self):
        raise TypeError("made by serve_jobs")

    def __dealloc__(self):
        if self.pending != NULL:
            self.pending.result = TRANSFER_FAILED
            self.end()
        if self.encoded != NULL:
            encoded_unref(self.encoded)

    @property
    def providers(self):
        return self.owner.providers

    @property
    def zone(self):
        return (<const char *>self.pending.zone)[:self.pending.zone_length]

    @property
    def serial(self):
        return version_of(self.pending)

    @property
    def key(self):
        """What others that get the same answer have in common with it."""
        cdef TransferRequest *pending = self.pending
        return <uintptr_t>pending.stanza, pending.version, self.zone, (<const char *>&pending.key)[:sizeof(SharedKey)]

    def find_shared(self):
        cdef TransferRequest *pending = self.pending
        cdef Encoded *found = shared_find(&pending.stanza.shared, &pending.key, pending.zone, pending.zone_length)
        if found == NULL:
            return False
        self.give(found)
        return True

    def follow(self, Job other not None):
        if other.encoded == NULL:
            return False
        self.give(encoded_ref(other.encoded))
        return True

    def prepare(self, find):
        """Asks the providers, and reads the first record."""
        cdef TransferRequest *pending = self.pending
        cdef Transfer transfer
        pending.place = place_take(&transfers, pending.network)
        if pending.place == NO_PLACE:
            self.fail("plugin/transfer: too many transfers")
            return
        try:
            transfer = find(self.providers, self.zone, self.serial)
            if transfer is None:
                pending.result = TRANSFER_NONE
            else:
                read_beginning(pending, transfer)
        except Exception as error:
            fail(pending, error)
        self.end()

    def encode(self, changes, whole):
        cdef TransferRequest *pending = self.pending
        cdef SharedKey axfr
        cdef Encoded *found = NULL
        memset(&axfr, 0, sizeof(SharedKey))
        try:
            if pending.key.incremental:
                transfer = changes()
                if transfer is not None:
                    found = make_encoded(pending, transfer)
            if found == NULL:
                with whole_lock:
                    found = shared_find(&pending.stanza.shared, &axfr, pending.zone, pending.zone_length)
                    if found == NULL:
                        found = make_encoded(pending, whole())
                        put_shared(pending, &axfr, found)
            if pending.key.incremental:
                put_shared(pending, &pending.key, found)
        except Exception as error:
            if found != NULL:
                encoded_unref(found)
            self.fail(error)
            return
        self.encoded = encoded_ref(found)
        self.give(found)

    cdef int give(self, Encoded *found) except -1:
        """Takes over the reference."""
        self.pending.encoded = found
        self.pending.result = TRANSFER_ENCODED
        self.end()
        return 0

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
    cdef const SharedKey *key = &pending.key
    return Version(key.serial, (<const char *>key.digest)[:DIGEST_OCTETS] if key.shown else b"") if key.incremental else None


cdef Encoded *make_encoded(const TransferRequest *pending, Transfer transfer) except NULL:
    cdef TransferSource *source = transfer.take()
    cdef Encoded *encoded
    cdef int place
    if source == NULL:
        raise ValueError("plugin/transfer: a transfer that was used before")
    place = place_take(&encodings, pending.network)
    if place == NO_PLACE:
        source.close(source)
        raise ValueError("plugin/transfer: too many transfers")
    with nogil:
        encoded = encoded_make(source, place)
    if encoded == NULL:
        place_give(&encodings, place)
        raise ValueError("plugin/transfer: the zone cannot be read")
    return encoded


cdef int put_shared(TransferRequest *pending, const SharedKey *key, Encoded *encoded) except -1:
    if not shared_put(&pending.stanza.shared, pending.version, key, encoded):
        raise MemoryError
    return 0


cdef int fail(TransferRequest *pending, error) except -1:
    text = (str(error) or type(error).__name__).encode("ascii", "backslashreplace").replace(b"\n", b" ")
    strncpy(pending.error, text, ERROR_MAX - 1)
    pending.result = TRANSFER_FAILED
    return 0


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
    cdef object __weakref__
    cdef TransferState state
    cdef ZoneList zones
    cdef object notifier
    cdef public list providers

    def __init__(self, str name, dict zones not None, uint64_t number, notifier):
        """zones: {zone: [(packed address or None for anybody, scope)]}"""
        handler_init(self)
        cdef uint32_t i
        NativeHandler.__init__(self, name)
        self.zones = ZoneList(zones)
        self.notifier = notifier
        self.providers = []
        self.state.zones = &self.zones.zones
        self.state.number = number
        handlers[number] = self
        self.state.stanzas = <Stanza *>calloc(self.zones.zones.count + 1, sizeof(Stanza))
        if self.state.stanzas == NULL:
            raise MemoryError
        self.state.count = self.zones.zones.count
        peers = {name_wire(zone).lower(): found for zone, found in zones.items()}
        for i in range(self.state.count):
            wire = (<const char *>self.zones.zones.names[i].wire)[:self.zones.zones.names[i].length]
            self._add(&self.state.stanzas[i], peers[wire])
            for kind, name in enumerate(KINDS):
                self.state.stanzas[i].cells[<uint32_t>kind] = TRANSFERS.cell((name_text(wire), name))
        self.handler.scratch_size = sizeof(Scratch)
        self.handler.state = &self.state
        self.handler.query = transfer_query
        self.handler.resume = transfer_resume
        self.handler.abandon = transfer_abandon

    cpdef close(self):
        """Nobody waits for a transfer any more. Providers may refer to this handler."""
        self.providers = []

    def notify(self, str zone not None, str plugin="file") -> None:
        cdef Name name
        cdef bytes wire = name_wire(zone).lower()
        cdef const ZoneName *found
        wire_name_copy(&name, <const uint8_t *>wire, <int>len(wire))
        found = zones_match(self.state.zones, &name)
        if found != NULL:
            shared_clear(&self.state.stanzas[found - self.state.zones.names].shared)
        self.notifier.notify(zone, plugin)

    cdef int _add(self, Stanza *stanza, list peers) except -1:
        cdef bytes octets
        peers = sorted(peers, key=lambda peer: (len(peer[0] or b""), peer[0] or b"", peer[1]))
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
                shared_free(&self.state.stanzas[i].shared)
                free(self.state.stanzas[i].peers)
            free(self.state.stanzas)
