"""The native handler of kubernetes: from a query to the records of the store."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp
from fastdns.api.query cimport (handler_init, ANSWERED, FAILED, NEXT, PARKED, PREFETCH_END, PREFETCH_NEXT, PREFETCH_PASS, Handler, Prefetch, Query,
                                Verdict, query_answer, query_error, query_fail, query_scratch)
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, SECTION_AUTHORITY, Record, reply_add, reply_clear
from fastdns.api.names cimport Name, ZoneName, zones_hold, zones_match
from fastdns.api.wire cimport (CLASS_IN, FLAG_AA, RCODE_NOERROR, RCODE_NXDOMAIN, RCODE_REFUSED, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_AXFR,
                               TYPE_CNAME, TYPE_IXFR, TYPE_NS, TYPE_PTR, TYPE_SOA, TYPE_SRV, TYPE_TXT)
from fastdns.api.memory cimport atomic_peek8, blocks_free, blocks_take, fetch_line
from fastdns.api.metrics cimport Metric, label_count
from fastdns.plugins.kubernetes.answer.records cimport (Ask, Candidates, answer_addresses, answer_exists, answer_expire, answer_servers, answer_soa,
                                                        answer_srv, ask_resolve)
from fastdns.plugins.kubernetes.answer.chase cimport Chase, chase_begin, chase_resume
from fastdns.plugins.kubernetes.store.find cimport Probe, probe_begin, probe_next, service_key_hash
from fastdns.plugins.kubernetes.store.memory cimport load_count
from fastdns.plugins.kubernetes.answer.name cimport EVERYWHERE, FORM_SERVERS, FORM_VERSION, name_reverse
from fastdns.plugins.kubernetes.store.records cimport IMPORTED, LOCAL, ServiceNode, cluster_is_stale, node_service, service_alias
from fastdns.plugins.kubernetes.answer.reverse cimport answer_reverse
from fastdns.plugins.kubernetes.answer.view cimport FOUND_ALIAS, NEAR_OUTCOMES, View, ZONE_IMPORTED

cdef enum:
    VERSION_TTL = 28800
    STALE_ANSWER = 3                # extended error (RFC 8914 4.4)

cdef enum Step:                     # how far an answer came
    NAME_ERROR
    READY                           # what there is, is in the reply
    WAITING                         # parked
    BROKEN                          # no slot is free to look on: nothing is written


# ---- one query ----

cdef struct Seen:                   # what the prefetch hooks have found: of this name, which a handler above may have changed since
    const Name *name
    const ZoneName *zone
    uint64_t hash                   # of the service's key; 0: not known
    Probe probe                     # for its node; then
    const ServiceNode *node         # that node, or one whose hash is alike

cdef struct Scratch:
    Chase chase
    Seen seen


cdef Prefetch kubernetes_prefetch(Handler *self, Query *q) noexcept nogil:
    """A service takes four reads that wait for each other: slot, node, record and namespace."""
    cdef View *view = <View *>self.state
    cdef Seen *seen = &(<Scratch *>query_scratch(self, q)).seen
    seen.zone = zones_match(view.zones, q.name)
    if seen.zone == NULL:
        return PREFETCH_PASS
    seen.name = q.name
    return begin_look(view, q.name, seen)


cdef Prefetch kubernetes_prefetch_next(Handler *self, Query *q, uint32_t step) noexcept nogil:
    cdef Seen *seen = &(<Scratch *>query_scratch(self, q)).seen
    cdef const uint8_t *record
    if step == 1:
        seen.node = <const ServiceNode *>probe_next(&seen.probe)
        if seen.node == NULL:
            return PREFETCH_END
        fetch_line(seen.node)
        return PREFETCH_NEXT
    record = <const uint8_t *>node_service(seen.node)
    fetch_line(record)
    fetch_line(record + 64)
    fetch_line(seen.node.namespace)
    return PREFETCH_END


cdef inline Prefetch begin_look(const View *view, const Name *name, Seen *seen) noexcept nogil:
    cdef uint32_t labels = name.labels - seen.zone.labels
    cdef const uint8_t *key
    cdef Probe *probe = &seen.probe
    if labels < 3 or memcmp(name.lower + name.offset[labels - 1], b"\x03svc", 4) != 0:
        return PREFETCH_END
    key = name.lower + name.offset[labels - 3]
    seen.hash = service_key_hash(key, name.offset[labels - 1] - name.offset[labels - 3])
    probe_begin(probe, &view.cluster.services[IMPORTED if view.zone_flags[seen.zone - view.zones.names] & ZONE_IMPORTED else LOCAL], seen.hash)
    if probe.slots == NULL:
        return PREFETCH_END
    fetch_line(&probe.slots.slot[probe.i & probe.slots.mask])
    return PREFETCH_NEXT


cdef Verdict kubernetes_query(Handler *self, Query *q) noexcept nogil:
    cdef View *view = <View *>self.state
    cdef const Seen *seen = &(<Scratch *>query_scratch(self, q)).seen
    cdef bint known = seen.name == q.name
    cdef const ZoneName *zone = seen.zone if known else zones_match(view.zones, q.name)
    cdef Ask ask
    if zone == NULL:
        return NEXT
    if q.qtype == TYPE_AXFR or q.qtype == TYPE_IXFR:
        return query_fail(q, RCODE_REFUSED, NULL)
    ask_begin(&ask, view, q, zone, seen.hash if known else 0)
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    return apply_step(self, &ask, answer(self, &ask))


cdef void ask_begin(Ask *ask, const View *view, Query *q, const ZoneName *zone, uint64_t key_hash) noexcept nogil:
    ask.view = view
    ask.q = q
    ask.name = q.name
    ask.owner = q.name.wire
    ask.owner_length = q.name.length
    ask.owned = 1
    ask.zone = q.name.wire + q.name.length - zone.length
    ask.zone_length = zone.length
    ask.zone_flags = view.zone_flags[zone - view.zones.names]
    ask.zone_name = zone
    ask_resolve(ask, q.name.labels - zone.labels, key_hash)


cdef Verdict apply_step(Handler *self, Ask *ask, Step step) noexcept nogil:
    """What follows from the look-up: spec/plugins-a-k.md, order of decisions."""
    cdef Query *q = ask.q
    cdef const View *view = ask.view
    if step == WAITING:
        return PARKED
    if step == BROKEN:
        return FAILED
    if step == NAME_ERROR:
        if view.fallthrough != NULL and zones_hold(view.fallthrough, q.name):
            reply_clear(&q.reply)
            return NEXT
        q.reply.count = 0
        q.reply.rcode = RCODE_NXDOMAIN if load_count(&view.cluster.synced) & view.kinds == view.kinds else RCODE_SERVFAIL
    if q.reply.count == 0 and not q.reply.overflow:
        answer_soa(ask, SECTION_AUTHORITY)
    return ANSWERED


cdef Step step(bint found) noexcept nogil:
    return READY if found else NAME_ERROR


cdef Step answer(Handler *self, Ask *ask) noexcept nogil:
    cdef uint16_t qtype = ask.q.qtype
    cdef uint8_t ip[16]
    cdef uint8_t family
    if qtype == TYPE_A or qtype == TYPE_AAAA:
        return answer_family(self, ask, qtype)
    if qtype == TYPE_SRV:
        return step(answer_srv(ask))
    if qtype == TYPE_PTR:
        family = name_reverse(ask.name, ip)
        return step(answer_reverse(ask, ip, family) if family else answer_exists(ask, False) and ask.wanted.form != FORM_SERVERS)
    if qtype == TYPE_TXT:
        return answer_text(ask)
    if qtype == TYPE_CNAME:
        return answer_alias(ask)
    if qtype == TYPE_SOA:
        if ask.wanted.zone == 0:
            answer_soa(ask, SECTION_ANSWER)
            answer_expire(ask)
        return READY
    if qtype == TYPE_NS and ask.wanted.zone == 0:
        # CoreDNS compares the name in lower case with the zone as asked for.
        if memcmp(ask.zone, ask.name.lower, ask.zone_length) == 0:
            answer_servers(ask)
        return READY
    return step(answer_exists(ask, False))


cdef Step answer_family(Handler *self, Ask *ask, uint16_t qtype) noexcept nogil:
    cdef Candidates candidates
    cdef Verdict verdict
    candidates.count = 0
    if not answer_addresses(ask, qtype, &candidates):
        return NAME_ERROR
    if candidates.count == 0:
        return READY
    verdict = chase_begin(self, ask, &candidates)
    return WAITING if verdict == PARKED else READY if verdict == ANSWERED else BROKEN


cdef Step answer_text(Ask *ask) noexcept nogil:
    """Besides the version nothing has text; but only names with entries exist for it, the zone itself does not."""
    cdef Record *record
    if ask.wanted.form == FORM_VERSION:
        record = reply_add(&ask.q.reply, SECTION_ANSWER)
        if record != NULL:
            record.owner = ask.owner
            record.owner_length = ask.owner_length
            record.type = TYPE_TXT
            record.klass = CLASS_IN
            record.ttl = VERSION_TTL
            record.rdata = <const uint8_t *>b"\x051.1.0"
            record.rdlength = 6
            record.flags = RECORD_OWNED
        return READY
    if ask.wanted.direction != EVERYWHERE:
        return READY
    return step(answer_exists(ask, True))


cdef Step answer_alias(Ask *ask) noexcept nogil:
    """The first alias, by itself."""
    cdef Record *record
    if ask.result.found != FOUND_ALIAS:
        return step(answer_exists(ask, False))
    record = reply_add(&ask.q.reply, SECTION_ANSWER)
    if record != NULL:
        record.owner = ask.owner
        record.owner_length = ask.owner_length
        record.type = TYPE_CNAME
        record.klass = CLASS_IN
        record.ttl = ask.view.ttl
        record.rdata = service_alias(ask.result.record)
        record.rdlength = ask.result.record.alias_length
    return READY


cdef Verdict kubernetes_resume(Handler *self, Query *q) noexcept nogil:
    cdef View *view = <View *>self.state
    cdef const ZoneName *zone = zones_match(view.zones, q.name)
    cdef Ask ask
    cdef Verdict verdict
    ask_begin(&ask, view, q, zone, 0)
    verdict = chase_resume(self, &ask)
    return apply_step(self, &ask, READY) if verdict == ANSWERED else verdict


# ---- a replica ----

cdef Verdict replica_query(Handler *self, Query *q) noexcept nogil:
    return aged(<const View *>self.state, q, kubernetes_query(self, q))


cdef Verdict replica_resume(Handler *self, Query *q) noexcept nogil:
    return aged(<const View *>self.state, q, kubernetes_resume(self, q))


cdef Verdict aged(const View *view, Query *q, Verdict verdict) noexcept nogil:
    """The verdict where what is known may be stale."""
    if verdict != ANSWERED or not cluster_is_stale(view.cluster, view.kinds, q.worker.now):
        return verdict
    if atomic_peek8(&view.cluster.stale_fails):
        return query_fail(q, RCODE_SERVFAIL, b"plugin/kubernetes: no primary has confirmed the replica in time")
    query_error(q, STALE_ANSWER, b"")
    return ANSWERED


# ---- set-up ----

cdef Metric LOOKUPS = Metric("fastdns_kubernetes_topology_lookups_total", "Counter of look-ups of headless services by what was near the client.",
                             "counter", ("server", "view", "result"))
cdef tuple RESULTS = ("unknown", "node", "zone", "elsewhere", "none")     # by NearOutcome


cdef class Kubernetes(ViewHandler):

    def __cinit__(self, *args, **options):
        handler_init(self)
        self.handler.prefetch = kubernetes_prefetch
        self.handler.prefetch_next = kubernetes_prefetch_next
        self.handler.query = kubernetes_query
        self.handler.resume = kubernetes_resume
        self.handler.scratch_size = sizeof(Scratch)
        self.journals = {}
        if options.get("replica"):
            self.handler.query = replica_query
            self.handler.resume = replica_resume

    def __dealloc__(self):
        blocks_free(&self.cells)

    cpdef attach(self, list servers, str view):
        cdef uint32_t count = label_count(servers), outcome
        if self.view.near == 0:
            return
        blocks_free(&self.cells)
        self.view.near_cells = <uint32_t *>blocks_take(&self.cells, count * <size_t>NEAR_OUTCOMES * sizeof(uint32_t))
        if self.view.near_cells == NULL:
            raise MemoryError
        for label, server in servers:
            for outcome in range(<uint32_t>NEAR_OUTCOMES):
                self.view.near_cells[<uint32_t>label * <uint32_t>NEAR_OUTCOMES + outcome] = LOOKUPS.cell((server, view, RESULTS[outcome]))

    cpdef close(self):
        for journal in self.journals.values():
            journal.close()

    def transfer(self, bytes zone, serial):
        from fastdns.plugins.kubernetes.zone.transfer import zone_transfer

        if zone in self.journals:
            return self.journals[zone].transfer()
        return zone_transfer(self, zone, serial)

    def transfer_told(self, bytes zone):
        return zone in self.journals

    def transfer_changes(self, bytes zone, version):
        return self.journals[zone].transfer_changes(version)

    def transfer_size(self, bytes zone, serial):
        from fastdns.plugins.kubernetes.zone.transfer import zone_size

        return self.journals[zone].size(serial) if zone in self.journals else zone_size(self, zone)

    def label(self, str name):
        """Publishes metadata ``kubernetes/NAME``."""
        from fastdns.plugins.kubernetes._labels import publish

        return publish(self, name)

    def client_label(self, str name):
        from fastdns.plugins.kubernetes._labels import certain

        return certain(self, name)

    def cluster_names(self, *, bint guarded):
        from fastdns.plugins.kubernetes._cluster_names import cluster_names

        return cluster_names(self, guarded)

    def unsynced(self, str mode not None, double after):
        from fastdns.plugins.acl._cluster import Unsynced
        from fastdns.plugins.kubernetes.watch.problems import Gate
        from fastdns.plugins.kubernetes.watch.resources import Kind

        flags = Unsynced()
        if self.problems is not None:
            self.problems.add_gate(flags, Gate(mode, after, frozenset((Kind.POD,))))
        return flags

    def cluster_view(self):
        from fastdns.plugins.kubernetes._cluster import ClusterView

        return ClusterView(self)

    def name_observer(self, unkept):
        from fastdns.plugins.kubernetes.name_observer import of_cluster

        return of_cluster(self, unkept)

    def search_path(self):
        return self._search_path(False)

    def question_path(self):
        return self._search_path(True)

    cdef _search_path(self, bint by_question):
        from fastdns.plugins.autopath import read_search
        from fastdns.plugins.kubernetes._search import search_path

        try:
            search = read_search("/etc/resolv.conf")
        except OSError:
            search = []
        return search_path(self, search, by_question)
