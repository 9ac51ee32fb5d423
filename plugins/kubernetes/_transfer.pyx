"""The records of a zone, for plugin transfer: copied in one go while the store's writer waits, so they are of one moment."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp, memcpy
from fastdns.api.names cimport NAME_MAX, Name, ZoneName, wire_name_copy, zones_match
from fastdns.api.wire cimport TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_NS, TYPE_SOA, TYPE_SRV, store16
from fastdns.plugins.kubernetes.answer.name cimport name_write
from fastdns.plugins.kubernetes.answer.records cimport soa_write
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.store.memory cimport Table, table_next
from fastdns.plugins.kubernetes.store.records cimport (IMPORTED, LOCAL, SERVICE_ALIAS, SERVICE_EXTERNAL, SERVICE_HEADLESS, EndpointRecord, PortRecord,
                                                       ServiceNode, ServiceRecord, SliceRecord, service_alias, service_ip4, service_ip6,
                                                       service_ports, service_text, slice_endpoints, slice_ports, slice_text)
from fastdns.plugins.kubernetes.answer.servers cimport INSIDE, SERVERS_MAX, Server, server_write, servers_collect
from fastdns.plugins.kubernetes.store.store cimport cluster_lock, cluster_unlock
from fastdns.plugins.kubernetes.answer.view cimport View, ZONE_IMPORTED, endpoint_write, view_exposes
from fastdns.plugins.transfer._rows cimport Rows, rows_failed, rows_new, rows_put, rows_source
from fastdns.plugins.transfer._transfer cimport transfer_of

cdef enum:
    SOA_TTL_MAX = 300

cdef struct Making:                 # what the rows are made of
    Rows *rows
    uint8_t failed                  # memory ran out beside them
    const View *view
    const uint8_t *zone
    uint32_t zone_length
    int zone_flags


# ---- a service's records ----

cdef void put_address(Making *making, const uint8_t *owner, uint32_t length, const uint8_t *ip, uint8_t family) noexcept nogil:
    rows_put(making.rows, TYPE_A if family == 4 else TYPE_AAAA, making.view.ttl, owner, length, ip, 4 if family == 4 else 16)


cdef void put_srv(Making *making, const uint8_t *owner, uint32_t owner_length, uint32_t weight, int port, const uint8_t *target,
                  uint32_t length) noexcept nogil:
    cdef uint8_t rdata[6 + NAME_MAX]
    store16(rdata, 0)
    store16(rdata + 2, weight)
    store16(rdata + 4, <uint16_t>port)
    memcpy(rdata + 6, target, length)
    rows_put(making.rows, TYPE_SRV, making.view.ttl, owner, owner_length, rdata, 6 + length)


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


cdef void put_cluster_ips(Making *making, const ServiceRecord *record, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef uint8_t owner[NAME_MAX]
    cdef const PortRecord *port
    cdef uint32_t i, owner_length
    for i in range(record.ip4_count):
        put_address(making, name, length, service_ip4(record) + 4 * i, 4)
    for i in range(record.ip6_count):
        put_address(making, name, length, service_ip6(record) + 16 * i, 6)
    if record.address_count == 0:
        return
    for i in range(record.port_count):
        port = &service_ports(record)[i]
        put_srv(making, name, length, 100, port.number, name, length)
        if port.name_length:
            owner_length = port_write(owner, service_text(record), port, name, length)
            if owner_length:
                put_srv(making, owner, owner_length, 100, port.number, name, length)


cdef void put_endpoints(Making *making, const ServiceNode *node, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef uint8_t target[NAME_MAX]
    cdef uint8_t owner[NAME_MAX]
    cdef const SliceRecord *slice = node.slices
    cdef const EndpointRecord *endpoint
    cdef const PortRecord *port
    cdef uint32_t i, k, target_length, owner_length, weight
    while slice != NULL:
        weight = 100 // slice.endpoint_count if 0 < slice.endpoint_count <= 100 else 1
        for i in range(slice.endpoint_count):
            endpoint = &slice_endpoints(slice)[i]
            target_length = write_endpoint(making, target, slice, endpoint)
            if endpoint.family == 0 or target_length == 0:
                continue
            put_address(making, name, length, endpoint.ip, endpoint.family)
            put_address(making, target, target_length, endpoint.ip, endpoint.family)
            for k in range(slice.port_count):
                port = &slice_ports(slice)[k]
                owner_length = port_write(owner, slice_text(slice), port, name, length) if port.name_length else 0
                if owner_length:
                    put_srv(making, owner, owner_length, weight, port.number, target, target_length)
        slice = slice.next


cdef uint32_t write_endpoint(Making *making, uint8_t *out, const SliceRecord *slice, const EndpointRecord *endpoint) noexcept nogil:
    """Without the cluster's label, also in multicluster zones, as CoreDNS does it here."""
    cdef uint8_t name[NAME_MAX]
    cdef uint32_t length = endpoint_write(name, making.view, slice, endpoint, making.zone, making.zone_length)
    cdef uint32_t cluster = slice.cluster_length + 1u if slice.service.world == IMPORTED and slice.cluster_length else 0
    cdef uint32_t first = name[0] + 1u
    if length == 0:
        return 0
    memcpy(out, name, first)
    memcpy(out + first, name + first + cluster, length - first - cluster)
    return length - cluster


