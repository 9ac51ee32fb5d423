"""From the store's records back to objects; see replay.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from fastdns.plugins.kubernetes.store.find cimport address_text
from fastdns.plugins.kubernetes.store.memory cimport Table, table_next
from fastdns.plugins.kubernetes.decode.objects cimport (KIND_IMPORT, KIND_NAMESPACE, KIND_POD, KIND_SERVICE, KIND_SLICE, Address, Endpoint, Import,
                                                        Label, Namespace, Object, Pod, Port, Service, Slice, Span)
from fastdns.plugins.kubernetes.store.records cimport (IMPORTED, LOCAL, SERVICE_EXTERNAL, SERVICE_HEADLESS, AddressRecord, EndpointPlace,
                                                       EndpointRecord, NamespaceNode, PodLabel, PodRecord, PortRecord, ServiceNode, ServiceRecord,
                                                       SliceRecord, endpoint_hostname, endpoint_place, pod_address_length, pod_label_next,
                                                       pod_node, pod_zone, service_externals, service_ip4, service_ip6, service_ports, service_text,
                                                       slice_cluster, slice_endpoints, slice_ports, slice_text)

cdef enum:
    TEXT = 40                       # octets for the text of an address


cdef Span span(const void *data, uint32_t length) noexcept nogil:
    cdef Span made
    made.data = <const char *>data
    made.length = length
    return made


cdef void set_name(Object *object, const ServiceNode *node) noexcept nogil:
    object.name = span(node.key + 1, node.key[0])
    object.namespace = span(node.namespace.label + 1, node.namespace.label[0])


cdef void set_address(Address *address, const uint8_t *ip, uint8_t family, char *text) noexcept nogil:
    address.family = family
    memcpy(address.ip, ip, 4 if family == 4 else 16)
    address.text = span(text, address_text(ip, family, text))


cdef void set_ports(Port *ports, const PortRecord *records, uint32_t count, const char *text) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        ports[i].number = records[i].number
        ports[i].name = span(text + records[i].text, records[i].name_length)
        ports[i].protocol = span(text + records[i].text + records[i].name_length, records[i].protocol_length)


cdef int replay_service(const ServiceNode *node, const ObjectSink *into, void *into_self) noexcept nogil:
    cdef const ServiceRecord *record = node.record
    cdef uint32_t i, addresses = record.ip4_count + record.ip6_count
    cdef size_t ports_size = record.port_count * sizeof(Port)
    cdef size_t addresses_size = (addresses + record.external_count) * sizeof(Address)
    cdef uint8_t *block = <uint8_t *>malloc(ports_size + addresses_size + addresses * TEXT + 1)
    cdef Port *ports = <Port *>block
    cdef Address *ips = <Address *>(block + ports_size)
    cdef char *texts = <char *>block + ports_size + addresses_size
    cdef const AddressRecord *external
    cdef Service service
    cdef Import imported
    cdef int status
    if block == NULL:
        return -1
    memset(block, 0, ports_size + addresses_size)
    set_ports(ports, service_ports(record), record.port_count, service_text(record))
    for i in range(addresses):
        if i < record.ip4_count:
            set_address(&ips[i], service_ip4(record) + 4 * i, 4, texts + i * TEXT)
        else:
            set_address(&ips[i], service_ip6(record) + 16 * (i - record.ip4_count), 6, texts + i * TEXT)
    for i in range(record.external_count):
        external = &service_externals(record)[i]
        ips[addresses + i].family = external.family
        memcpy(ips[addresses + i].ip, external.ip, 16)
        ips[addresses + i].text = span(service_text(record) + external.text, external.text_length)
    if node.world == IMPORTED:
        memset(&imported, 0, sizeof(imported))
        set_name(&imported.object, node)
        imported.object.version = record.version
        imported.headless = record.flags & SERVICE_HEADLESS != 0
        imported.ip_count = <uint16_t>addresses
        imported.port_count = record.port_count
        imported.ips = ips
        imported.ports = ports
        status = into.upsert(into_self, KIND_IMPORT, &imported.object)
    else:
        memset(&service, 0, sizeof(service))
        set_name(&service.object, node)
        service.object.version = record.version
        service.headless = record.flags & SERVICE_HEADLESS != 0
        service.external = record.flags & SERVICE_EXTERNAL != 0
        service.external_name = span(service_text(record), record.external_name_length)
        service.cluster_ip_count = <uint16_t>addresses
        service.port_count = record.port_count
        service.external_ip_count = record.external_count
        service.cluster_ips = ips
        service.ports = ports
        service.external_ips = ips + addresses
        status = into.upsert(into_self, KIND_SERVICE, &service.object)
    free(block)
    return status


cdef int replay_slice(const SliceRecord *record, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil:
    cdef size_t ports_size = record.port_count * sizeof(Port)
    cdef size_t endpoints_size = record.endpoint_count * sizeof(Endpoint)
    cdef uint8_t *block = <uint8_t *>malloc(ports_size + endpoints_size + record.endpoint_count * <size_t>TEXT + 1)
    cdef Endpoint *endpoints = <Endpoint *>(block + ports_size)
    cdef char *texts = <char *>block + ports_size + endpoints_size
    cdef const EndpointRecord *endpoint
    cdef EndpointPlace place
    cdef const char *text
    cdef Slice slice
    cdef uint32_t i
    cdef int status
    if block == NULL:
        return -1
    memset(block, 0, ports_size + endpoints_size)
    set_ports(<Port *>block, slice_ports(record), record.port_count, slice_text(record))
    for i in range(record.endpoint_count):
        endpoint = &slice_endpoints(record)[i]
        text = slice_text(record) + endpoint_hostname(endpoint)
        if endpoint.family == 0:
            endpoints[i].address.text = span(text - endpoint.ip[0], endpoint.ip[0])
        else:
            set_address(&endpoints[i].address, endpoint.ip, endpoint.family, texts + i * <size_t>TEXT)
        endpoints[i].hostname = span(text, endpoint.hostname_length)
        endpoints[i].pod = span(text + endpoint.hostname_length, endpoint.pod_length)
        endpoints[i].zone = span(text + endpoint.hostname_length + endpoint.pod_length, endpoint.zone_length)
        if record.placed:
            endpoint_place(record, endpoint, &place)
            endpoints[i].node = span(place.node, place.node_length)
            endpoints[i].hints = span(place.hints, place.hints_length)
    memset(&slice, 0, sizeof(slice))
    slice.object.namespace = span(record.service.namespace.label + 1, record.service.namespace.label[0])
    slice.object.name = span(slice_text(record), record.name_length)
    slice.object.version = record.version
    slice.service = span(record.service.key + 1, record.service.key[0])
    slice.cluster = span(slice_cluster(record), record.cluster_length)
    slice.endpoint_count = record.endpoint_count
    slice.port_count = record.port_count
    slice.endpoints = endpoints
    slice.ports = <Port *>block
    status = into.upsert(into_self, kind, &slice.object)
    free(block)
    return status


cdef uint32_t count_labels(const PodRecord *record) noexcept nogil:
    cdef PodLabel label
    cdef uint32_t place = 0, count = 0
    while pod_label_next(record, &place, &label):
        count += 1
    return count


cdef int replay_pod(const PodRecord *record, const ObjectSink *into, void *into_self) noexcept nogil:
    cdef char text[TEXT]
    cdef Pod pod
    cdef Label *labels = <Label *>malloc(count_labels(record) * sizeof(Label) + 1)
    cdef PodLabel label
    cdef uint32_t place = 0
    cdef int status
    if labels == NULL:
        return -1
    memset(&pod, 0, sizeof(pod))
    pod.object.namespace = span(record.namespace.label + 1, record.namespace.label[0])
    pod.object.name = span(record.data + pod_address_length(record), record.name_length)
    pod.object.version = record.version
    if record.family:
        set_address(&pod.ip, record.data, record.family, text)
    pod.host_network = record.host_network
    if record.placed:
        pod.node = span(pod_node(record).name, pod_node(record).length)
        pod.zone = span(pod_zone(record), record.zone_length)
    pod.labels = labels
    while pod_label_next(record, &place, &label):
        labels[pod.label_count].key = span(label.key, label.key_length)
        labels[pod.label_count].value = span(label.value, label.value_length)
        pod.label_count += 1
    status = into.upsert(into_self, KIND_POD, &pod.object)
    free(labels)
    return status


cdef int replay_namespace(const NamespaceNode *node, const ObjectSink *into, void *into_self) noexcept nogil:
    cdef Namespace namespace
    memset(&namespace, 0, sizeof(namespace))
    namespace.object.name = span(node.label + 1, node.label[0])
    namespace.object.version = node.version
    return into.upsert(into_self, KIND_NAMESPACE, &namespace.object)


cdef int replay_entry(void *entry, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil:
    if kind == KIND_NAMESPACE:
        return replay_namespace(<NamespaceNode *>entry, into, into_self) if (<NamespaceNode *>entry).present else 0
    if kind == KIND_SERVICE or kind == KIND_IMPORT:
        return replay_service(<ServiceNode *>entry, into, into_self) if (<ServiceNode *>entry).record != NULL else 0
    if kind == KIND_POD:
        return replay_pod(<PodRecord *>entry, into, into_self)
    return replay_slice(<SliceRecord *>entry, kind, into, into_self)


cdef int replay_kind(Cluster *cluster, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil:
    cdef Table *table
    cdef void *entry
    cdef uint32_t place = 0
    cdef int status = 0
    if kind == KIND_NAMESPACE:
        table = &cluster.namespaces
    elif kind == KIND_SERVICE:
        table = &cluster.services[LOCAL]
    elif kind == KIND_IMPORT:
        table = &cluster.services[IMPORTED]
    elif kind == KIND_POD:
        table = &cluster.pods
    else:
        table = &cluster.slices[LOCAL if kind == KIND_SLICE else IMPORTED]
    entry = table_next(table, &place)
    while entry != NULL and status == 0:
        status = replay_entry(entry, kind, into, into_self)
        entry = table_next(table, &place)
    return status
