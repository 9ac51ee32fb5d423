"""Reverse names; see _reverse.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from fastdns.api.query cimport TAILORED_REPLY
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, Dedup, reply_copy, dedup_add, dedup_begin
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport TYPE_PTR
from fastdns.plugins.kubernetes.answer.name cimport name_write
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, find_service_by_address, next_slice, probe_begin
from fastdns.plugins.kubernetes.store.records cimport EndpointRecord, ServiceNode, SliceRecord, slice_endpoints
from fastdns.plugins.kubernetes.answer.holder cimport Holder, accepts, holder_admits, holder_find
from fastdns.plugins.kubernetes.answer.view cimport View, endpoint_write


cdef bint add_pointer(Ask *ask, Dedup *dedup, const uint8_t *name, uint32_t length) noexcept nogil:
    """False when the reply is full."""
    cdef uint8_t *rdata
    if length == 0:
        return True
    rdata = reply_copy(&ask.q.reply, name, length)
    return rdata != NULL and dedup_add(dedup, SECTION_ANSWER, ask.owner, ask.owner_length, TYPE_PTR, ask.view.ttl, rdata, length,
                                       RECORD_OWNED) >= 0


cdef bint answer_reverse(Ask *ask, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef const View *view = ask.view
    cdef const ServiceNode *node = find_service_by_address(view.cluster, ip, family, accepts, view)
    cdef const SliceRecord *slice
    cdef const EndpointRecord *endpoint
    cdef uint8_t name[NAME_MAX]
    cdef Holder holder
    cdef Probe probe
    cdef Dedup dedup
    cdef uint32_t i, length, size = 4 if family == 4 else 16
    dedup_begin(&dedup, &ask.q.reply, False)
    if node != NULL:
        length = name_write(name, NULL, 0, NULL, 0, node.key, node.length, view.primary, view.primary_length)
        return add_pointer(ask, &dedup, name, length) and length > 0
    if view.no_endpoints:
        return False
    if view.guarded:
        holder_find(&holder, view, &ask.q.client, ip, family)
        if holder.tailored:
            ask.q.tailored |= TAILORED_REPLY
    probe_begin(&probe, &view.cluster.endpoint_addresses, address_hash(ip, family))
    while True:
        slice = next_slice(&probe)
        if slice == NULL:
            return ask.q.reply.count > dedup.first
        if not accepts(view, slice.service.namespace) or (view.guarded and not holder_admits(&holder, slice.service.namespace)):
            continue
        for i in range(slice.endpoint_count):
            endpoint = &slice_endpoints(slice)[i]
            if endpoint.family == family and memcmp(endpoint.ip, ip, size) == 0:
                length = endpoint_write(name, view, slice, endpoint, view.primary, view.primary_length)
                if not add_pointer(ask, &dedup, name, length):
                    return ask.q.reply.count > dedup.first
