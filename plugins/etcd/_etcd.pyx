"""The native handler of etcd: from a query to the services that its name asks for."""
from libc.math cimport floor
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, strncpy
from fastdns.api.query cimport ANSWERED, ERROR_MAX, NEXT, Handler, NativeHandler, Query, Verdict, handler_init, query_answer, query_scratch
from fastdns.api.reply cimport (RECORD_OWNED, SECTION_ADDITIONAL, SECTION_ANSWER, SECTION_AUTHORITY, Dedup, reply_alloc, reply_clear, reply_copy,
                                reply_put, dedup_add, dedup_begin)
from fastdns.api.names cimport NAME_MAX, ZoneList, ZoneName, wire_name_equal, wire_name_text, zones_hold, zones_match
from fastdns.api.wire cimport (FLAG_AA, RCODE_NOERROR, RCODE_NXDOMAIN, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_MX, TYPE_NS, TYPE_PTR,
                               TYPE_SOA, TYPE_SRV, TYPE_TXT, store16, store32)
from fastdns.api.memory cimport atomic_load_pointer
from fastdns.plugins.etcd._chase cimport Chase, Etcd, Extras, Target, chase_go, chase_push, chase_resume, lookup_data, ttl_of
from fastdns.plugins.etcd._lookup cimport FOUND_BROKEN, FOUND_NOTHING, FOUND_SOME, Found, Lookup, lookup_again, lookup_begin, lookup_next
from fastdns.plugins.etcd._snapshot cimport HOST_4, HOST_6, HOST_NAME, Records, Service, Snapshot

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    time_t time(time_t *out)

cdef enum:
    SOA_TTL = 30
    REFRESH = 7200
    RETRY = 1800
    EXPIRE = 86400
    EXTRAS_MAX = 64                 # different targets that addresses are looked up for
    PRIORITIES = 64                 # different ones whose weights are summed up once


# ---- one query ----

cdef Verdict on_query(Handler *self, Query *q) noexcept nogil:
    cdef Etcd *etcd = <Etcd *>self.state
    cdef const ZoneName *zone = zones_match(etcd.zones, q.name)
    cdef const Snapshot *snapshot
    cdef Chase *chase
    cdef Lookup lookup
    cdef Found found
    if zone == NULL:
        return NEXT
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    if q.qtype == TYPE_SOA:
        add_soa(q, zone, SECTION_ANSWER)
        return ANSWERED
    snapshot = <const Snapshot *>atomic_load_pointer(<void **>&etcd.source.snapshot)
    if snapshot == NULL:
        return fail(q, zone, b"etcd has not answered yet")
    chase = <Chase *>query_scratch(self, q)
    chase.top = NULL
    chase.extras = NULL
    chase.section = SECTION_ANSWER
    chase.qtype = q.qtype
    found = answer(etcd, q, chase, snapshot, zone, &lookup)
    if found == FOUND_BROKEN:
        q.reply.count = 0
        return fail_of(q, zone, snapshot, lookup.broken)
    if found == FOUND_NOTHING:
        if etcd.fallthrough != NULL and zones_hold(etcd.fallthrough, q.name):
            reply_clear(&q.reply)
            return NEXT
        q.reply.rcode = RCODE_NXDOMAIN
        return add_soa_if_empty(q, zone, ANSWERED)
    return add_soa_if_empty(q, zone, chase_go(self, q, zone))


