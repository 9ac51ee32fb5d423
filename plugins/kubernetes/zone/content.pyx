"""The records of a zone, as rows; see content.pxd. As many as CoreDNS sends, in its order."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_NS, TYPE_SRV, store16
from fastdns.plugins.kubernetes.answer.name cimport name_write
from fastdns.plugins.kubernetes.store.memory cimport Table, table_next
from fastdns.plugins.kubernetes.store.records cimport (IMPORTED, LOCAL, SERVICE_ALIAS, SERVICE_EXTERNAL, SERVICE_HEADLESS, EndpointRecord, PortRecord,
                                                       ServiceNode, ServiceRecord, SliceRecord, service_alias, service_ip4, service_ip6,
                                                       service_ports, service_text, slice_ports, slice_text)
from fastdns.plugins.kubernetes.answer.servers cimport INSIDE, SERVERS_MAX, Server, server_write, servers_collect
from fastdns.plugins.kubernetes.answer.view cimport View, ZONE_IMPORTED, endpoint_write, view_exposes
from fastdns.plugins.kubernetes.zone.rows cimport RowSet, rowset_clear, rowset_free, rowset_give, rowset_put, rowset_sort
from fastdns.plugins.kubernetes.zone.selection cimport ChosenEndpoint, Selection, selection_begin, selection_end, selection_next
from fastdns.plugins.kubernetes.zone.trimmed cimport trimmed_set
from fastdns.plugins.transfer._rows cimport Rows
from fastdns.plugins.transfer._source cimport TransferRecord


cdef void put(RowSet *rows, uint16_t type, uint32_t ttl, const uint8_t *owner, uint32_t owner_length, const uint8_t *rdata, uint32_t rdlength) noexcept nogil:
    cdef TransferRecord record
    record.type = type
    record.ttl = ttl
    record.owner = owner
    record.owner_length = <uint8_t>owner_length
    record.rdata = rdata
    record.rdlength = <uint16_t>rdlength
    rowset_put(rows, &record)


# ---- a service's records ----

cdef void put_address(const Content *content, RowSet *rows, const uint8_t *owner, uint32_t length, const uint8_t *ip, uint8_t family) noexcept nogil:
    put(rows, TYPE_A if family == 4 else TYPE_AAAA, content.view.ttl, owner, length, ip, 4 if family == 4 else 16)


cdef void put_srv(const Content *content, RowSet *rows, const uint8_t *owner, uint32_t owner_length, uint32_t weight, int port, const uint8_t *target,
                  uint32_t length) noexcept nogil:
    cdef uint8_t rdata[6 + NAME_MAX]
    store16(rdata, 0)
    store16(rdata + 2, weight)
    store16(rdata + 4, <uint16_t>port)
    memcpy(rdata + 6, target, length)
    put(rows, TYPE_SRV, content.view.ttl, owner, owner_length, rdata, 6 + length)


cdef uint32_t port_write(uint8_t *out, const char *text, const PortRecord *port, const uint8_t *service, uint32_t length) noexcept nogil:
    cdef const uint8_t *octets = <const uint8_t *>text + port.text
    cdef uint32_t i, used = 0, labels = port.name_length + port.protocol_length + 4u
    if port.name_length > 62 or port.protocol_length > 62 or labels + length > NAME_MAX:
        return 0
    out[0] = port.name_length + 1
    out[1] = c'_'
    memcpy(out + 2, octets, port.name_length)
    used = port.name_length + 2u
    out[used] = port.protocol_length + 1
    out[used + 1] = c'_'
    memcpy(out + used + 2, octets + port.name_length, port.protocol_length)
    used += port.protocol_length + 2u
    for i in range(used):
        if 65 <= out[i] <= 90 and i != 0 and i != port.name_length + 2u:
            out[i] += 32
    memcpy(out + used, service, length)
    return used + length


cdef void put_cluster_ips(const Content *content, RowSet *rows, const ServiceRecord *record, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef uint8_t owner[NAME_MAX]
    cdef const PortRecord *port
    cdef uint32_t i, owner_length
    for i in range(record.ip4_count):
        put_address(content, rows, name, length, service_ip4(record) + 4 * i, 4)
    for i in range(record.ip6_count):
        put_address(content, rows, name, length, service_ip6(record) + 16 * i, 6)
    if record.address_count == 0:
        return
    for i in range(record.port_count):
        port = &service_ports(record)[i]
        put_srv(content, rows, name, length, 100, port.number, name, length)
        if port.name_length:
            owner_length = port_write(owner, service_text(record), port, name, length)
            if owner_length:
                put_srv(content, rows, owner, owner_length, 100, port.number, name, length)


cdef void put_endpoints(const Content *content, RowSet *rows, const ServiceNode *node, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef uint8_t target[NAME_MAX]
    cdef uint8_t owner[NAME_MAX]
    cdef Selection selection
    cdef ChosenEndpoint one
    cdef const PortRecord *port
    cdef uint32_t k, target_length, owner_length, weight
    if not selection_begin(&selection, node.slices, False):
        rows.failed = 1
        return
    while selection_next(&selection, &one):
        weight = 100 // one.slice.endpoint_count if 0 < one.slice.endpoint_count <= 100 else 1
        target_length = write_endpoint(content, target, one.slice, one.endpoint)
        if one.endpoint.family == 0 or target_length == 0:
            continue
        put_address(content, rows, name, length, one.endpoint.ip, one.endpoint.family)
        put_address(content, rows, target, target_length, one.endpoint.ip, one.endpoint.family)
        for k in range(selection.port_count):
            port = &slice_ports(one.slice)[selection.ports[k]]
            owner_length = port_write(owner, slice_text(one.slice), port, name, length)
            if owner_length:
                put_srv(content, rows, owner, owner_length, weight, port.number, target, target_length)
    rows.left_out += 2 * selection.endpoints_left_out + selection.ports_left_out
    selection_end(&selection)


cdef uint32_t write_endpoint(const Content *content, uint8_t *out, const SliceRecord *slice, const EndpointRecord *endpoint) noexcept nogil:
    """Without the cluster's label, also in multicluster zones, as CoreDNS does it here."""
    cdef uint8_t name[NAME_MAX]
    cdef uint32_t length = endpoint_write(name, content.view, slice, endpoint, content.zone, content.zone_length)
    cdef uint32_t cluster = slice.cluster_length + 1u if slice.service.world == IMPORTED and slice.cluster_length else 0
    cdef uint32_t first = name[0] + 1u
    if length == 0:
        return 0
    memcpy(out, name, first)
    memcpy(out + first, name + first + cluster, length - first - cluster)
    return length - cluster


