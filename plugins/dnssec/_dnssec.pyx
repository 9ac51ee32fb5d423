"""The native handler of dnssec: replies on their way up get the signatures of their RRsets, from the cache or from the signing thread."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from libc.time cimport time
from fastdns.api.query cimport (ANSWERED, NEXT, PARKED, UP, Handler, NativeHandler, Query, Verdict, handler_init, query_answer, query_do, query_fail,
                                query_park, query_scratch)
from fastdns.api.reply cimport (KIND_DELEGATION, KIND_NAMEERROR, KIND_NODATA, RECORDS_MAX, RECORD_OWNED, SECTION_ANSWER, SECTION_AUTHORITY, Record,
                                Reply, ReplyKind, reply_add, reply_add_record, reply_copy, reply_kind)
from fastdns.api.names cimport ZoneList, ZoneName, Zones, zones_match
from fastdns.api.wire cimport (CLASS_IN, FLAG_AA, MESSAGE_MAX, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_DNSKEY, TYPE_DS, TYPE_NSEC, TYPE_OPT, TYPE_RRSIG,
                               TYPE_SOA, flags_opcode, load16, load32)
from fastdns.api.metrics cimport Metric, label_count, metric_add
from fastdns.api.memory cimport SieveLink, epoch_wait
from fastdns.api.network cimport address_prefix
from fastdns.api.worker cimport offload_abandon
from fastdns.plugins.dnssec._budget cimport Budget, budget_take
from fastdns.plugins.dnssec._canonical cimport canonical_write
from fastdns.plugins.dnssec._denial cimport DENIAL_APEX, DENIAL_CUT, DENIAL_NAME, DenialKind, denial_add
from fastdns.plugins.dnssec._signing cimport SigningRequest, Set, signing_free, signing_new, signing_send
from fastdns.plugins.dnssec._signatures cimport (FRESH, Entry, entry_good, entry_signatures, signatures_clean, signatures_close, signatures_find,
                                                 signatures_free, signatures_hash, signatures_open, signatures_put, signatures_retired)

cdef Budget dnssec_budget       # of the process

cdef enum:
    SETS_MAX = 512              # of a reply: with their signatures no more fit in a message

cdef struct Scratch:
    const ZoneName *zone        # NULL: not ours, or without DO
    SigningRequest *signing                    # it waits for this

cdef struct Gathering:          # the sets of one reply
    uint32_t count
    uint32_t missing            # without signatures
    uint32_t used               # octets of keys
    uint8_t *octets             # the worker's scratch for messages
    Set sets[SETS_MAX]


# ---- gathering ----

cdef const ZoneName *zone_of(const Zones *zones, const uint8_t *name, uint32_t length) noexcept nogil:
    """The longest zone that an owner lies in, or NULL."""
    cdef uint32_t i, j, at
    cdef const ZoneName *zone
    for i in range(zones.count):
        zone = &zones.names[i]
        if zone.length > length:
            continue
        at = 0
        while at + zone.length < length:
            at += name[at] + <uint32_t>1
        if at + zone.length != length:
            continue
        for j in range(zone.length):
            if (name[at + j] | 0x20 if c'A' <= name[at + j] <= c'Z' else name[at + j]) != zone.wire[j]:
                break
        else:
            return zone
    return NULL


cdef void gather_set(DnssecState *state, Query *q, Gathering *gathering, const ZoneName *signer, const uint16_t *members, uint32_t count, uint32_t ttl,
                     bint denial, uint32_t now) noexcept nogil:
    """Puts a set's key together and looks its signatures up. A set that is too large for any message is left out."""
    cdef uint32_t capacity = MESSAGE_MAX - gathering.used, length
    cdef uint8_t *key = gathering.octets + gathering.used
    cdef const Cells *cells = &state.cells[q.server.label]
    cdef Set *wanted
    cdef Entry *entry
    if gathering.count == SETS_MAX or capacity < signer.length:
        return
    memcpy(key, signer.wire, signer.length)
    length = canonical_write(&q.reply, members, count, key + signer.length, capacity - signer.length)
    if length == 0:
        return
    length += signer.length
    gathering.used += length
    wanted = &gathering.sets[gathering.count]
    gathering.count += 1
    wanted.first = members[0]
    wanted.section = q.reply.records[members[0]].section
    wanted.denial = denial
    wanted.ttl = ttl
    wanted.key = key
    wanted.key_length = length
    wanted.signatures = NULL
    wanted.octets = 0
    entry = signatures_find(&state.signatures, key, length, signatures_hash(key, length))
    if entry != NULL and entry_good(entry, now):
        wanted.signatures = entry_signatures(entry)
        wanted.octets = entry.octets
        metric_add(cells.hits, q.worker.id, 1)
    else:
        gathering.missing += 1
        metric_add(cells.misses, q.worker.id, 1)