cdef Found answer(const Etcd *etcd, Query *q, Chase *chase, const Snapshot *snapshot, const ZoneName *zone, Lookup *lookup) noexcept nogil:
    cdef uint16_t qtype = q.qtype
    cdef bint apex = q.name.length == zone.length
    cdef uint8_t servers[NAME_MAX + 16]
    cdef Found found
    lookup.broken = NULL
    if qtype == TYPE_CNAME or qtype == TYPE_PTR:
        found = lookup_begin(lookup, snapshot, &q.name.lower[0], True, qtype)
        if found == FOUND_SOME:
            add_names(etcd, q, lookup)
        return found
    if qtype == TYPE_NS and apex:
        if zone.length + 7u > NAME_MAX:
            return FOUND_NOTHING
        memcpy(servers, <const char *>b"\x02ns\x03dns", 7)
        memcpy(servers + 7, zone.wire, zone.length)
        found = lookup_begin(lookup, snapshot, servers, False, qtype)
        return add_servers(etcd, q, lookup) if found == FOUND_SOME else found
    if qtype == TYPE_SRV or qtype == TYPE_MX:
        found = lookup_begin(lookup, snapshot, &q.name.lower[0], False, qtype)
        if found == FOUND_SOME:
            add_services(etcd, q, chase, lookup)
        return found
    found = lookup_data(etcd, lookup, snapshot, &q.name.lower[0], q.name.length, zone, qtype)
    if found == FOUND_SOME and (qtype == TYPE_A or qtype == TYPE_AAAA or qtype == TYPE_TXT):
        chase_push(etcd, q, chase, lookup, q.name.wire, q.name.length)
    return found


cdef Verdict add_soa_if_empty(Query *q, const ZoneName *zone, Verdict verdict) noexcept nogil:
    if verdict == ANSWERED and q.reply.count == 0 and not q.reply.overflow:
        add_soa(q, zone, SECTION_AUTHORITY)
    return verdict


cdef Verdict fail(Query *q, const ZoneName *zone, const char *error) noexcept nogil:
    """A message with the SOA, and an error besides for log and errors."""
    q.reply.rcode = RCODE_SERVFAIL
    strncpy(q.error, error, ERROR_MAX - 1)
    q.error[ERROR_MAX - 1] = 0
    add_soa(q, zone, SECTION_AUTHORITY)
    return ANSWERED


cdef Verdict fail_of(Query *q, const ZoneName *zone, const Snapshot *snapshot, const Service *service) noexcept nogil:
    cdef char error[ERROR_MAX]
    cdef char name[1024]
    if service.kind != HOST_NAME:
        return fail(q, zone, <const char *>snapshot.octets + service.host)
    name[0] = 0
    if service.host_length:
        name[wire_name_text(snapshot.octets + service.host, name)] = 0
    snprintf(error, ERROR_MAX, b"NS record must be an IP address: %.150s", name)
    return fail(q, zone, error)


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    cdef const ZoneName *zone = zones_match((<Etcd *>self.state).zones, q.name)
    return add_soa_if_empty(q, zone, chase_resume(self, q, zone))


# ---- records ----

cdef void add_soa(Query *q, const ZoneName *zone, int section) noexcept nogil:
    cdef uint8_t *rdata = reply_alloc(&q.reply, 2u * zone.length + 38)
    cdef uint32_t used = 0
    cdef bint fits = zone.length + 11 <= NAME_MAX
    if rdata == NULL:
        return
    if fits:
        memcpy(rdata, <const char *>b"\x02ns\x03dns", 7)
        used = 7
    memcpy(rdata + used, zone.wire, zone.length)
    used += zone.length
    if fits:
        memcpy(rdata + used, <const char *>b"\x0ahostmaster", 11)
        used += 11
    memcpy(rdata + used, zone.wire, zone.length)
    used += zone.length
    store32(rdata + used, <uint32_t>time(NULL))
    store32(rdata + used + 4, REFRESH)
    store32(rdata + used + 8, RETRY)
    store32(rdata + used + 12, EXPIRE)
    store32(rdata + used + 16, SOA_TTL)
    reply_put(&q.reply, section, zone.wire, zone.length, TYPE_SOA, SOA_TTL, rdata, <uint16_t>(used + 20), 0)


