"""The cluster as Python plugins see it: copies of records, made under the store's lock and without the GIL.

A plugin's thread announces no epochs, so the writer is kept out while a record is copied. The GIL is never taken under the lock: the writer may hold it
as it waits for the lock.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.answer.view cimport PODS_VERIFIED, View, view_exposes
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, address_text, find_service, next_pod, probe_begin
from fastdns.plugins.kubernetes.store.records cimport (LOCAL, SERVICE_HEADLESS, AddressRecord, EndpointRecord, PodLabel, PodRecord, PortRecord, ServiceNode,
                                                       ServiceRecord, SliceRecord, endpoint_hostname, node_service, node_slices, pod_address_length,
                                                       pod_label_next, service_externals, service_ip4, service_ip6, service_ports, service_text,
                                                       slice_endpoints, slice_next, slice_ports, slice_text)
from fastdns.plugins.kubernetes.store.store cimport cluster_lock, cluster_unlock

from ipaddress import ip_address
from fastdns.executor.cluster import Endpoint, Pod, Port, Service


cdef str text_of(const void *octets, uint32_t length):
    return (<const char *>octets)[:length].decode("utf-8", "replace")


cdef str address_of(const uint8_t *ip, uint8_t family):
    cdef char out[46]
    return out[:address_text(ip, family, out)].decode("ascii")


cdef bytes service_key(str namespace, str name):
    """Labels of service and namespace in wire form, lower case, as the store keeps them. Raises ValueError."""
    key = b""
    for label in (name, namespace):
        octets = label.lower().encode("ascii", "replace")
        if not 0 < len(octets) < 64 or not label.isascii():
            raise ValueError(f"{label!r} is no name of an object")
        key += bytes([len(octets)]) + octets
    return key


cdef list ports_of(const PortRecord *ports, uint32_t count, const char *text):
    cdef uint32_t i
    cdef list found = []
    for i in range(count):
        name = text_of(text + ports[i].text, ports[i].name_length)
        protocol = text_of(text + ports[i].text + ports[i].name_length, ports[i].protocol_length)
        found.append(Port(name, protocol.lower(), None if ports[i].number < 0 else ports[i].number))
    return found


cdef struct Copy:                   # of a slice
    Copy *next
    SliceRecord record              # and all that belongs to it


cdef ServiceRecord *copy_service(const View *view, const uint8_t *key, uint32_t length, bint *failed) noexcept nogil:
    cdef ServiceNode *node = find_service(view.cluster, LOCAL, key, length)
    cdef ServiceRecord *record
    cdef ServiceRecord *copy
    if node == NULL or not view_exposes(view, node.namespace):
        return NULL
    record = node_service(node)
    if record == NULL:
        return NULL
    copy = <ServiceRecord *>malloc(record.size)
    failed[0] = copy == NULL
    if copy != NULL:
        memcpy(copy, record, record.size)
    return copy


cdef Copy *copy_slices(const View *view, const uint8_t *key, uint32_t length, bint *failed) noexcept nogil:
    cdef ServiceNode *node = find_service(view.cluster, LOCAL, key, length)
    cdef SliceRecord *slice
    cdef Copy *copies = NULL
    cdef Copy *copy
    if node == NULL or not view_exposes(view, node.namespace):
        return NULL
    slice = node_slices(node)
    while slice != NULL:
        copy = <Copy *>malloc(sizeof(Copy) + slice.size)
        failed[0] = copy == NULL
        if copy == NULL:
            break
        memcpy(&copy.record, slice, slice.size)
        copy.next = copies
        copies = copy
        slice = slice_next(slice)
    return copies


cdef PodRecord *copy_pod(const View *view, const uint8_t *ip, uint8_t family, uint8_t *namespace, bint *failed) noexcept nogil:
    """The one pod of an address, and its namespace's label; NULL where that is not certain."""
    cdef Probe probe
    cdef PodRecord *pod
    cdef PodRecord *copy
    cdef uint32_t size
    probe_begin(&probe, &view.cluster.pod_addresses, address_hash(ip, family))
    pod = next_pod(&probe, ip, family)
    if pod == NULL or pod.host_network or next_pod(&probe, ip, family) != NULL:
        return NULL
    size = <uint32_t>sizeof(PodRecord) + pod_address_length(pod) + pod.name_length + pod.labels_length
    copy = <PodRecord *>malloc(size)
    failed[0] = copy == NULL
    if copy != NULL:
        memcpy(copy, pod, <uint32_t>(<uint8_t *>pod.data - <uint8_t *>pod))
        memcpy(copy.data, pod.data, pod_address_length(pod) + pod.name_length + pod.labels_length)
        memcpy(namespace, pod.namespace.label, pod.namespace.length)
    return copy