cdef void gather_section(DnssecState *state, Query *q, Gathering *gathering, int section, uint32_t now) noexcept nogil:
    """All RRsets of a section whose owner lies in a zone of ours, by owner (letter case counts) and type."""
    cdef Reply *reply = &q.reply
    cdef uint8_t taken[RECORDS_MAX]
    cdef uint16_t members[RECORDS_MAX]
    cdef uint32_t i, j, count, records = reply.count
    cdef const Record *record
    cdef const Record *other
    cdef const ZoneName *signer
    memset(taken, 0, records)
    for i in range(records):
        record = &reply.records[i]
        if taken[i] or record.section != section or record.type == TYPE_RRSIG or record.type == TYPE_OPT:
            continue
        signer = zone_of(state.zones, record.owner, record.owner_length)
        if signer == NULL:
            continue
        count = 0
        for j in range(i, records):
            other = &reply.records[j]
            if other.section == section and other.type == record.type and other.owner_length == record.owner_length and (
                    other.owner == record.owner or memcmp(other.owner, record.owner, record.owner_length) == 0):
                members[count] = <uint16_t>j
                count += 1
                taken[j] = 1
        gather_set(state, q, gathering, signer, members, count, record.ttl, False, now)
        if gathering.count == SETS_MAX:
            return


cdef void gather_denial(DnssecState *state, Query *q, Gathering *gathering, const ZoneName *zone, bint delegation, uint32_t ttl, uint32_t now) noexcept nogil:
    cdef DenialKind kind = DENIAL_NAME
    cdef uint16_t place
    cdef int added
    if q.name.length == zone.length:
        kind = DENIAL_APEX
    elif delegation or q.qtype == TYPE_DS:
        kind = DENIAL_CUT
    added = denial_add(q, kind, delegation and kind == DENIAL_CUT, ttl)
    if added >= 0:
        place = <uint16_t>added
        gather_set(state, q, gathering, zone, &place, 1, ttl, True, now)


cdef void gather_delegation(DnssecState *state, Query *q, Gathering *gathering, const ZoneName *zone, uint32_t now) noexcept nogil:
    """DS records are signed; where there are none, that is what is proved."""
    cdef Reply *reply = &q.reply
    cdef uint16_t members[RECORDS_MAX]
    cdef uint32_t i, count = 0, ttl = 0
    cdef bint first = True
    for i in range(reply.count):
        if reply.records[i].section != SECTION_AUTHORITY:
            continue
        if first:
            ttl = reply.records[i].ttl
            first = False
        if reply.records[i].type == TYPE_DS:
            members[count] = <uint16_t>i
            count += 1
    if count:
        gather_set(state, q, gathering, zone, members, count, ttl, False, now)
    else:
        gather_denial(state, q, gathering, zone, True, ttl, now)


cdef inline uint32_t negative_ttl(const Record *soa) noexcept nogil:
    """Seconds that a negative answer may be kept, for the NSEC record (RFC 9077 3)."""
    return min(soa.ttl, load32(soa.rdata + soa.rdlength - 4)) if soa.rdlength >= 4 else soa.ttl