cdef void put_service(Making *making, const ServiceNode *node) noexcept nogil:
    cdef const ServiceRecord *record = node.record
    cdef uint8_t name[NAME_MAX]
    cdef uint32_t length = name_write(name, NULL, 0, NULL, 0, node.key, node.length, making.zone, making.zone_length)
    if length == 0:
        return
    if record.flags & SERVICE_EXTERNAL:
        if record.flags & SERVICE_ALIAS:
            rows_put(making.rows, TYPE_CNAME, making.view.ttl, name, length, service_alias(record), record.alias_length)
    elif record.flags & SERVICE_HEADLESS:
        if not making.view.no_endpoints:
            put_endpoints(making, node, name, length)
    else:
        put_cluster_ips(making, record, name, length)


# ---- the whole zone ----

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


cdef void put_services(Making *making) noexcept nogil:
    cdef uint32_t i, count
    cdef const ServiceNode **nodes = services_sorted(making.view, IMPORTED if making.zone_flags & ZONE_IMPORTED else LOCAL, &count)
    if nodes == NULL:
        making.failed = 1
        return
    for i in range(count):
        put_service(making, nodes[i])
    free(nodes)


cdef void put_servers(Making *making) noexcept nogil:
    """NS records, each once, then their addresses, which have TTL 0 here."""
    cdef Server servers[SERVERS_MAX]
    cdef uint8_t names[SERVERS_MAX][NAME_MAX]
    cdef uint32_t lengths[SERVERS_MAX]
    cdef uint32_t i, k, count = servers_collect(making.view, INSIDE, servers)
    for i in range(count):
        lengths[i] = server_write(names[i], making.view, &servers[i], making.zone, making.zone_length)
        for k in range(i):
            if lengths[k] == lengths[i] and memcmp(names[k], names[i], lengths[i]) == 0:
                break
        else:
            if lengths[i]:
                rows_put(making.rows, TYPE_NS, making.view.ttl, making.zone, making.zone_length, names[i], lengths[i])
    for i in range(count):
        if lengths[i]:
            rows_put(making.rows, TYPE_A if servers[i].family == 4 else TYPE_AAAA, 0, names[i], lengths[i], servers[i].ip, 4 if servers[i].family == 4 else 16)


cdef void make(Making *making, bint current, uint32_t serial) noexcept nogil:
    """All rows; the SOA alone for a client that has this serial."""
    cdef uint8_t soa[2 * NAME_MAX + 20]
    cdef uint32_t length
    cdef uint32_t ttl = min(making.view.ttl, <uint32_t>SOA_TTL_MAX)
    # The serial is that of ordinary zones here, whatever the zone, as in CoreDNS.
    length = soa_write(soa, making.view, 0, making.zone, making.zone_length)
    rows_put(making.rows, TYPE_SOA, ttl, making.zone, making.zone_length, soa, length)
    if current and serial == making.view.cluster.serial:
        return
    put_servers(making)
    put_services(making)
    rows_put(making.rows, TYPE_SOA, ttl, making.zone, making.zone_length, soa, length)


def zone_transfer(ViewHandler handler not None, bytes zone not None, serial):
    cdef View *view = &handler.view
    cdef const uint8_t *wire = zone
    cdef int length = <int>len(zone)
    cdef const ZoneName *found
    cdef Name name
    cdef Making making
    cdef bint current = serial is not None
    cdef uint32_t number = serial if serial is not None else 0
    wire_name_copy(&name, wire, length)
    found = zones_match(view.zones, &name)
    if found == NULL:
        return None
    making.failed = 0
    making.view = view
    making.zone = wire
    making.zone_length = length
    making.zone_flags = view.zone_flags[found - view.zones.names]
    making.rows = rows_new()
    if making.rows == NULL:
        raise MemoryError
    with nogil:
        cluster_lock(view.cluster)
        make(&making, current, number)
        cluster_unlock(view.cluster)
    transfer = transfer_of(rows_source(making.rows))
    if making.failed or rows_failed(making.rows):
        raise MemoryError
    return transfer
