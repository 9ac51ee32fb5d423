"""Records from objects; see _answer.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ADDITIONAL, SECTION_ANSWER, Record, Dedup, reply_alloc, reply_copy, reply_put, dedup_add, dedup_begin
from fastdns.api.names cimport NAME_MAX
from fastdns.api.metrics cimport metric_add
from fastdns.api.query cimport TAILORED_REPLY, query_expire
from fastdns.api.wire cimport TYPE_A, TYPE_AAAA, TYPE_NS, TYPE_SOA, TYPE_SRV, store16, store32
from fastdns.plugins.kubernetes.store.memory cimport load_count
from fastdns.plugins.kubernetes.answer.name cimport EVERYWHERE, name_parse, name_port, name_write
from fastdns.plugins.kubernetes.store.records cimport (LOCAL, PortRecord, ServiceRecord, cluster_age, service_alias, service_ip4, service_ip6, service_ports,
                                                       service_text, slice_ports, slice_text)
from fastdns.plugins.kubernetes.answer.servers cimport INSIDE, SERVERS_MAX, Server, server_write, servers_collect
from fastdns.plugins.kubernetes.answer.view cimport (FOUND_ALIAS, FOUND_CLUSTER_IP, FOUND_ENDPOINTS, FOUND_NOTHING, FOUND_POD, FOUND_SERVERS,
                                                     NEAR_OUTCOMES, Walk, ZONE_IMPORTED, endpoint_write, near_begin, near_widen, view_resolve,
                                                     walk_begin, walk_count, walk_next)

cdef enum:
    TRIED_MAX = 32                  # records that are looked at for a target that one of them may have
    NO_LIMIT = 0x7FFFFFFF
    SOA_TTL_MAX = 300
    REFRESH = 7200
    RETRY = 1800
    EXPIRE = 86400


cdef void ask_resolve(Ask *ask, uint32_t zone_label, uint64_t key_hash) noexcept nogil:
    name_parse(ask.name, zone_label, ask.zone_flags, &ask.wanted)
    view_resolve(ask.view, ask.zone_flags, ask.name, &ask.wanted, key_hash, &ask.result)


# ---- addresses ----

cdef void add_cluster_ips(Ask *ask, uint16_t qtype) noexcept nogil:
    cdef const ServiceRecord *record = ask.result.record
    cdef uint32_t i
    if qtype == TYPE_A:
        for i in range(record.ip4_count):
            reply_put(&ask.q.reply, SECTION_ANSWER, ask.owner, ask.owner_length, TYPE_A, ask.view.ttl, service_ip4(record) + 4 * i, 4, 0)
    else:
        for i in range(record.ip6_count):
            reply_put(&ask.q.reply, SECTION_ANSWER, ask.owner, ask.owner_length, TYPE_AAAA, ask.view.ttl, service_ip6(record) + 16 * i, 16, 0)


cdef void add_candidate(Candidates *candidates, const uint8_t *target, uint8_t length, bint text) noexcept nogil:
    if candidates != NULL and candidates.count < CANDIDATES_MAX:
        candidates.target[candidates.count] = target
        candidates.length[candidates.count] = length
        candidates.text[candidates.count] = text
        candidates.count += 1


cdef bint begin_near(Ask *ask) noexcept nogil:
    """Whether the endpoints of a headless service depend on where the client is: the reply is for it alone then."""
    if ask.wanted.by_endpoint or ask.wanted.direction != EVERYWHERE or ask.result.node.world != LOCAL:
        return False
    ask.q.tailored |= TAILORED_REPLY
    near_begin(ask.view, &ask.q.client, &ask.wanted, &ask.near)
    return True


cdef void count_near(const Ask *ask) noexcept nogil:
    metric_add(ask.view.near_cells[ask.q.server.label * <uint32_t>NEAR_OUTCOMES + ask.near.outcome], ask.q.worker.id, 1)


cdef bint add_endpoints(Ask *ask, uint16_t qtype, Candidates *candidates) noexcept nogil:
    cdef bint any
    if not ask.view.near or not begin_near(ask):
        return add_walked(ask, qtype, candidates) or ask.result.pinned
    any = add_walked(ask, qtype, candidates)
    while not any and near_widen(ask.view, &ask.wanted, &ask.result, &ask.near):
        any = add_walked(ask, qtype, candidates)
    any |= ask.result.pinned
    if any:
        count_near(ask)
    return any


cdef bint add_walked(Ask *ask, uint16_t qtype, Candidates *candidates) noexcept nogil:
    cdef Walk walk
    cdef Dedup dedup
    cdef uint8_t family = 4 if qtype == TYPE_A else 6
    cdef bint any = False
    walk_begin(&walk, ask.view, &ask.wanted, &ask.result)
    dedup_begin(&dedup, &ask.q.reply, False)
    while walk_next(&walk):
        any = True
        if walk.endpoint.family == family:
            if dedup_add(&dedup, SECTION_ANSWER, ask.owner, ask.owner_length, qtype, ask.view.ttl, walk.endpoint.ip, 4 if family == 4 else 16, 0) < 0:
                break
        elif walk.endpoint.family == 0:
            add_candidate(candidates, <const uint8_t *>slice_text(walk.slice) + walk.endpoint.text, walk.endpoint.ip[0], True)
    return any


cdef void add_pod(Ask *ask, uint16_t qtype) noexcept nogil:
    cdef uint32_t size = 4 if ask.result.family == 4 else 16
    cdef uint8_t *ip
    if qtype != (TYPE_A if size == 4 else TYPE_AAAA):
        return
    ip = reply_alloc(&ask.q.reply, size)
    if ip == NULL:
        return
    memcpy(ip, ask.result.ip, size)
    reply_put(&ask.q.reply, SECTION_ANSWER, ask.owner, ask.owner_length, qtype, ask.view.ttl, ip, <uint16_t>size, RECORD_OWNED if ask.owned else 0)


cdef void add_servers(Ask *ask, uint16_t qtype) noexcept nogil:
    cdef Server servers[SERVERS_MAX]
    cdef Dedup dedup
    cdef uint8_t family = 4 if qtype == TYPE_A else 6
    cdef uint32_t i, count = servers_collect(ask.view, INSIDE, servers)
    dedup_begin(&dedup, &ask.q.reply, False)
    for i in range(count):
        if servers[i].family == family:
            dedup_add(&dedup, SECTION_ANSWER, ask.owner, ask.owner_length, qtype, ask.view.ttl, servers[i].ip, 4 if family == 4 else 16, 0)


cdef bint answer_addresses(Ask *ask, uint16_t qtype, Candidates *candidates) noexcept nogil:
    if ask.result.found == FOUND_CLUSTER_IP:
        add_cluster_ips(ask, qtype)
    elif ask.result.found == FOUND_ENDPOINTS:
        return add_endpoints(ask, qtype, candidates)
    elif ask.result.found == FOUND_ALIAS:
        add_candidate(candidates, service_alias(ask.result.record), ask.result.record.alias_length, False)
    elif ask.result.found == FOUND_POD:
        add_pod(ask, qtype)
    elif ask.result.found == FOUND_SERVERS:
        add_servers(ask, qtype)
    return ask.result.found != FOUND_NOTHING


cdef bint answer_exists(Ask *ask, bint entries) noexcept nogil:
    cdef Result *result = &ask.result
    if result.found == FOUND_ENDPOINTS:
        return result.pinned or walk_count(ask.view, &ask.wanted, result, 1, True) > 0
    if not entries:
        return result.found != FOUND_NOTHING
    return result.found == FOUND_ALIAS or ((result.found == FOUND_CLUSTER_IP or result.found == FOUND_POD) and result.entries > 0)


# ---- SRV ----

cdef bint is_asked(const Wanted *wanted, const PortRecord *port, const char *text) noexcept nogil:
    """A port with a number that the name's labels, if any, name."""
    return port.number >= 0 and (not wanted.by_port or name_port(wanted, text + port.text, port.name_length, port.protocol_length))