cdef void gather_negative(DnssecState *state, Query *q, Gathering *gathering, const ZoneName *zone, uint32_t now) noexcept nogil:
    """Only where the authority section is exactly one SOA."""
    cdef Reply *reply = &q.reply
    cdef uint16_t place = 0
    cdef uint32_t i, count = 0
    for i in range(reply.count):
        if reply.records[i].section == SECTION_AUTHORITY:
            place = <uint16_t>i
            count += 1
    if count != 1 or reply.records[place].type != TYPE_SOA:
        return
    gather_set(state, q, gathering, zone, &place, 1, reply.records[place].ttl, False, now)
    gather_denial(state, q, gathering, zone, False, negative_ttl(&reply.records[place]), now)


cdef void gather(DnssecState *state, Query *q, Gathering *gathering, const ZoneName *zone) noexcept nogil:
    cdef ReplyKind kind = reply_kind(&q.reply, q.qtype, flags_opcode(q.message.flags))
    cdef uint32_t now = <uint32_t>time(NULL)
    cdef int section
    gathering.count = gathering.missing = gathering.used = 0
    gathering.octets = q.worker.message
    if kind == KIND_DELEGATION:
        gather_delegation(state, q, gathering, zone, now)
    elif kind == KIND_NAMEERROR or kind == KIND_NODATA:
        gather_negative(state, q, gathering, zone, now)
    else:
        for section in range(3):
            gather_section(state, q, gathering, section, now)


# ---- adding ----

cdef void add_signatures(Query *q, const Set *wanted, bint copied) noexcept nogil:
    """The RRSIG records of a set, at the end of its section; `copied` where their octets do not outlive the batch."""
    cdef Reply *reply = &q.reply
    cdef uint32_t at = 0, size
    cdef const uint8_t *rdata
    cdef Record *record
    while at + 2 <= wanted.octets:
        size = load16(wanted.signatures + at)
        rdata = wanted.signatures + at + 2
        at += 2 + size
        if copied:
            rdata = reply_copy(reply, rdata, size)
            if rdata == NULL:
                reply.overflow = 1
                return
        record = reply_add(reply, wanted.section)
        if record == NULL:
            return
        record.owner = reply.records[wanted.first].owner
        record.owner_length = reply.records[wanted.first].owner_length
        record.type = TYPE_RRSIG
        record.klass = reply.records[wanted.first].klass
        record.ttl = wanted.ttl
        record.rdata = rdata
        record.rdlength = <uint16_t>size
        if copied:
            record.flags = reply.records[wanted.first].flags & RECORD_OWNED


cdef void remove_record(Reply *reply, uint32_t place) noexcept nogil:
    cdef uint32_t i
    for i in range(place + 1, reply.count):
        reply.records[i - 1] = reply.records[i]
    reply.count -= 1


cdef void move_denial(Reply *reply) noexcept nogil:
    """Who asks for NSEC gets the record and its (last) signature as the answer, and nothing else."""
    cdef uint32_t i, kept = 0, last = 0
    cdef bint signed = False
    for i in range(reply.count):
        if reply.records[i].section == SECTION_AUTHORITY and reply.records[i].type == TYPE_RRSIG:
            last = i
            signed = True
    for i in range(reply.count):
        if reply.records[i].section == SECTION_AUTHORITY:
            if reply.records[i].type != TYPE_NSEC and not (signed and i == last):
                continue
            reply.records[i].section = SECTION_ANSWER
        reply.records[kept] = reply.records[i]
        kept += 1
    reply.count = <uint16_t>kept


