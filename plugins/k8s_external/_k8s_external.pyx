"""The native handler of k8s_external: from a query to the external addresses in the store of the block's kubernetes."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from fastdns.api.query cimport (handler_init, ANSWERED, CHILD_MUX, FAILED, NEXT, PARKED, Handler, Query, Verdict, query_answer, query_child,
                                query_fail, query_park, query_scratch)
from fastdns.api.reply cimport SECTION_ADDITIONAL, SECTION_ANSWER, SECTION_AUTHORITY, reply_append, reply_clear
from fastdns.api.names cimport Name, ZoneName, name_is_below, wire_name_copy, zones_hold, zones_match
from fastdns.api.wire cimport FLAG_AA, FLAG_TC, RCODE_NOERROR, RCODE_NXDOMAIN, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_NS, TYPE_SOA, TYPE_SRV
from fastdns.plugins.k8s_external._answer cimport ANSWER_NAME_ERROR, Host, Hosts, answer_server, answer_server_addresses, answer_soa, external_answer
from fastdns.plugins.k8s_external._external cimport Apex, External
from fastdns.plugins.kubernetes.answer.records cimport Ask

cdef struct Lookup:                 # in the query's scratch
    Hosts *hosts                    # in the query's arena
    uint8_t second                  # of SRV: the IPv4 addresses are there, it is the turn of the others


# ---- one query ----

cdef Verdict on_query(Handler *self, Query *q) noexcept nogil:
    cdef External *external = <External *>self.state
    cdef const ZoneName *zone = zones_match(external.zones, q.name)
    cdef const Apex *apex
    cdef const Apex *other
    cdef Lookup *lookup
    cdef uint32_t i
    cdef Ask ask
    if zone == NULL:
        return NEXT
    apex = &external.apexes[zone - external.zones.names]
    ask_begin(&ask, external, q, zone)
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    for i in range(external.zones.count):       # in the order of the Corefile: a zone may lie in the name servers' part of another
        other = &external.apexes[external.order[i]]
        if q.name.length == other.zone.length and memcmp(q.name.lower, other.zone.wire, other.zone.length) == 0:
            return answer_apex(external, apex, &ask)
        if name_is_below(q.name, other.under, other.under_length):
            return answer_under(external, apex, &ask)
    lookup = <Lookup *>query_scratch(self, q)
    if external_answer(external, &ask, &lookup.hosts) == ANSWER_NAME_ERROR:
        if external.fallthrough != NULL and zones_hold(external.fallthrough, q.name):
            reply_clear(&q.reply)
            return NEXT
        q.reply.rcode = RCODE_NXDOMAIN
    if lookup.hosts != NULL:
        lookup.second = 0
        return look_up(self, q, lookup)
    return add_soa_if_empty(external, apex, &ask)


cdef void ask_begin(Ask *ask, const External *external, Query *q, const ZoneName *zone) noexcept nogil:
    ask.view = external.view
    ask.q = q
    ask.name = q.name
    ask.owner = q.name.wire
    ask.owner_length = q.name.length
    ask.owned = 1
    ask.zone = &zone.wire[0]
    ask.zone_length = zone.length
    ask.zone_flags = 0
    ask.wanted.zone = q.name.labels - zone.labels


cdef Verdict add_soa_if_empty(const External *external, const Apex *apex, Ask *ask) noexcept nogil:
    if ask.q.reply.count == 0 and not ask.q.reply.overflow:
        answer_soa(external, apex, ask, SECTION_AUTHORITY)
    return ANSWERED


cdef Verdict answer_apex(const External *external, const Apex *apex, Ask *ask) noexcept nogil:
    if ask.q.qtype == TYPE_SOA:
        answer_soa(external, apex, ask, SECTION_ANSWER)
    elif ask.q.qtype == TYPE_NS:
        answer_server(external, apex, ask)
    return add_soa_if_empty(external, apex, ask)


cdef Verdict answer_under(const External *external, const Apex *apex, Ask *ask) noexcept nogil:
    """LABEL.ZONE is empty, ns1.LABEL.ZONE has addresses, and there is nothing else. CoreDNS counts labels, however many LABEL has."""
    cdef const uint8_t *first = &ask.name.lower[0]
    if ask.wanted.zone == 2 and memcmp(first, <const char *>b"\x03ns1", 4) == 0:
        if ask.q.qtype == TYPE_A or ask.q.qtype == TYPE_AAAA:
            answer_server_addresses(external, ask, ask.q.qtype)
    elif ask.wanted.zone > 1:
        ask.q.reply.rcode = RCODE_NXDOMAIN
    return add_soa_if_empty(external, apex, ask)


# ---- host names of load balancers ----

cdef Verdict look_up(Handler *self, Query *q, Lookup *lookup) noexcept nogil:
    """Asks the server for the addresses of the next host name."""
    cdef Hosts *hosts = lookup.hosts
    cdef const Host *host
    cdef Name name
    if hosts.next == hosts.count:
        return ANSWERED
    host = &hosts.hosts[hosts.next]
    wire_name_copy(&name, host.wire, host.length)
    if query_park(q, 0) < 0 or query_child(self, q, CHILD_MUX, &name, q.qtype if q.qtype != TYPE_SRV else TYPE_AAAA if lookup.second else TYPE_A) < 0:
        query_fail(q, RCODE_SERVFAIL, b"plugin/k8s_external: no slot is free to look up the host name of a load balancer")
        return FAILED
    return PARKED


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    cdef Lookup *lookup = <Lookup *>query_scratch(self, q)
    cdef Query *child = q.child
    cdef const Host *host = &lookup.hosts.hosts[lookup.hosts.next]
    cdef uint32_t i, k, before
    # Whatever its rcode is; a failure, and a query that was dropped, just have no records.
    if child != NULL and q.qtype != TYPE_SRV and (child.reply.flags & FLAG_TC or child.reply.overflow):
        q.reply.flags |= FLAG_TC
    if child != NULL and child.reply.written:
        for i in range(host.times):
            before = q.reply.count
            reply_append(&q.reply, &child.reply, SECTION_ANSWER)
            if q.qtype == TYPE_SRV:
                for k in range(before, q.reply.count):
                    q.reply.records[k].section = SECTION_ADDITIONAL
    if q.qtype == TYPE_SRV and not lookup.second:
        lookup.second = 1
    else:
        lookup.second = 0
        lookup.hosts.next += 1
    return look_up(self, q, lookup)


# ---- set-up ----

cdef class ExternalHandler(ExternalZones):

    def __cinit__(self, *args, **options):
        handler_init(self)
        self.handler.query = on_query
        self.handler.resume = on_resume
        self.handler.scratch_size = sizeof(Lookup)

    def transfer(self, bytes zone, serial):
        from fastdns.plugins.k8s_external._transfer import zone_transfer

        return zone_transfer(self, zone, serial)
