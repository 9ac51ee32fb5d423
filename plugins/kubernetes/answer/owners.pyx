"""The namespaces that a question is for; see _owners.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from fastdns.api.names cimport ZoneName, zones_match
from fastdns.api.text cimport text_put
from fastdns.api.wire cimport TYPE_AXFR, TYPE_IXFR
from fastdns.plugins.kubernetes.answer.name cimport Wanted, name_is_reverse, name_parse, name_reverse
from fastdns.plugins.kubernetes.answer.holder cimport HOLDER_CLIENT, HOLDER_NOBODY, HOLDER_PODS, Holder, accepts, holder_admits, holder_find, slice_has
from fastdns.plugins.kubernetes.answer.view cimport ZONE_REVERSE
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, find_service_by_address, next_pod, next_slice, probe_begin
from fastdns.plugins.kubernetes.store.records cimport NamespaceNode, PodRecord, ServiceNode, SliceRecord


cdef void owners_write(const View *view, const Address *client, const Name *name, uint16_t qtype, Text *out) noexcept nogil:
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
            write_reverse(view, client, ip, family, out)
        return
    name_parse(name, name.labels - zone.labels, flags, &wanted)
    if wanted.namespace != NULL:
        text_put(out, <const char *>wanted.namespace, wanted.namespace[0] + 1u)


cdef void write_reverse(const View *view, const Address *client, const uint8_t *ip, uint8_t family, Text *out) noexcept nogil:
    """Those that `answer_reverse` names."""
    cdef const ServiceNode *service = find_service_by_address(view.cluster, ip, family, accepts, view)
    cdef const SliceRecord *slice
    cdef Holder holder
    cdef Probe probe
    if service != NULL:
        text_put(out, <const char *>service.namespace.label, service.namespace.length)
        return
    if view.no_endpoints:
        return
    holder_find(&holder, view, client, ip, family)
    if holder.kind == HOLDER_PODS:
        write_pods(view, ip, family, out)
    elif holder.kind == HOLDER_CLIENT:
        write_namespace(holder.own, out)
    if holder.kind == HOLDER_PODS or holder.kind == HOLDER_CLIENT or holder.kind == HOLDER_NOBODY:
        return
    probe_begin(&probe, &view.cluster.endpoint_addresses, address_hash(ip, family))
    while not out.full:
        slice = next_slice(&probe)
        if slice == NULL:
            return
        if accepts(view, slice.service.namespace) and holder_admits(&holder, slice.service.namespace) and slice_has(slice, ip, family):
            write_namespace(slice.service.namespace, out)


cdef void write_pods(const View *view, const uint8_t *ip, uint8_t family, Text *out) noexcept nogil:
    """The namespaces of the pods that have an address of their own: two, for a moment, if it passes from one to another."""
    cdef const PodRecord *pod
    cdef Probe probe
    probe_begin(&probe, &view.cluster.pod_addresses, address_hash(ip, family))
    while not out.full:
        pod = next_pod(&probe, ip, family)
        if pod == NULL:
            return
        if not pod.host_network:
            write_namespace(pod.namespace, out)


cdef void write_namespace(const NamespaceNode *namespace, Text *out) noexcept nogil:
    if not is_written(out, namespace):
        text_put(out, <const char *>namespace.label, namespace.length)


cdef bint is_written(const Text *out, const NamespaceNode *namespace) noexcept nogil:
    cdef uint32_t at = 0
    while at < out.used:
        if <uint8_t>out.out[at] == namespace.label[0] and memcmp(out.out + at, namespace.label, namespace.length) == 0:
            return True
        at += <uint8_t>out.out[at] + 1u
    return False
