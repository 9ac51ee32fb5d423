"""From an object of the API to a record of the store; see _build.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.network cimport address_parse
from fastdns.plugins.kubernetes.decode.objects cimport (CLUSTER_IPS_MAX, ENDPOINTS_MAX, EXTERNAL_IPS_MAX, EXTERNAL_NAME_MAX, HINTS_MAX, HOST_NAME_MAX,
                                                        LABEL_HEAD, LABEL_VALUE_MAX, LABELS_OCTETS_MAX, NAME_OCTETS_MAX, NODE_MAX, PORT_NAME_MAX,
                                                        PORTS_MAX, TEXT_MAX, Address, Endpoint, Import, Label, Pod, Port, Service, Slice, Span)
from fastdns.plugins.kubernetes.decode.protobuf cimport Field, Reader, next_field, reader
from fastdns.plugins.kubernetes.store.records cimport (HINT_MAX, HINT_NODE, HINT_ZONE, AddressRecord, Cluster, EndpointRecord, PodRecord,
                                                       PortRecord, SERVICE_ALIAS, SERVICE_EXTERNAL, SERVICE_HEADLESS, ServiceRecord, SliceRecord,
                                                       pod_labels, service_alias, service_externals, service_ip4, service_ip6, service_ports,
                                                       service_text, slice_endpoints, slice_ports, slice_text)

cdef struct Text:                   # grows at the end of a record in the scratch area
    char *start
    uint32_t used


cdef uint32_t text_put(Text *text, const char *data, uint32_t length) noexcept nogil:
    cdef uint32_t at = text.used
    if length:
        memcpy(text.start + at, data, length)
        text.used += length
    return at


cdef uint8_t *scratch(Cluster *cluster, uint64_t size) noexcept nogil:
    cdef uint8_t *block
    cdef uint64_t wanted = size + size // 2 + 1024
    if size > cluster.scratch_size:
        if wanted > 1 << 30:
            return NULL
        block = <uint8_t *>realloc(cluster.scratch, wanted)
        if block == NULL:
            return NULL
        cluster.scratch = block
        cluster.scratch_size = <uint32_t>wanted
    return cluster.scratch


# ---- labels and names ----

cdef uint8_t lowered(uint8_t octet) noexcept nogil:
    return octet + 32 if 65 <= octet <= 90 else octet


cdef uint32_t build_label(Span text, uint8_t *out) noexcept nogil:
    cdef uint32_t i
    if text.length < 1 or text.length > 63:
        return 0
    out[0] = <uint8_t>text.length
    for i in range(text.length):
        if text.data[i] == c'.':
            return 0
        out[i + 1] = lowered(<uint8_t>text.data[i])
    return text.length + 1


cdef uint32_t build_key(Span service, Span namespace, uint8_t *out) noexcept nogil:
    cdef uint32_t first = build_label(service, out)
    cdef uint32_t second = build_label(namespace, out + first) if first else 0
    return first + second if second else 0


cdef uint32_t build_name(Span text, uint8_t *out) noexcept nogil:
    """The wire form of a host name, with or without its final dot; 0 when it is none. out has 256 octets."""
    cdef uint32_t i, start = 0, used = 0, length = text.length
    if length and text.data[length - 1] == c'.':
        length -= 1
    if length == 0 or length > 253:
        return 0
    for i in range(length + 1):
        if i == length or text.data[i] == c'.':
            if i == start or i - start > 63:
                return 0
            out[used] = <uint8_t>(i - start)
            memcpy(out + used + 1, text.data + start, i - start)
            used += i - start + 1
            start = i + 1
        elif text.data[i] == c'\\' or <uint8_t>text.data[i] <= 32:
            return 0
    out[used] = 0
    return used + 1


# ---- services and imports ----

cdef void put_ports(PortRecord *records, const Port *ports, uint32_t count, Text *text) noexcept nogil:
    cdef uint32_t i, names, protocols
    for i in range(count):
        names = min(ports[i].name.length, <uint32_t>PORT_NAME_MAX)
        protocols = min(ports[i].protocol.length, <uint32_t>PORT_NAME_MAX)
        records[i].number = ports[i].number
        records[i].text = <uint16_t>text_put(text, ports[i].name.data, names)
        text_put(text, ports[i].protocol.data, protocols)
        records[i].name_length = <uint8_t>names
        records[i].protocol_length = <uint8_t>protocols


cdef uint64_t ports_text(const Port *ports, uint32_t count) noexcept nogil:
    """Octets of the texts of ports."""
    cdef uint64_t octets = 0
    cdef uint32_t i
    for i in range(count):
        octets += min(ports[i].name.length, <uint32_t>PORT_NAME_MAX) + min(ports[i].protocol.length, <uint32_t>PORT_NAME_MAX)
    return octets


cdef uint32_t put_addresses(uint8_t *out, const Address *addresses, uint32_t count, uint8_t family) noexcept nogil:
    """The different addresses of a family, one behind the other; returns how many."""
    cdef uint32_t size = 4 if family == 4 else 16
    cdef uint32_t i, k, used = 0
    for i in range(count):
        if addresses[i].family != family:
            continue
        for k in range(used):
            if memcmp(out + k * size, addresses[i].ip, size) == 0:
                break
        else:
            memcpy(out + used * size, addresses[i].ip, size)
            used += 1
    return used


cdef ServiceRecord *build(Cluster *cluster, const Port *ports, uint32_t port_count, const Address *addresses, uint32_t address_count,
                          const Address *externals, uint32_t external_count, Span name, uint8_t flags, uint32_t *size) noexcept nogil:
    cdef ServiceRecord *record
    cdef AddressRecord *external
    cdef Text text
    cdef uint8_t alias[256]
    cdef uint8_t ip[16]
    cdef uint32_t i, length, alias_length = 0
    cdef uint64_t texts = name.length, octets
    size[0] = 0
    if port_count > PORTS_MAX or address_count > CLUSTER_IPS_MAX or external_count > EXTERNAL_IPS_MAX or name.length > EXTERNAL_NAME_MAX:
        return NULL
    if flags & SERVICE_EXTERNAL and address_parse(name.data, name.length, ip) == 0:
        alias_length = build_name(name, alias)
        if alias_length:
            flags |= SERVICE_ALIAS
    for i in range(external_count):
        texts += min(externals[i].text.length, <uint32_t>HOST_NAME_MAX)
    texts += ports_text(ports, port_count)
    octets = sizeof(ServiceRecord) + texts + port_count * sizeof(PortRecord) + external_count * sizeof(AddressRecord) + 20 * address_count + 256
    if texts > TEXT_MAX:
        return NULL
    record = <ServiceRecord *>scratch(cluster, octets)
    if record == NULL:
        size[0] = 1                 # out of memory, not out of place
        return NULL
    memset(record, 0, octets)
    record.flags = flags
    record.address_count = <uint16_t>address_count
    record.port_count = <uint16_t>port_count
    record.external_count = <uint16_t>external_count
    record.external_name_length = <uint16_t>name.length
    record.alias_length = <uint8_t>alias_length
    record.ip4_count = <uint16_t>put_addresses(service_ip4(record), addresses, address_count, 4)
    record.ip6_count = <uint16_t>put_addresses(service_ip6(record), addresses, address_count, 6)
    memcpy(service_alias(record), alias, alias_length)
    text.start = service_text(record)
    text.used = 0
    text_put(&text, name.data, name.length)
    put_ports(service_ports(record), ports, port_count, &text)
    for i in range(external_count):
        external = &service_externals(record)[i]
        length = min(externals[i].text.length, <uint32_t>HOST_NAME_MAX)
        memcpy(external.ip, externals[i].ip, 16 if externals[i].family == 6 else 4 if externals[i].family == 4 else 0)
        external.family = externals[i].family
        external.text = <uint16_t>text_put(&text, externals[i].text.data, length)
        external.text_length = <uint8_t>length
    size[0] = <uint32_t>(<uint8_t *>text.start + text.used - <uint8_t *>record)
    record.size = size[0]
    return record


cdef ServiceRecord *build_service(Cluster *cluster, const Service *service, uint32_t *size) noexcept nogil:
    return build(cluster, service.ports, service.port_count, service.cluster_ips, service.cluster_ip_count, service.external_ips,
                 service.external_ip_count, service.external_name,
                 (SERVICE_HEADLESS if service.headless else 0) | (SERVICE_EXTERNAL if service.external else 0), size)


cdef ServiceRecord *build_import(Cluster *cluster, const Import *service, uint32_t *size) noexcept nogil:
    cdef Span none
    none.data = NULL
    none.length = 0
    return build(cluster, service.ports, service.port_count, service.ips, service.ip_count, NULL, 0, none,
                 SERVICE_HEADLESS if service.headless else 0, size)


cdef bint ports_alike(const ServiceRecord *a, const ServiceRecord *b) noexcept nogil:
    cdef const PortRecord *first = service_ports(a)
    cdef const PortRecord *second = service_ports(b)
    cdef uint32_t i
    if a.port_count != b.port_count:
        return False
    for i in range(a.port_count):
        if (first[i].number != second[i].number or first[i].name_length != second[i].name_length
                or first[i].protocol_length != second[i].protocol_length
                or memcmp(service_text(a) + first[i].text, service_text(b) + second[i].text, first[i].name_length + first[i].protocol_length)):
            return False
    return True


cdef bint service_alike(const ServiceRecord *a, const ServiceRecord *b) noexcept nogil:
    return (ports_alike(a, b) and a.external_name_length == b.external_name_length
            and memcmp(service_text(a), service_text(b), a.external_name_length) == 0)


cdef bint external_alike(const ServiceRecord *a, const ServiceRecord *b) noexcept nogil:
    cdef const AddressRecord *first = service_externals(a)
    cdef const AddressRecord *second = service_externals(b)
    cdef uint32_t i
    if not ports_alike(a, b) or a.external_count != b.external_count:
        return False
    for i in range(a.external_count):
        if (first[i].text_length != second[i].text_length
                or memcmp(service_text(a) + first[i].text, service_text(b) + second[i].text, first[i].text_length)):
            return False
    return True


# ---- slices ----

cdef SliceRecord *build_slice(Cluster *cluster, const Slice *slice, uint32_t *size) noexcept nogil:
    cdef SliceRecord *record
    cdef EndpointRecord *endpoint
    cdef const Endpoint *source
    cdef Text text
    cdef uint32_t i, host
    cdef uint64_t texts = slice.object.name.length + slice.cluster.length
    size[0] = 0
    if (slice.object.name.length - 1 >= <uint32_t>NAME_OCTETS_MAX or slice.cluster.length > LABEL_VALUE_MAX or slice.port_count > PORTS_MAX
            or slice.endpoint_count > ENDPOINTS_MAX):
        return NULL
    texts += ports_text(slice.ports, slice.port_count)
    if texts > TEXT_MAX:            # ports come first in the text, so their offsets have 16 bits
        return NULL
    for i in range(slice.endpoint_count):
        source = &slice.endpoints[i]
        if i == 0 or source.address.family == 0 or not same_texts(source - 1, source):
            texts += endpoint_room(cluster, source)
    record = <SliceRecord *>scratch(cluster, sizeof(SliceRecord) + slice.port_count * sizeof(PortRecord)
                                    + slice.endpoint_count * <uint64_t>sizeof(EndpointRecord) + texts)
    if record == NULL:
        size[0] = 1
        return NULL
    memset(record, 0, sizeof(SliceRecord))
    record.endpoint_count = slice.endpoint_count
    record.port_count = slice.port_count
    record.name_length = <uint8_t>slice.object.name.length
    record.cluster_length = <uint8_t>slice.cluster.length
    record.placed = cluster.places
    text.start = slice_text(record)
    text.used = 0
    text_put(&text, slice.object.name.data, slice.object.name.length)
    text_put(&text, slice.cluster.data, slice.cluster.length)
    put_ports(slice_ports(record), slice.ports, slice.port_count, &text)
    for i in range(slice.endpoint_count):
        source = &slice.endpoints[i]
        endpoint = &slice_endpoints(record)[i]
        memset(endpoint, 0, sizeof(EndpointRecord))
        endpoint.family = source.address.family
        endpoint.text = text.used
        if source.address.family == 0:
            host = source.address.text.length if source.address.text.length <= HOST_NAME_MAX else 0
            endpoint.ip[0] = <uint8_t>host
            text_put(&text, source.address.text.data, host)
        else:
            memcpy(endpoint.ip, source.address.ip, 4 if source.address.family == 4 else 16)
            if i and same_texts(source - 1, source):
                endpoint.text = (endpoint - 1).text
                endpoint.hostname_length = (endpoint - 1).hostname_length
                endpoint.pod_length = (endpoint - 1).pod_length
                endpoint.zone_length = (endpoint - 1).zone_length
                continue
        endpoint.hostname_length = put_label(&text, source.hostname)
        endpoint.pod_length = put_label(&text, source.pod)
        endpoint.zone_length = put_label(&text, source.zone)
        if cluster.places:
            record.hinted |= put_place(&text, source)
    size[0] = <uint32_t>(<uint8_t *>text.start + text.used - <uint8_t *>record)
    record.size = size[0]
    return record


cdef uint64_t endpoint_room(const Cluster *cluster, const Endpoint *source) noexcept nogil:
    """Octets of an endpoint's texts at most."""
    cdef uint64_t octets = source.address.text.length + source.hostname.length + source.pod.length + source.zone.length
    return octets + source.node.length + source.hints.length + 3 if cluster.places else octets