cdef uint16_t weight_of(uint32_t entries) noexcept nogil:
    return <uint16_t>(100 // entries) if 0 < entries <= 100 else 1


cdef const uint8_t *add_srv(Ask *ask, Dedup *dedup, uint16_t weight, int32_t port, const uint8_t *target, uint32_t length) noexcept nogil:
    """One SRV record, unless it is there already. Returns its target in the query's own memory, or NULL when the reply is full."""
    cdef uint8_t *rdata = reply_alloc(&ask.q.reply, 6 + length)
    if rdata == NULL:
        return NULL
    store16(rdata, 0)
    store16(rdata + 2, weight)
    store16(rdata + 4, <uint16_t>port)
    memcpy(rdata + 6, target, length)
    if dedup_add(dedup, SECTION_ANSWER, ask.owner, ask.owner_length, TYPE_SRV, ask.view.ttl, rdata, <uint16_t>(6 + length),
                 RECORD_OWNED if ask.owned else 0) < 0:
        return NULL
    return rdata + 6


cdef void srv_cluster_ip(Ask *ask) noexcept nogil:
    cdef const ServiceRecord *record = ask.result.record
    cdef const PortRecord *port
    cdef const uint8_t *target = NULL
    cdef uint8_t name[NAME_MAX]
    cdef Dedup dedup
    cdef uint32_t length = name_write(name, NULL, 0, NULL, 0, ask.result.node.key, ask.result.node.length, ask.zone, ask.zone_length)
    cdef uint32_t i
    cdef uint16_t weight = weight_of(ask.result.entries)
    if record.address_count == 0 or length == 0:
        return
    dedup_begin(&dedup, &ask.q.reply, False)
    for i in range(record.port_count):
        port = &service_ports(record)[i]
        if is_asked(&ask.wanted, port, service_text(record)):
            target = add_srv(ask, &dedup, weight, port.number, name, length)
    if target == NULL:
        return
    for i in range(record.ip4_count):
        reply_put(&ask.q.reply, SECTION_ADDITIONAL, target, <uint8_t>length, TYPE_A, ask.view.ttl, service_ip4(record) + 4 * i, 4, 0)
    for i in range(record.ip6_count):
        reply_put(&ask.q.reply, SECTION_ADDITIONAL, target, <uint8_t>length, TYPE_AAAA, ask.view.ttl, service_ip6(record) + 16 * i, 16, 0)


cdef void srv_endpoints(Ask *ask, uint32_t entries) noexcept nogil:
    cdef Walk walk
    cdef Dedup answers, extra
    cdef uint8_t name[NAME_MAX]
    cdef const PortRecord *port
    cdef uint32_t i, length
    cdef uint16_t weight = weight_of(entries)
    # Answers first, all of them: where the reply gets full, additional records are what is missing.
    walk_begin(&walk, ask.view, &ask.wanted, &ask.result)
    dedup_begin(&answers, &ask.q.reply, False)
    while walk_next(&walk):
        if walk.endpoint.family == 0:
            continue
        length = endpoint_write(name, ask.view, walk.slice, walk.endpoint, ask.zone, ask.zone_length)
        for i in range(walk.first, walk.end if length else walk.first):
            port = &slice_ports(walk.slice)[i]
            if is_asked(&ask.wanted, port, slice_text(walk.slice)) and add_srv(ask, &answers, weight, port.number, name, length) == NULL:
                return
    if ask.q.reply.count > answers.first:
        add_targets(ask, &extra, answers.first, ask.q.reply.count)


cdef void add_targets(Ask *ask, Dedup *extra, uint32_t first, uint32_t end) noexcept nogil:
    """Addresses of the targets of the SRV records [first, end)."""
    cdef Walk walk
    cdef uint8_t name[NAME_MAX]
    cdef const uint8_t *target
    cdef uint32_t length, at = first
    walk_begin(&walk, ask.view, &ask.wanted, &ask.result)
    dedup_begin(extra, &ask.q.reply, True)
    while walk_next(&walk):
        if walk.endpoint.family == 0 or not has_port(ask, &walk):
            continue
        length = endpoint_write(name, ask.view, walk.slice, walk.endpoint, ask.zone, ask.zone_length)
        if length == 0:
            continue
        # The target is in an SRV record already, at or behind the last one found, unless two endpoints share a name.
        target = target_of(&ask.q.reply, first, end, &at, name, length)
        if target == NULL or dedup_add(extra, SECTION_ADDITIONAL, target, <uint8_t>length, TYPE_A if walk.endpoint.family == 4 else TYPE_AAAA,
                                       ask.view.ttl, walk.endpoint.ip, 4 if walk.endpoint.family == 4 else 16, 0) < 0:
            return


cdef const uint8_t *target_of(Reply *reply, uint32_t first, uint32_t end, uint32_t *at, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef uint32_t i, tried
    cdef const Record *record
    i = at[0]
    for tried in range(end - first):
        record = &reply.records[i]
        if record.rdlength == length + 6u and memcmp(record.rdata + 6, name, length) == 0:
            at[0] = i
            return record.rdata + 6
        i = i + 1 if i + 1 < end else first
        if tried == TRIED_MAX:            # shared names all over: a copy costs less than the search
            break
    return reply_copy(reply, name, length)


cdef bint has_port(const Ask *ask, const Walk *walk) noexcept nogil:
    cdef uint32_t i
    for i in range(walk.first, walk.end):
        if is_asked(&ask.wanted, &slice_ports(walk.slice)[i], slice_text(walk.slice)):
            return True
    return False


cdef void srv_pod(Ask *ask) noexcept nogil:
    """Port 0, and the pod's name without what may stand before it."""
    cdef uint8_t name[NAME_MAX]
    cdef const uint8_t *target
    cdef uint8_t *ip
    cdef Dedup dedup
    cdef uint32_t size = 4 if ask.result.family == 4 else 16
    cdef uint32_t length = ask.wanted.key_length + 4 + ask.zone_length
    if length > NAME_MAX:
        return
    memcpy(name, ask.wanted.service, ask.wanted.key_length)
    memcpy(name + ask.wanted.key_length, b"\x03pod", 4)
    memcpy(name + ask.wanted.key_length + 4, ask.zone, ask.zone_length)
    dedup_begin(&dedup, &ask.q.reply, False)
    target = add_srv(ask, &dedup, weight_of(ask.result.entries), 0, name, length)
    ip = reply_alloc(&ask.q.reply, size)
    if target == NULL or ip == NULL:
        return
    memcpy(ip, ask.result.ip, size)
    reply_put(&ask.q.reply, SECTION_ADDITIONAL, target, <uint8_t>length, TYPE_A if size == 4 else TYPE_AAAA, ask.view.ttl, ip, <uint16_t>size, RECORD_OWNED)


cdef bint answer_srv(Ask *ask) noexcept nogil:
    cdef uint32_t entries
    cdef bint near
    if ask.result.found == FOUND_CLUSTER_IP:
        srv_cluster_ip(ask)
    elif ask.result.found == FOUND_ENDPOINTS:
        near = ask.view.near != 0 and begin_near(ask)
        entries = walk_count(ask.view, &ask.wanted, &ask.result, NO_LIMIT, False)
        while near and entries == 0 and near_widen(ask.view, &ask.wanted, &ask.result, &ask.near):
            entries = walk_count(ask.view, &ask.wanted, &ask.result, NO_LIMIT, False)
        if near and (entries or ask.result.pinned):
            count_near(ask)
        if entries == 0:
            return ask.result.pinned or walk_count(ask.view, &ask.wanted, &ask.result, 1, True) > 0
        srv_endpoints(ask, entries)
    elif ask.result.found == FOUND_POD:
        srv_pod(ask)
    return ask.result.found != FOUND_NOTHING


# ---- SOA and NS ----

cdef uint32_t store_serial(const View *view, int zone_flags) noexcept nogil:
    return load_count(&view.cluster.import_serial if zone_flags & ZONE_IMPORTED else &view.cluster.serial)


cdef uint32_t soa_ttl(const View *view) noexcept nogil:
    return min(view.ttl, <uint32_t>SOA_TTL_MAX)


cdef uint32_t soa_write(uint8_t *out, const View *view, uint32_t serial, const uint8_t *zone, uint32_t zone_length) noexcept nogil:
    cdef uint32_t used = 0
    cdef bint fits = zone_length + 11 <= NAME_MAX
    if fits:
        memcpy(out, b"\x02ns\x03dns", 7)
        used = 7
    memcpy(out + used, zone, zone_length)
    used += zone_length
    if fits:
        memcpy(out + used, b"\x0ahostmaster", 11)
        used += 11
    memcpy(out + used, zone, zone_length)
    used += zone_length
    store32(out + used, serial)
    store32(out + used + 4, REFRESH)
    store32(out + used + 8, RETRY)
    store32(out + used + 12, EXPIRE)
    store32(out + used + 16, view.ttl)
    return used + 20


cdef void answer_soa(Ask *ask, int section) noexcept nogil:
    cdef uint8_t *rdata = reply_alloc(&ask.q.reply, 2u * ask.zone_length + 38)
    cdef uint32_t length, serial = load_count(&ask.view.serials[ask.zone_name - ask.view.zones.names])
    if rdata == NULL:
        return
    length = soa_write(rdata, ask.view, serial if serial else store_serial(ask.view, ask.zone_flags), ask.zone, ask.zone_length)
    reply_put(&ask.q.reply, section, ask.zone, ask.zone_length, TYPE_SOA, soa_ttl(ask.view), rdata, <uint16_t>length, RECORD_OWNED)


cdef void answer_expire(Ask *ask) noexcept nogil:
    query_expire(ask.q, EXPIRE, cluster_age(ask.view.cluster, ask.view.kinds, ask.q.worker.now))


cdef void answer_servers(Ask *ask) noexcept nogil:
    cdef Server servers[SERVERS_MAX]
    cdef Dedup dedup
    cdef uint8_t name[NAME_MAX]
    cdef uint8_t *rdata
    cdef uint32_t i, length, count = servers_collect(ask.view, INSIDE, servers)
    dedup_begin(&dedup, &ask.q.reply, False)
    for i in range(count):
        length = server_write(name, ask.view, &servers[i], ask.zone, ask.zone_length)
        rdata = reply_copy(&ask.q.reply, name, length)
        if length == 0 or rdata == NULL:
            return
        if dedup_add(&dedup, SECTION_ANSWER, ask.zone, ask.zone_length, TYPE_NS, ask.view.ttl, rdata, <uint16_t>length, RECORD_OWNED) < 0:
            return
        reply_put(&ask.q.reply, SECTION_ADDITIONAL, rdata, <uint8_t>length, TYPE_A if servers[i].family == 4 else TYPE_AAAA, ask.view.ttl,
                  servers[i].ip, 4 if servers[i].family == 4 else 16, 0)