cdef void add_names(const Etcd *etcd, Query *q, Lookup *lookup) noexcept nogil:
    """CNAME: that of the first service; PTR: all."""
    cdef const Service *service
    cdef Dedup dedup
    dedup_begin(&dedup, &q.reply, False)
    while True:
        service = lookup_next(lookup)
        if service == NULL:
            return
        if service.kind != HOST_4 and service.kind != HOST_6 and service.host_length:
            dedup_add(&dedup, SECTION_ANSWER, q.name.wire, q.name.length, q.qtype, ttl_of(etcd, q, lookup, service), lookup.snapshot.octets + service.host,
                      service.host_length, 0)
        if q.qtype == TYPE_CNAME:
            return


cdef void add_address(Query *q, Dedup *dedup, const Service *service, uint32_t ttl, const uint8_t *owner, uint8_t length) noexcept nogil:
    cdef uint16_t qtype = TYPE_A if service.kind == HOST_4 else TYPE_AAAA
    dedup_add(dedup, SECTION_ADDITIONAL, owner, length, qtype, ttl, &service.ip[0], 4 if service.kind == HOST_4 else 16, 0)


cdef const uint8_t *stripped(const uint8_t *name, uint32_t labels, uint8_t *length) noexcept nogil:
    """The name without its first labels; the whole name if it has no more than these."""
    cdef const uint8_t *at = name
    cdef uint8_t left = length[0]
    while labels and at[0]:
        left -= at[0] + 1
        at += at[0] + 1
        labels -= 1
    if at[0] == 0:
        return name
    length[0] = left
    return at


cdef Found add_servers(const Etcd *etcd, Query *q, Lookup *lookup) noexcept nogil:
    cdef const Service *service
    cdef const uint8_t *target
    cdef uint8_t length
    cdef uint32_t ttl
    cdef Dedup answers, extra
    dedup_begin(&answers, &q.reply, True)
    dedup_begin(&extra, &q.reply, True)
    while True:
        service = lookup_next(lookup)
        if service == NULL:
            return FOUND_SOME
        if service.kind == HOST_NAME:
            lookup.broken = service
            return FOUND_BROKEN
        if (service.kind != HOST_4 and service.kind != HOST_6) or service.name_length == 0:
            continue
        length = service.name_length
        ttl = ttl_of(etcd, q, lookup, service)
        target = stripped(lookup.snapshot.octets + service.name, service.strip, &length)
        if dedup_add(&answers, SECTION_ANSWER, q.name.wire, q.name.length, TYPE_NS, ttl, target, length, 0) < 0:
            return FOUND_SOME
        add_address(q, &extra, service, ttl, target, length)


# ---- SRV and MX ----

cdef struct Weights:                # sums by priority
    uint32_t count
    int priority[PRIORITIES]
    double sum[PRIORITIES]


cdef double add_weights(Lookup *lookup, int priority) noexcept nogil:
    cdef Lookup walk = lookup[0]
    cdef const Service *service
    cdef double sum = 0
    lookup_again(&walk)
    while True:
        service = lookup_next(&walk)
        if service == NULL:
            return sum
        if service.priority == priority:
            sum += service.weight if service.weight else 100


cdef double weights_of(Weights *weights, Lookup *lookup, int priority) noexcept nogil:
    cdef uint32_t i
    cdef double sum
    for i in range(weights.count):
        if weights.priority[i] == priority:
            return weights.sum[i]
    sum = add_weights(lookup, priority)
    i = weights.count if weights.count < PRIORITIES else PRIORITIES - 1
    weights.priority[i] = priority
    weights.sum[i] = sum
    weights.count = i + 1
    return sum


cdef uint16_t share(Weights *weights, Lookup *lookup, const Service *service) noexcept nogil:
    cdef double sum = weights_of(weights, lookup, service.priority)
    cdef double part = 100.0 / sum * (service.weight if service.weight else 100) if sum > 0 else 1
    return <uint16_t><uint32_t>floor(part) if 1 <= part < 65536 else 1