cdef void complete(Query *q, const Set *sets, uint32_t count, bint copied) noexcept nogil:
    """Adds what was found or made; what could not be signed stays as it is."""
    cdef Reply *reply = &q.reply
    cdef uint32_t i
    cdef int unsigned_denial = -1
    cdef bint added = False
    cdef ReplyKind kind = reply_kind(reply, q.qtype, flags_opcode(q.message.flags))
    for i in range(count):
        if sets[i].signatures != NULL:
            add_signatures(q, &sets[i], copied)
            added = True
        elif sets[i].denial:
            unsigned_denial = sets[i].first
    if unsigned_denial >= 0:
        remove_record(reply, unsigned_denial)
    if added and (kind == KIND_NAMEERROR or kind == KIND_NODATA):
        reply.rcode = RCODE_NOERROR
        if q.qtype == TYPE_NSEC and unsigned_denial < 0:
            move_denial(reply)


cdef Verdict sign(Handler *self, Query *q, const ZoneName *zone, Verdict done) noexcept nogil:
    """Signs the query's reply: `done`, PARKED, or for want of budget a failure."""
    cdef DnssecState *state = <DnssecState *>self.state
    cdef Gathering gathering
    cdef SigningRequest *signing
    gather(state, q, &gathering, zone)
    if not gathering.missing:
        complete(q, gathering.sets, gathering.count, False)
        return done
    if not budget_take(state.budget, q.worker.now, gathering.missing * state.pace, <uint64_t>zone, address_prefix(&q.client)):
        return refuse(state, q, done, b"plugin/dnssec: too many signatures are wanted")
    signing = signing_new(state.number, gathering.sets, gathering.count)
    if signing == NULL:
        return refuse(state, q, done, b"plugin/dnssec: no memory")
    if query_park(q, 0) < 0 or not signing_send(signing, q):
        signing_free(signing)
        return refuse(state, q, done, b"plugin/dnssec: too many signatures are wanted")
    (<Scratch *>query_scratch(self, q)).signing = signing
    return PARKED


cdef Verdict refuse(DnssecState *state, Query *q, Verdict done, const char *error) noexcept nogil:
    """Fails the query: an answer without signatures would be taken for a forged one, and that remembered."""
    cdef Verdict failed = query_fail(q, RCODE_SERVFAIL, error)
    metric_add(state.cells[q.server.label].refused, q.worker.id, 1)
    return UP if done == UP else failed


# ---- hooks ----

cdef void answer_keys(DnssecState *state, Query *q, const ZoneName *zone) noexcept nogil:
    cdef uint32_t i
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    for i in range(state.key_count):
        reply_add_record(&q.reply, SECTION_ANSWER, zone.wire, zone.length, TYPE_DNSKEY, CLASS_IN, state.keys[i].ttl, state.keys[i].rdata,
                         state.keys[i].length)


cdef Verdict dnssec_query(Handler *self, Query *q) noexcept nogil:
    cdef DnssecState *state = <DnssecState *>self.state
    cdef const ZoneName *zone
    cdef bint keys = q.qtype == TYPE_DNSKEY
    if not keys and not query_do(q):
        return NEXT
    zone = zones_match(state.zones, q.name)
    if zone == NULL:
        return NEXT
    if keys and zone.length == q.name.length:
        answer_keys(state, q, zone)
        return sign(self, q, zone, ANSWERED) if query_do(q) and state.key_count else ANSWERED
    if query_do(q):
        (<Scratch *>query_scratch(self, q)).zone = zone
    return NEXT


cdef Verdict dnssec_reply(Handler *self, Query *q) noexcept nogil:
    cdef const ZoneName *zone = (<Scratch *>query_scratch(self, q)).zone
    if zone == NULL or not q.reply.written:
        return UP
    return sign(self, q, zone, UP)


