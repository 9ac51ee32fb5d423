"""The namespaces that a question is for; see _owners.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from fastdns.api.names cimport ZoneName, zones_match
from fastdns.api.text cimport text_put
from fastdns.api.wire cimport TYPE_AXFR, TYPE_IXFR
from fastdns.plugins.kubernetes.answer.name cimport Wanted, name_is_reverse, name_parse, name_reverse
from fastdns.plugins.kubernetes.answer.reverse cimport accepts
from fastdns.plugins.kubernetes.answer.view cimport ZONE_REVERSE
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, find_service_by_address, next_slice, probe_begin
from fastdns.plugins.kubernetes.store.records cimport EndpointRecord, NamespaceNode, ServiceNode, SliceRecord, slice_endpoints


cdef void owners_write(const View *view, const Name *name, uint16_t qtype, Text *out) noexcept nogil:
    cdef const ZoneName *zone = zones_match(view.zones, name)
    cdef uint8_t ip[16]
    cdef uint8_t family
    cdef int flags
    cdef Wanted wanted
    if zone == NULL:
        return
    if qtype == TYPE_AXFR or qtype == TYPE_IXFR:
        out.full = 1
        return
    flags = view.zone_flags[zone - view.zones.names]
    if flags & ZONE_REVERSE and name_is_reverse(name):
        family = name_reverse(name, ip)
        if family:
            write_reverse(view, ip, family, out)
        return
    name_parse(name, name.labels - zone.labels, flags, &wanted)
    if wanted.namespace != NULL:
        text_put(out, <const char *>wanted.namespace, wanted.namespace[0] + 1u)


cdef void write_reverse(const View *view, const uint8_t *ip, uint8_t family, Text *out) noexcept nogil:
    """Those that `answer_reverse` names."""
    cdef const ServiceNode *service = find_service_by_address(view.cluster, ip, family, accepts, view)
    cdef const SliceRecord *slice
    cdef const NamespaceNode *namespace
    cdef Probe probe
    if service != NULL:
        text_put(out, <const char *>service.namespace.label, service.namespace.length)
        return
    if view.no_endpoints:
        return
    probe_begin(&probe, &view.cluster.endpoint_addresses, address_hash(ip, family))
    while not out.full:
        slice = next_slice(&probe)
        if slice == NULL:
            return
        namespace = slice.service.namespace
        if accepts(view, namespace) and not is_written(out, namespace) and has_endpoint(slice, ip, family):
            text_put(out, <const char *>namespace.label, namespace.length)


cdef bint is_written(const Text *out, const NamespaceNode *namespace) noexcept nogil:
    cdef uint32_t at = 0
    while at < out.used:
        if <uint8_t>out.out[at] == namespace.label[0] and memcmp(out.out + at, namespace.label, namespace.length) == 0:
            return True
        at += <uint8_t>out.out[at] + 1u
    return False


cdef bint has_endpoint(const SliceRecord *slice, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef const EndpointRecord *endpoint
    cdef uint32_t i
    for i in range(slice.endpoint_count):
        endpoint = &slice_endpoints(slice)[i]
        if endpoint.family == family and memcmp(endpoint.ip, ip, 4 if family == 4 else 16) == 0:
            return True
    return False
