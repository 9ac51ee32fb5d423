"""Records of services that can be reached from outside; see _answer.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ADDITIONAL, SECTION_ANSWER, Reply, Dedup, reply_alloc, reply_copy, reply_put, dedup_add, dedup_begin
from fastdns.api.names cimport NAME_MAX, ZoneName, wire_name_equal
from fastdns.api.wire cimport TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_NS, TYPE_PTR, TYPE_SOA, TYPE_SRV, store16, store32
from fastdns.plugins.k8s_external._external cimport SOA_NUMBERS
from fastdns.plugins.kubernetes.answer.records cimport target_of, weight_of
from fastdns.plugins.kubernetes.answer.chase cimport from_text
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, find_namespace, find_service, next_node, probe_begin, service_has_external
from fastdns.plugins.kubernetes.store.memory cimport load_count
from fastdns.plugins.kubernetes.answer.name cimport FORM_NAMESPACE, FORM_NONE, name_parse_external, name_port, name_reverse
from fastdns.plugins.kubernetes.store.records cimport (LOCAL, SERVICE_HEADLESS, AddressRecord, PortRecord, ServiceNode, ServiceRecord, endpoint_hostname,
                                                       node_service, service_externals, service_ports, service_text, slice_ports, slice_text)
from fastdns.plugins.kubernetes.answer.holder cimport accepts
from fastdns.plugins.kubernetes.answer.servers cimport OUTSIDE, OUTSIDE_HEADLESS, SERVERS_MAX, Server, servers_collect
from fastdns.plugins.kubernetes.answer.view cimport (FOUND_CLUSTER_IP, FOUND_EMPTY, FOUND_ENDPOINTS, FOUND_NOTHING, endpoint_label, view_exposes,
                                                     walk_begin, walk_next)

cdef enum:
    WEIGHT_MAX = 100                # of an SRV record: that of one of several is its share


cdef uint16_t size_of(uint8_t family) noexcept nogil:
    return 4 if family == 4 else 16


cdef uint16_t type_of(uint8_t family) noexcept nogil:
    return TYPE_A if family == 4 else TYPE_AAAA


# ---- names to entries ----

cdef bint external_resolve(const External *external, Ask *ask, uint32_t zone_label) noexcept nogil:
    cdef const View *view = external.view
    cdef ServiceNode *node
    memset(&ask.result, 0, sizeof(ask.result))
    ask.result.found = FOUND_NOTHING
    name_parse_external(ask.name, zone_label, &ask.wanted)
    if ask.wanted.form == FORM_NONE or not view_exposes(view, find_namespace(view.cluster, ask.wanted.namespace)):
        return False
    if ask.wanted.form == FORM_NAMESPACE:
        ask.result.found = FOUND_EMPTY
        return True
    node = find_service(view.cluster, LOCAL, ask.wanted.service, ask.wanted.key_length)
    ask.result.node = node
    ask.result.record = node_service(node) if node != NULL else NULL
    if ask.result.record == NULL:
        return False
    ask.result.found = FOUND_CLUSTER_IP
    if external.headless and ask.result.record.external_count == 0 and (ask.result.record.flags & SERVICE_HEADLESS or ask.wanted.by_endpoint):
        ask.result.found = FOUND_ENDPOINTS
        return not view.no_endpoints
    return True


cdef void entries_begin(Entries *entries, const View *view, const Wanted *wanted, const Result *result) noexcept nogil:
    entries.wanted = wanted
    entries.result = result
    entries.address = 0
    entries.port = 0
    entries.within = 0
    if result.found == FOUND_ENDPOINTS:
        walk_begin(&entries.walk, view, wanted, result)
    else:
        match_ports(entries, result.record)


cdef bint is_asked(const Wanted *wanted, const PortRecord *port, const char *text) noexcept nogil:
    """True if the name asks for the port, by its labels if it has some."""
    return not wanted.by_port or name_port(wanted, text + port.text, port.name_length, port.protocol_length)


cdef void match_ports(Entries *entries, const ServiceRecord *record) noexcept nogil:
    """Finds the ports of the service once, and not for each of its addresses."""
    cdef uint32_t i
    entries.first = 0
    entries.end = 0 if entries.wanted.by_port else record.port_count
    for i in range(record.port_count if entries.wanted.by_port else 0):
        if is_asked(entries.wanted, &service_ports(record)[i], service_text(record)):
            entries.first = entries.first if entries.end else i
            entries.end = i + 1
    entries.port = entries.first


cdef bint next_port(Entries *entries, Entry *entry, const PortRecord *ports, uint32_t end, const char *text) noexcept nogil:
    """The next port that the name asks for."""
    while entries.port < end:
        entries.port += 1
        if is_asked(entries.wanted, &ports[entries.port - 1], text):
            entry.port = &ports[entries.port - 1]
            entry.port_text = text
            return True
    return False


cdef void entries_skip(Entries *entries) noexcept nogil:
    if entries.result.found == FOUND_ENDPOINTS:
        entries.within = 0
    else:
        entries.address += 1
        entries.port = entries.first


cdef bint entries_next(Entries *entries, Entry *entry) noexcept nogil:
    cdef const ServiceRecord *record = entries.result.record
    cdef const AddressRecord *address
    cdef Walk *walk = &entries.walk
    if entries.result.found == FOUND_ENDPOINTS:
        while entries.within or walk_next(walk):
            if not entries.within:
                entries.port = walk.first
            entries.within = next_port(entries, entry, slice_ports(walk.slice), walk.end, slice_text(walk.slice))
            if entries.within:
                entry.family = walk.endpoint.family
                entry.ip = &walk.endpoint.ip[0]
                entry.slice = walk.slice
                entry.endpoint = walk.endpoint
                entry.host_length = 0 if entry.family else walk.endpoint.ip[0]
                entry.host = <const uint8_t *>slice_text(walk.slice) + endpoint_hostname(walk.endpoint) - entry.host_length
                return True
        return False
    while entries.address < record.external_count:
        if next_port(entries, entry, service_ports(record), entries.end, service_text(record)):
            address = &service_externals(record)[entries.address]
            entry.family = address.family
            entry.ip = &address.ip[0]
            entry.host = <const uint8_t *>service_text(record) + address.text
            entry.host_length = address.text_length
            entry.slice = NULL
            entry.endpoint = NULL
            return True
        entries.address += 1
        entries.port = entries.first
    return False


cdef uint32_t target_write(uint8_t *out, const View *view, const Result *result, const Entry *entry, const uint8_t *zone, uint32_t zone_length) noexcept nogil:
    cdef char label[64]
    cdef uint32_t length = 0, used = 0
    if entry.slice != NULL:
        length = endpoint_label(view, entry.slice, entry.endpoint, label)
    if length + 1 + result.node.length + zone_length > NAME_MAX:
        return 0
    if length:
        out[0] = <uint8_t>length
        memcpy(out + 1, label, length)
        used = length + 1
    memcpy(out + used, result.node.key, result.node.length)
    used += result.node.length
    memcpy(out + used, zone, zone_length)
    return used + zone_length


# ---- host names ----

cdef bint note_host(Ask *ask, Hosts **hosts, const uint8_t *wire, uint32_t length, bint once) noexcept nogil:
    """Notes a name (in the query's memory) to be looked up; False when memory is out."""
    cdef Hosts *noted = hosts[0]
    cdef uint32_t i
    if noted == NULL:
        noted = <Hosts *>reply_alloc(&ask.q.reply, sizeof(Hosts))
        if noted == NULL:
            return False
        noted.count = 0
        noted.next = 0
        hosts[0] = noted
    for i in range(noted.count):
        if noted.hosts[i].length == length and wire_name_equal(noted.hosts[i].wire, wire, <int>length):
            if not once and noted.hosts[i].times < 255:
                noted.hosts[i].times += 1
            return True
    if noted.count == HOSTS_MAX:
        return False
    noted.hosts[noted.count].wire = wire
    noted.hosts[noted.count].length = <uint8_t>length
    noted.hosts[noted.count].times = 1
    noted.count += 1
    return True


cdef void add_alias(Ask *ask, const Entry *entry, Hosts **hosts) noexcept nogil:
    """A CNAME to the host name, for each of its ports as in CoreDNS; none to the name itself, which would lead nowhere."""
    cdef uint8_t buffer[NAME_MAX + 1]
    cdef uint32_t length = from_text(entry.host, entry.host_length, buffer)
    cdef uint8_t *wire
    if length == 0 or (length == ask.owner_length and wire_name_equal(buffer, ask.owner, <int>length)):
        return
    wire = reply_copy(&ask.q.reply, buffer, length)
    if wire != NULL and note_host(ask, hosts, wire, length, False):
        reply_put(&ask.q.reply, SECTION_ANSWER, ask.owner, ask.owner_length, TYPE_CNAME, ask.view.ttl, wire, <uint16_t>length, RECORD_OWNED)


# ---- answers ----

cdef Answer external_answer(const External *external, Ask *ask, Hosts **hosts) noexcept nogil:
    cdef uint16_t qtype = ask.q.qtype
    cdef uint8_t ip[16]
    cdef uint8_t family
    cdef Entries entries
    cdef Entry entry
    hosts[0] = NULL
    if qtype == TYPE_PTR:
        family = name_reverse(ask.name, ip)
        if family:
            return add_pointers(external, ask, ip, family)
    if not external_resolve(external, ask, ask.wanted.zone):
        return ANSWER_NAME_ERROR
    if ask.result.found == FOUND_EMPTY:
        return ANSWER_READY
    if qtype == TYPE_A or qtype == TYPE_AAAA:
        return add_addresses(external, ask, hosts)
    if qtype == TYPE_SRV:
        return add_services(external, ask, hosts)
    entries_begin(&entries, external.view, &ask.wanted, &ask.result)
    return ANSWER_READY if entries_next(&entries, &entry) else ANSWER_NAME_ERROR


cdef bint add_address(Dedup *dedup, const Ask *ask, uint32_t ttl, const Entry *entry) noexcept nogil:
    """False when the reply is full."""
    return dedup_add(dedup, SECTION_ANSWER, ask.owner, ask.owner_length, type_of(entry.family), ttl, entry.ip, size_of(entry.family), 0) >= 0


cdef Answer add_addresses(const External *external, Ask *ask, Hosts **hosts) noexcept nogil:
    cdef Entries entries
    cdef Entry entry
    cdef Dedup dedup
    cdef Answer found = ANSWER_NAME_ERROR
    cdef uint32_t left = ENTRIES_MOST
    entries_begin(&entries, external.view, &ask.wanted, &ask.result)
    dedup_begin(&dedup, &ask.q.reply, False)
    while left and entries_next(&entries, &entry):
        found = ANSWER_READY
        left -= 1
        if entry.family == 0:
            add_alias(ask, &entry, hosts)
            continue
        if type_of(entry.family) == ask.q.qtype and not add_address(&dedup, ask, external.ttl, &entry):
            break
        entries_skip(&entries)      # its other ports have the same address
    return found


cdef Answer add_services(const External *external, Ask *ask, Hosts **hosts) noexcept nogil:
    """SRV records, all of them before what is additional: where the reply gets full, that is what is missing."""
    cdef Reply *reply = &ask.q.reply
    cdef Entries entries
    cdef Entry entry
    cdef Dedup dedup
    cdef uint32_t count = 0, first = 0, left = ENTRIES_MOST
    cdef uint16_t weight
    cdef bint address_given = False
    entries_begin(&entries, external.view, &ask.wanted, &ask.result)
    while count <= WEIGHT_MAX and entries_next(&entries, &entry):
        count += 1
    if count == 0:
        return ANSWER_NAME_ERROR
    weight = weight_of(count)
    entries_begin(&entries, external.view, &ask.wanted, &ask.result)
    dedup_begin(&dedup, reply, False)
    while left and entries_next(&entries, &entry):
        left -= 1
        if entry.slice == NULL and entry.family:
            if address_given and entries.address != first:
                entries_skip(&entries)      # the service's name is the target of all its addresses
                continue
            address_given = True
            first = entries.address
        if entry.port.number >= 0 and not add_srv(external, ask, &dedup, &entry, weight):
            break
    if reply.count > dedup.first:
        add_targets(external, ask, dedup.first, reply.count, hosts)
    return ANSWER_READY


cdef uint32_t target_of_entry(const External *external, const Ask *ask, const Entry *entry, uint8_t *out) noexcept nogil:
    """out has NAME_MAX + 1 octets."""
    if entry.family == 0:
        return from_text(entry.host, entry.host_length, out)
    return target_write(out, external.view, &ask.result, entry, ask.zone, ask.zone_length)


cdef bint add_srv(const External *external, Ask *ask, Dedup *dedup, const Entry *entry, uint16_t weight) noexcept nogil:
    """False when the reply is full."""
    cdef Reply *reply = &ask.q.reply
    cdef uint8_t rdata[NAME_MAX + 7]
    cdef uint32_t length = target_of_entry(external, ask, entry, rdata + 6)
    cdef int added
    cdef uint8_t *copy
    if length == 0:
        return True
    store16(rdata, 0)
    store16(rdata + 2, weight)
    store16(rdata + 4, <uint16_t>entry.port.number)
    added = dedup_add(dedup, SECTION_ANSWER, ask.owner, ask.owner_length, TYPE_SRV, external.view.ttl, rdata, <uint16_t>(6 + length), RECORD_OWNED)
    if added <= 0:
        return added == 0
    copy = reply_copy(reply, rdata, 6 + length)
    if copy == NULL:
        reply.count -= 1
        return False
    reply.records[reply.count - 1].rdata = copy
    return True


cdef void add_targets(const External *external, Ask *ask, uint32_t first, uint32_t end, Hosts **hosts) noexcept nogil:
    """Addresses of the targets of the SRV records [first, end)."""
    cdef Reply *reply = &ask.q.reply
    cdef Entries entries
    cdef Entry entry
    cdef Dedup extra
    cdef uint8_t name[NAME_MAX + 1]
    cdef const uint8_t *target
    cdef uint32_t length, at = first, left = ENTRIES_MOST
    entries_begin(&entries, external.view, &ask.wanted, &ask.result)
    dedup_begin(&extra, reply, True)
    while left and entries_next(&entries, &entry):
        left -= 1
        length = target_of_entry(external, ask, &entry, name) if entry.port.number >= 0 else 0
        if length == 0:
            continue
        entries_skip(&entries)      # its other ports have the same target
        target = target_of(reply, first, end, &at, name, length)
        if target == NULL:
            return
        if entry.family == 0:
            note_host(ask, hosts, target, length, True)
        elif dedup_add(&extra, SECTION_ADDITIONAL, target, <uint8_t>length, type_of(entry.family), external.ttl, entry.ip, size_of(entry.family), 0) < 0:
            return


cdef Answer add_pointers(const External *external, Ask *ask, const uint8_t *ip, uint8_t family) noexcept nogil:
    """To each service that has this external address, in the first zone."""
    cdef const ZoneName *zone = external.apexes[external.order[0]].zone
    cdef const ServiceNode *node
    cdef const ServiceRecord *record
    cdef uint8_t name[NAME_MAX]
    cdef uint8_t *rdata
    cdef Probe probe
    cdef Dedup dedup
    dedup_begin(&dedup, &ask.q.reply, False)
    probe_begin(&probe, &external.view.cluster.external_addresses, address_hash(ip, family))
    while True:
        node = next_node(&probe)
        if node == NULL:
            return ANSWER_READY if ask.q.reply.count > dedup.first else ANSWER_NAME_ERROR
        record = node_service(node)
        if record == NULL or not service_has_external(record, ip, family) or not accepts(external.view, node.namespace):
            continue
        if node.length + zone.length > NAME_MAX:
            continue
        memcpy(name, node.key, node.length)
        memcpy(name + node.length, zone.wire, zone.length)
        rdata = reply_copy(&ask.q.reply, name, node.length + zone.length)
        if rdata == NULL or dedup_add(&dedup, SECTION_ANSWER, ask.owner, ask.owner_length, TYPE_PTR, external.ttl, rdata,
                                      <uint16_t>(node.length + zone.length), RECORD_OWNED) < 0:
            return ANSWER_READY


# ---- SOA and NS ----

cdef void soa_write(uint8_t *out, const External *external, const Apex *apex) noexcept nogil:
    memcpy(out, apex.soa, apex.soa_length)
    store32(out + apex.soa_length - SOA_NUMBERS, load_count(&external.view.cluster.external_serial))


cdef void answer_soa(const External *external, const Apex *apex, Ask *ask, int section) noexcept nogil:
    cdef uint8_t *rdata = reply_alloc(&ask.q.reply, apex.soa_length)
    if rdata != NULL:
        soa_write(rdata, external, apex)
        reply_put(&ask.q.reply, section, apex.zone.wire, apex.zone.length, TYPE_SOA, external.ttl, rdata, <uint16_t>apex.soa_length, 0)


cdef void answer_server(const External *external, const Apex *apex, Ask *ask) noexcept nogil:
    """The addresses' owner ends in the zone as it was asked for, as in CoreDNS."""
    cdef Server servers[SERVERS_MAX]
    cdef Dedup dedup
    cdef uint32_t front = apex.server_length - apex.zone.length
    cdef uint32_t i, count
    cdef uint8_t *owner = reply_alloc(&ask.q.reply, apex.server_length)
    reply_put(&ask.q.reply, SECTION_ANSWER, apex.zone.wire, apex.zone.length, TYPE_NS, external.ttl, apex.server, apex.server_length, 0)
    if owner == NULL:
        return
    memcpy(owner, apex.server, front)
    memcpy(owner + front, ask.owner, ask.owner_length)
    count = servers_collect(external.view, OUTSIDE_HEADLESS if external.headless else OUTSIDE, servers)
    dedup_begin(&dedup, &ask.q.reply, False)
    for i in range(count):
        dedup_add(&dedup, SECTION_ADDITIONAL, owner, apex.server_length, type_of(servers[i].family), external.ttl, servers[i].ip, size_of(servers[i].family), 0)


cdef void answer_server_addresses(const External *external, Ask *ask, uint16_t qtype) noexcept nogil:
    cdef Server servers[SERVERS_MAX]
    cdef Dedup dedup
    cdef uint32_t i, count = servers_collect(external.view, OUTSIDE_HEADLESS if external.headless else OUTSIDE, servers)
    dedup_begin(&dedup, &ask.q.reply, False)
    for i in range(count):
        if type_of(servers[i].family) == qtype:
            dedup_add(&dedup, SECTION_ANSWER, ask.owner, ask.owner_length, qtype, external.ttl, servers[i].ip, size_of(servers[i].family), 0)
