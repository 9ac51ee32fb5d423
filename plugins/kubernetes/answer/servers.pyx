"""The zone's name servers; see _servers.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.api.names cimport NAME_MAX
from fastdns.plugins.kubernetes.answer.name cimport name_write
from fastdns.plugins.kubernetes.answer.view cimport endpoint_write
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, next_slice, probe_begin
from fastdns.plugins.kubernetes.store.records cimport (AddressRecord, SERVICE_HEADLESS, ServiceRecord, node_service, service_externals, service_ip4,
                                                       service_ip6, slice_endpoints)


cdef bint holds(const SliceRecord *slice, const LocalAddress *address) noexcept nogil:
    cdef const EndpointRecord *endpoint
    cdef uint32_t i
    for i in range(slice.endpoint_count):
        endpoint = &slice_endpoints(slice)[i]
        if endpoint.family == address.family and memcmp(endpoint.ip, address.ip, 4 if address.family == 4 else 16) == 0:
            return True
    return False


cdef void put(Server *servers, uint32_t *count, const uint8_t *ip, uint8_t family, const ServiceNode *service, const SliceRecord *slice,
              const EndpointRecord *endpoint) noexcept nogil:
    cdef Server *server
    if count[0] < SERVERS_MAX:
        server = &servers[count[0]]
        server.ip = ip
        server.family = family
        server.service = service
        server.slice = slice
        server.endpoint = endpoint
        count[0] += 1


cdef void put_service(Server *servers, uint32_t *count, const SliceRecord *slice, Reach reach) noexcept nogil:
    """All addresses of the service that a slice belongs to."""
    cdef const ServiceRecord *record = node_service(slice.service)
    cdef const AddressRecord *external
    cdef const EndpointRecord *endpoint
    cdef uint32_t i
    if record == NULL:
        return
    if record.flags & SERVICE_HEADLESS and reach != OUTSIDE:
        for i in range(slice.endpoint_count):
            endpoint = &slice_endpoints(slice)[i]
            if endpoint.family:
                put(servers, count, endpoint.ip, endpoint.family, slice.service, slice, endpoint)
        return
    if reach != INSIDE:
        for i in range(record.external_count):
            external = &service_externals(record)[i]
            if external.family:
                put(servers, count, external.ip, external.family, slice.service, NULL, NULL)
        return
    for i in range(record.ip4_count):
        put(servers, count, service_ip4(record) + 4 * i, 4, slice.service, NULL, NULL)
    for i in range(record.ip6_count):
        put(servers, count, service_ip6(record) + 16 * i, 6, slice.service, NULL, NULL)


cdef uint32_t servers_collect(const View *view, Reach reach, Server *servers) noexcept nogil:
    cdef Probe probe
    cdef const SliceRecord *slice
    cdef const LocalAddress *local
    cdef uint32_t i, count = 0
    cdef bint behind = False
    for i in range(view.local_count if not view.no_endpoints else 0):
        local = &view.locals[i]
        probe_begin(&probe, &view.cluster.endpoint_addresses, address_hash(local.ip, local.family))
        while True:
            slice = next_slice(&probe)
            if slice == NULL:
                break
            if holds(slice, local):
                behind = True
                put_service(servers, &count, slice, reach)
    if not behind:
        for i in range(view.local_count):
            put(servers, &count, view.locals[i].ip, view.locals[i].family, NULL, NULL, NULL)
    return count


cdef uint32_t server_write(uint8_t *out, const View *view, const Server *server, const uint8_t *zone, uint32_t zone_length) noexcept nogil:
    if server.endpoint != NULL:
        return endpoint_write(out, view, server.slice, server.endpoint, zone, zone_length)
    if server.service != NULL:
        return name_write(out, NULL, 0, NULL, 0, server.service.key, server.service.length, zone, zone_length)
    if zone_length + 7 > NAME_MAX:
        return 0
    memcpy(out, b"\x02ns\x03dns", 7)
    memcpy(out + 7, zone, zone_length)
    return zone_length + 7