cdef bint same_span(Span one, Span other) noexcept nogil:
    return one.length == other.length and (one.data == other.data or one.length == 0 or memcmp(one.data, other.data, one.length) == 0)


cdef bint same_texts(const Endpoint *one, const Endpoint *other) noexcept nogil:
    """True if an IP address can share the texts of the IP address before it: an endpoint of a hundred addresses has them once."""
    return (one.address.family != 0 and same_span(one.pod, other.pod) and same_span(one.hostname, other.hostname)
            and same_span(one.zone, other.zone) and same_span(one.node, other.node) and same_span(one.hints, other.hints))


cdef uint8_t put_label(Text *text, Span label) noexcept nogil:
    """Text of at most one label's length (zones are label values, so they have no more either); longer is left out."""
    if label.length > 63:
        return 0
    text_put(text, label.data, label.length)
    return <uint8_t>label.length


cdef bint put_place(Text *text, const Endpoint *source) noexcept nogil:
    """See endpoint_place. It takes no more octets than the object has, and three. Whether there are hints."""
    cdef char *node = text.start + text.used
    cdef uint8_t *hints
    cdef uint32_t length = source.node.length if source.node.length <= NODE_MAX else 0
    node[0] = <char>length
    text.used += 1
    text_put(text, source.node.data, length)
    hints = <uint8_t *>text.start + text.used
    text.used += 2
    if source.hints.length <= HINTS_MAX:
        put_hints(text, source.hints)
    length = <uint32_t>(<uint8_t *>text.start + text.used - hints - 2)
    hints[0] = <uint8_t>(length >> 8)
    hints[1] = <uint8_t>length
    return length > 0