cdef Verdict dnssec_resume(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef SigningRequest *signing = scratch.signing
    scratch.signing = NULL
    complete(q, signing.sets, signing.count, True)
    signing_free(signing)
    return UP if q.parked_up else ANSWERED


cdef void dnssec_abandon(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    if scratch.signing != NULL:
        if q.evicted:
            metric_add((<const DnssecState *>self.state).cells[q.server.label].refused, q.worker.id, 1)
        offload_abandon(&scratch.signing.request)
        scratch.signing = NULL


# ---- set-up ----

cdef Metric ENTRIES = Metric("coredns_dnssec_cache_entries", "The number of elements in the dnssec cache.", "gauge", ("server", "type"))
cdef Metric HITS = Metric("coredns_dnssec_cache_hits_total", "The count of cache hits.", "counter", ("server",))
cdef Metric MISSES = Metric("coredns_dnssec_cache_misses_total", "The count of cache misses.", "counter", ("server",))
cdef Metric REFUSED = Metric("fastdns_dnssec_refused_total", "Replies that failed because too many signatures were wanted.", "counter", ("server",))


cdef class DnssecHandler(NativeHandler):
    cdef DnssecState state
    cdef ZoneList zones
    cdef list rdatas
    cdef list watched

    def __init__(self, str name, ZoneList zones not None, uint64_t number, list keys not None, uint32_t capacity, uint32_t pace):
        handler_init(self)
        cdef bytes rdata
        NativeHandler.__init__(self, name)
        self.zones = zones
        self.watched = []
        self.rdatas = [rdata for _, rdata in keys]
        self.state.zones = &zones.zones
        self.state.number = number
        self.state.pace = 1000000000 // max(pace, 1)
        self.state.budget = &dnssec_budget
        self.state.keys = <KeyRecord *>calloc(len(keys) + 1, sizeof(KeyRecord))
        if self.state.keys == NULL or signatures_open(&self.state.signatures, capacity) < 0:
            raise MemoryError
        for ttl, rdata in keys:
            self.state.keys[self.state.key_count].ttl = ttl
            self.state.keys[self.state.key_count].rdata = rdata
            self.state.keys[self.state.key_count].length = <uint16_t>len(rdata)
            self.state.key_count += 1
        self.handler.state = &self.state
        self.handler.scratch_size = sizeof(Scratch)
        self.handler.query = dnssec_query
        self.handler.reply = dnssec_reply
        self.handler.resume = dnssec_resume
        self.handler.abandon = dnssec_abandon

    def __dealloc__(self):
        signatures_close(&self.state.signatures)
        free(self.state.keys)
        free(self.state.cells)

    cpdef attach(self, list servers, str view):
        cdef Cells *cells
        cdef uint32_t count = label_count(servers)
        free(self.state.cells)
        self.state.cells = <Cells *>calloc(count, sizeof(Cells))
        if self.state.cells == NULL:
            raise MemoryError
        for label, server in servers:
            cells = &self.state.cells[<uint32_t>label]
            cells.hits = HITS.cell((server,))
            cells.misses = MISSES.cell((server,))
            cells.refused = REFUSED.cell((server,))
            ENTRIES.watch((server, "signature"), self.entries)
            self.watched.append((server, "signature"))

    cpdef close(self):
        for values in self.watched:
            if ENTRIES._watched.get(values) == self.entries:
                ENTRIES.forget(values)
        self.watched.clear()
        if self.plugin is not None:
            self.plugin.stop()

    def entries(self) -> int:
        return self.state.signatures.order.count

    def octets(self) -> int:
        return self.state.signatures.octets

    def find(self, bytes key not None, uint32_t moment):
        cdef Entry *entry = signatures_find(&self.state.signatures, key, <uint32_t>len(key), signatures_hash(key, <uint32_t>len(key)))
        if entry == NULL or not entry_good(entry, moment):
            return None
        return (<const char *>entry_signatures(entry))[:entry.octets]

    def put(self, bytes key not None, uint32_t begins, uint32_t expires, bytes octets not None):
        if signatures_put(&self.state.signatures, key, <uint32_t>len(key), begins, expires, octets, <uint32_t>len(octets)) < 0:
            raise MemoryError

    def free_retired(self):
        cdef SieveLink *retired = signatures_retired(&self.state.signatures)
        if retired != NULL:
            with nogil:
                epoch_wait()
                signatures_free(retired)

    def clean(self, uint32_t moment):
        signatures_clean(&self.state.signatures, moment + FRESH)
        self.free_retired()
