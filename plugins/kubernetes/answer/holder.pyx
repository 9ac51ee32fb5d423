"""Whose names a PTR record of an endpoint's address may have; see holder.pxd."""
from libc.stdint cimport uint32_t
from libc.string cimport memcmp
from fastdns.plugins.kubernetes.answer.view cimport PODS_VERIFIED, view_exposes
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, next_pod, next_slice, probe_begin
from fastdns.plugins.kubernetes.store.records cimport EndpointRecord, PodRecord, slice_endpoints


cdef bint accepts(const void *context, const NamespaceNode *namespace) noexcept nogil:
    cdef const View *view = <const View *>context
    return view.namespace_count == 0 or view_exposes(view, namespace)


cdef bint slice_has(const SliceRecord *slice, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef const EndpointRecord *endpoint
    cdef uint32_t i
    for i in range(slice.endpoint_count):
        endpoint = &slice_endpoints(slice)[i]
        if endpoint.family == family and memcmp(endpoint.ip, ip, 4 if family == 4 else 16) == 0:
            return True
    return False


cdef HolderKind kind_of(const View *view, const uint8_t *ip, uint8_t family) noexcept nogil:
    """HOLDER_ALL: no pod has the address, as far as is known."""
    cdef HolderKind kind = HOLDER_ALL
    cdef const PodRecord *pod
    cdef Probe probe
    if view.pods != PODS_VERIFIED:
        return HOLDER_ALL
    probe_begin(&probe, &view.cluster.pod_addresses, address_hash(ip, family))
    while True:
        pod = next_pod(&probe, ip, family)
        if pod == NULL:
            return kind
        if not pod.host_network:
            return HOLDER_PODS
        kind = HOLDER_NODE


cdef const NamespaceNode *client_namespace(const View *view, const Address *client) noexcept nogil:
    """The namespace of all pods that have the client's address; NULL where that is not certain."""
    cdef const NamespaceNode *namespace = NULL
    cdef const PodRecord *pod
    cdef Probe probe
    if view.pods != PODS_VERIFIED:
        return NULL
    probe_begin(&probe, &view.cluster.pod_addresses, address_hash(client.octets, client.family))
    while True:
        pod = next_pod(&probe, client.octets, client.family)
        if pod == NULL:
            return namespace
        if pod.host_network or (namespace != NULL and namespace != pod.namespace):
            return NULL
        namespace = pod.namespace


cdef bint has_pod(const Holder *holder, const NamespaceNode *namespace) noexcept nogil:
    cdef const PodRecord *pod
    cdef Probe probe
    probe_begin(&probe, &holder.view.cluster.pod_addresses, address_hash(holder.ip, holder.family))
    while True:
        pod = next_pod(&probe, holder.ip, holder.family)
        if pod == NULL or (pod.namespace == namespace and (holder.kind == HOLDER_NODE or not pod.host_network)):
            return pod != NULL


cdef bint holder_admits(const Holder *holder, const NamespaceNode *namespace) noexcept nogil:
    if holder.kind == HOLDER_CLIENT:
        return namespace == holder.own
    return holder.kind == HOLDER_ALL or (holder.kind != HOLDER_NOBODY and has_pod(holder, namespace))


cdef void holder_find(Holder *holder, const View *view, const Address *client, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef const NamespaceNode *own = NULL
    cdef const NamespaceNode *first = NULL
    cdef const NamespaceNode *namespace
    cdef const SliceRecord *slice
    cdef Probe probe
    cdef bint several = False, backed = False, named = False
    holder.view = view
    holder.ip = ip
    holder.family = family
    holder.own = NULL
    holder.tailored = 0
    holder.kind = kind_of(view, ip, family)
    if holder.kind != HOLDER_PODS:
        own = client_namespace(view, client)
    probe_begin(&probe, &view.cluster.endpoint_addresses, address_hash(ip, family))
    while True:
        slice = next_slice(&probe)
        if slice == NULL:
            break
        namespace = slice.service.namespace
        if namespace == first or not accepts(view, namespace) or not slice_has(slice, ip, family):
            continue
        several |= first != NULL
        first = namespace
        if holder.kind == HOLDER_PODS:
            return
        backed |= holder.kind == HOLDER_NODE and has_pod(holder, namespace)
        named |= namespace == own
    if first == NULL:
        holder.kind = HOLDER_NOBODY
    elif holder.kind == HOLDER_ALL or not backed:
        holder.kind = HOLDER_CLIENT if named else HOLDER_ALL
        holder.own = own
        holder.tailored = several