cdef void put_hints(Text *text, Span hints) noexcept nogil:
    cdef Reader all = reader(hints)
    cdef Reader one
    cdef Field hint, name
    cdef char head[4]
    while next_field(&all, &hint):
        if hint.wire != 2 or (hint.number != 1 and hint.number != 2):
            continue
        one = reader(hint.span)
        while next_field(&one, &name):
            if name.number == 1 and name.wire == 2 and 0 < name.span.length <= HINT_MAX:
                head[0] = HINT_ZONE if hint.number == 1 else HINT_NODE
                head[1] = <char>(name.span.length + 2)
                head[2] = HINT_ZONE
                head[3] = <char>name.span.length
                text_put(text, head, 4)
                text_put(text, name.span.data, name.span.length)
                break


# ---- pods ----

cdef PodRecord *build_pod(Cluster *cluster, const Pod *pod, uint32_t *size) noexcept nogil:
    cdef PodRecord *record
    cdef uint32_t address = 4 if pod.ip.family == 4 else 16 if pod.ip.family == 6 else 0
    size[0] = 0
    cdef uint32_t labels = 0, i
    cdef uint8_t *out
    for i in range(pod.label_count):
        labels += label_size(&pod.labels[i])
    if pod.object.name.length - 1 >= <uint32_t>NAME_OCTETS_MAX or labels > LABELS_OCTETS_MAX:
        return NULL
    record = <PodRecord *>scratch(cluster, sizeof(PodRecord) + 16 + 256 + labels + sizeof(void *) + 63)
    if record == NULL:
        size[0] = 1
        return NULL
    memset(record, 0, sizeof(PodRecord))
    record.family = pod.ip.family
    record.name_length = <uint8_t>pod.object.name.length
    record.host_network = pod.host_network
    memcpy(record.data, pod.ip.ip, address)
    memcpy(record.data + address, pod.object.name.data, pod.object.name.length)
    record.labels_length = <uint16_t>labels
    out = pod_labels(record)
    for i in range(pod.label_count):
        out = put_pod_label(out, &pod.labels[i])
    if cluster.places and 0 < pod.node.length <= NODE_MAX:
        record.placed = 1           # whoever publishes it puts the pointer in
        memset(out, 0, sizeof(void *))
        out += sizeof(void *)
        if 0 < pod.zone.length <= 63:
            record.zone_length = <uint8_t>pod.zone.length
            memcpy(out, pod.zone.data, pod.zone.length)
            out += pod.zone.length
    size[0] = <uint32_t>(out - <uint8_t *>record)
    return record


cdef inline uint32_t label_size(const Label *label) noexcept nogil:
    return <uint32_t>LABEL_HEAD + label.key.length + label.value.length


cdef uint8_t *put_pod_label(uint8_t *out, const Label *label) noexcept nogil:
    out[0] = <uint8_t>(label.key.length >> 8)
    out[1] = <uint8_t>label.key.length
    out[2] = <uint8_t>label.value.length
    memcpy(out + 3, label.key.data, label.key.length)
    memcpy(out + 3 + label.key.length, label.value.data, label.value.length)
    return out + label_size(label)