cdef class ClusterView:
    """What Python plugins may look up in a cluster's store: see query.Cluster."""
    cdef ViewHandler handler

    def __init__(self, ViewHandler handler not None):
        self.handler = handler

    def service(self, str namespace not None, str name not None):
        cdef bytes key = service_key(namespace, name)
        cdef const uint8_t *octets = key
        cdef uint32_t length = <uint32_t>len(key)
        cdef const View *view = &self.handler.view
        cdef ServiceRecord *record
        cdef bint failed = False
        with nogil:
            cluster_lock(view.cluster)
            record = copy_service(view, octets, length, &failed)
            cluster_unlock(view.cluster)
        if failed:
            raise MemoryError
        if record == NULL:
            return None
        try:
            return service_of(record, namespace.lower(), name.lower())
        finally:
            free(record)

    def endpoints(self, str namespace not None, str name not None):
        cdef bytes key = service_key(namespace, name)
        cdef const uint8_t *octets = key
        cdef uint32_t length = <uint32_t>len(key)
        cdef const View *view = &self.handler.view
        cdef Copy *copies
        cdef Copy *copy
        cdef bint failed = False
        cdef list found = []
        with nogil:
            cluster_lock(view.cluster)
            copies = copy_slices(view, octets, length, &failed)
            cluster_unlock(view.cluster)
        try:
            if failed:
                raise MemoryError
            copy = copies
            while copy != NULL:
                found[:0] = endpoints_of(&copy.record)
                copy = copy.next
            return found
        finally:
            while copies != NULL:
                copy = copies.next
                free(copies)
                copies = copy

    def pod(self, address not None):
        cdef uint8_t ip[16]
        cdef uint8_t namespace[64]
        cdef const View *view = &self.handler.view
        cdef PodRecord *pod
        cdef PodLabel label
        cdef uint32_t place = 0
        cdef uint8_t family
        cdef bint failed = False
        packed = ip_address(address.partition("%")[0] if isinstance(address, str) else address).packed
        family = 4 if len(packed) == 4 else 6
        memset(ip, 0, 16)
        memcpy(ip, <const uint8_t *><bytes>packed, len(packed))
        if view.pods != PODS_VERIFIED:
            return None
        with nogil:
            cluster_lock(view.cluster)
            pod = copy_pod(view, ip, family, namespace, &failed)
            cluster_unlock(view.cluster)
        if failed:
            raise MemoryError
        if pod == NULL:
            return None
        labels = {}
        try:
            while pod_label_next(pod, &place, &label):
                labels[text_of(label.key, label.key_length)] = text_of(label.value, label.value_length)
            return Pod(text_of(namespace + 1, namespace[0]), text_of(pod.data + pod_address_length(pod), pod.name_length), labels)
        finally:
            free(pod)


cdef object service_of(const ServiceRecord *record, str namespace, str name):
    cdef uint32_t i
    cdef const char *text = service_text(record)
    cdef const AddressRecord *externals = service_externals(record)
    addresses = [address_of(service_ip4(record) + 4 * i, 4) for i in range(record.ip4_count)]
    addresses += [address_of(service_ip6(record) + 16 * i, 6) for i in range(record.ip6_count)]
    external = [text_of(text + externals[i].text, externals[i].text_length) for i in range(record.external_count)]
    return Service(namespace, name, addresses, ports_of(service_ports(record), record.port_count, text), record.flags & SERVICE_HEADLESS != 0,
                   text_of(text, record.external_name_length), external)


cdef list endpoints_of(const SliceRecord *record):
    cdef const EndpointRecord *endpoint
    cdef const char *text = slice_text(record)
    cdef const char *hostname
    cdef uint32_t i
    cdef list found = []
    ports = ports_of(slice_ports(record), record.port_count, text)
    for i in range(record.endpoint_count):
        endpoint = &slice_endpoints(record)[i]
        hostname = text + endpoint_hostname(endpoint)
        address = text_of(text + endpoint.text, endpoint.ip[0]) if endpoint.family == 0 else address_of(endpoint.ip, endpoint.family)
        found.append(Endpoint(address, ports, text_of(hostname, endpoint.hostname_length),
                              text_of(hostname + endpoint.hostname_length, endpoint.pod_length),
                              text_of(hostname + endpoint.hostname_length + endpoint.pod_length, endpoint.zone_length)))
    return found