cdef void content_service(const Content *content, const ServiceNode *node, RowSet *rows) noexcept nogil:
    cdef const ServiceRecord *record = node.record
    cdef uint8_t name[NAME_MAX]
    cdef uint32_t length = name_write(name, NULL, 0, NULL, 0, node.key, node.length, content.zone, content.zone_length)
    if length == 0 or record == NULL or not view_exposes(content.view, node.namespace):
        return
    if record.flags & SERVICE_EXTERNAL:
        if record.flags & SERVICE_ALIAS:
            put(rows, TYPE_CNAME, content.view.ttl, name, length, service_alias(record), record.alias_length)
    elif record.flags & SERVICE_HEADLESS:
        if not content.view.no_endpoints:
            put_endpoints(content, rows, node, name, length)
    else:
        put_cluster_ips(content, rows, record, name, length)


# ---- the zone's ----

cdef int content_world(const Content *content) noexcept nogil:
    return IMPORTED if content.zone_flags & ZONE_IMPORTED else LOCAL


cdef int by_name(const void *a, const void *b) noexcept nogil:
    """By service, then by namespace."""
    cdef const ServiceNode *first = (<const ServiceNode **>a)[0]
    cdef const ServiceNode *second = (<const ServiceNode **>b)[0]
    cdef uint32_t least = min(first.key[0], second.key[0])
    cdef int order = memcmp(first.key + 1, second.key + 1, least)
    if order == 0:
        order = <int>first.key[0] - <int>second.key[0]
    if order == 0:
        order = memcmp(first.key, second.key, min(first.length, second.length))
    return order


cdef const ServiceNode **services_sorted(const View *view, int world, uint32_t *count) noexcept nogil:
    cdef const Table *table = &view.cluster.services[world]
    cdef const ServiceNode **nodes = <const ServiceNode **>malloc((table.used + 1) * sizeof(void *))
    cdef const ServiceNode *node
    cdef uint32_t place = 0
    count[0] = 0
    if nodes == NULL:
        return NULL
    node = <const ServiceNode *>table_next(table, &place)
    while node != NULL:
        if node.record != NULL and view_exposes(view, node.namespace):
            nodes[count[0]] = node
            count[0] += 1
        node = <const ServiceNode *>table_next(table, &place)
    qsort(nodes, count[0], sizeof(void *), by_name)
    return nodes


cdef bint content_give(const Content *content, bint once, Rows *into, Trimmed *trimmed) noexcept nogil:
    cdef uint32_t i, count
    cdef const ServiceNode **nodes = services_sorted(content.view, content_world(content), &count)
    cdef RowSet rows
    cdef bint failed = False
    if nodes == NULL:
        return False
    memset(&rows, 0, sizeof(RowSet))
    for i in range(count):
        rowset_clear(&rows)
        content_service(content, nodes[i], &rows)
        if once:
            rowset_sort(&rows, True)
        failed |= rows.failed
        rowset_give(&rows, into)
        if trimmed != NULL:
            trimmed_set(trimmed, nodes[i].world, nodes[i].key, nodes[i].length, rows.left_out)
    rowset_free(&rows)
    free(nodes)
    return not failed


cdef bint is_shown(const Content *content, const ServiceNode *node) noexcept nogil:
    """Are the service's records in the zone?"""
    return node != NULL and node.world == content_world(content) and view_exposes(content.view, node.namespace)


cdef void content_servers(const Content *content, bint all, RowSet *rows) noexcept nogil:
    """NS records, each once, then their addresses, which have TTL 0 here."""
    cdef Server servers[SERVERS_MAX]
    cdef uint8_t names[SERVERS_MAX][NAME_MAX]
    cdef uint32_t lengths[SERVERS_MAX]
    cdef uint32_t i, k, count = servers_collect(content.view, INSIDE, servers)
    for i in range(count):
        lengths[i] = server_write(names[i], content.view, &servers[i], content.zone, content.zone_length)
        for k in range(i):
            if lengths[k] == lengths[i] and memcmp(names[k], names[i], lengths[i]) == 0:
                break
        else:
            if lengths[i]:
                put(rows, TYPE_NS, content.view.ttl, content.zone, content.zone_length, names[i], lengths[i])
    for i in range(count):
        if lengths[i] and (all or not is_shown(content, servers[i].service)):
            put(rows, TYPE_A if servers[i].family == 4 else TYPE_AAAA, 0, names[i], lengths[i], servers[i].ip, 4 if servers[i].family == 4 else 16)