cdef bint note_extra(Query *q, Chase *chase, const uint8_t *wire, uint8_t length) noexcept nogil:
    """The target's addresses are to be looked up, once."""
    cdef Extras *extras = chase.extras
    cdef uint32_t i
    if extras == NULL:
        extras = <Extras *>reply_alloc(&q.reply, <uint32_t>(sizeof(Extras) + EXTRAS_MAX * sizeof(Target)))
        if extras == NULL:
            return False
        extras.next = 0
        extras.count = 0
        extras.second = 0
        chase.extras = extras
    for i in range(extras.count):
        if extras.targets[i].length == length and wire_name_equal(extras.targets[i].wire, wire, length):
            return True
    if extras.count == EXTRAS_MAX:
        return False
    extras.targets[extras.count].wire = wire
    extras.targets[extras.count].length = length
    extras.targets[extras.count].ttl = 0
    extras.count += 1
    return True


cdef void add_services(const Etcd *etcd, Query *q, Chase *chase, Lookup *lookup) noexcept nogil:
    cdef const Snapshot *snapshot = lookup.snapshot
    cdef const Service *service
    cdef const uint8_t *target
    cdef uint8_t *rdata
    cdef uint8_t buffer[NAME_MAX + 6]
    cdef uint8_t length
    cdef uint32_t head, ttl
    cdef bint srv = q.qtype == TYPE_SRV
    cdef Dedup answers, extra
    cdef Weights weights
    cdef int added
    weights.count = 0
    chase.section = SECTION_ADDITIONAL
    chase.qtype = TYPE_A
    dedup_begin(&answers, &q.reply, False)
    dedup_begin(&extra, &q.reply, True)
    while not q.reply.overflow:
        service = lookup_next(lookup)
        if service == NULL:
            return
        if service.port == -1 if srv else not service.mail:
            continue
        if service.kind == HOST_NAME:
            length = service.host_length
            target = snapshot.octets + service.host
        elif service.kind == HOST_4 or service.kind == HOST_6:
            length = service.name_length
            target = snapshot.octets + service.name
        else:
            continue
        if length == 0:
            continue
        target = stripped(target, service.strip, &length)
        head = 6 if srv else 2
        store16(buffer, <uint16_t>service.priority)
        if srv:
            store16(buffer + 2, share(&weights, lookup, service))
            store16(buffer + 4, <uint16_t>service.port)
        memcpy(buffer + head, target, length)
        rdata = reply_copy(&q.reply, buffer, head + length)
        if rdata == NULL:
            return
        ttl = ttl_of(etcd, q, lookup, service)
        if service.kind == HOST_NAME:
            if reply_put(&q.reply, SECTION_ANSWER, q.name.wire, q.name.length, q.qtype, ttl, rdata, <uint16_t>(head + length), RECORD_OWNED) < 0:
                return
            note_extra(q, chase, rdata + head, length)
            continue
        added = dedup_add(&answers, SECTION_ANSWER, q.name.wire, q.name.length, q.qtype, ttl, rdata, <uint16_t>(head + length), RECORD_OWNED)
        if added < 0:
            return
        if srv:
            add_address(q, &extra, service, ttl, rdata + head, length)
        else:                       # CoreDNS strips no labels here
            add_address(q, &extra, service, ttl, snapshot.octets + service.name, service.name_length)


# ---- set-up ----

cdef class EtcdHandler(NativeHandler):
    cdef Etcd etcd
    cdef Records records
    cdef ZoneList zones
    cdef ZoneList fall

    def __cinit__(self, *args, **options):
        handler_init(self)
        self.handler.query = on_query
        self.handler.resume = on_resume
        self.handler.scratch_size = sizeof(Chase)
        self.handler.state = &self.etcd

    def __init__(self, Records records not None, zones, *, fallthrough=None, uint32_t least=30, uint32_t most=86400,
                 bint apex_fallback=True):
        NativeHandler.__init__(self, "etcd")
        self.records = records
        self.zones = ZoneList(zones)
        self.etcd.source = &records.source
        self.etcd.zones = &self.zones.zones
        if fallthrough is not None:
            self.fall = ZoneList(fallthrough)
            self.etcd.fallthrough = &self.fall.zones
        self.etcd.least = least
        self.etcd.apex_fallback = apex_fallback
        self.etcd.most = most
