"""The structs of _objects.pxd as protobuf; see _encode.pxd. Field numbers are those that _protobuf.pyx reads."""
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove, memset

from fastdns.plugins.kubernetes.decode.objects cimport (KIND_IMPORT, KIND_IMPORT_SLICE, KIND_POD, KIND_SERVICE, KIND_SLICE, Endpoint, Import, Label,
                                                        Pod, Port, Service, Slice, Span)

cdef enum:
    LENGTH_SIZE = 4                 # octets of the length of a message inside of another at most: 268,435,455


cdef void output_free(Output *out) noexcept nogil:
    free(out.data)
    memset(out, 0, sizeof(Output))


cdef void output_add(Output *out, const void *data, uint64_t length) noexcept nogil:
    cdef uint64_t capacity
    cdef void *moved
    if out.failed:
        return
    if out.length + length > out.capacity:
        capacity = out.capacity * 2 if out.capacity else 4096
        while capacity < out.length + length:
            capacity *= 2
        moved = realloc(out.data, capacity)
        if moved == NULL:
            out.failed = 1
            return
        out.data = <uint8_t *>moved
        out.capacity = capacity
    if length:
        memcpy(out.data + out.length, data, length)
        out.length += length


cdef void put_varint(Output *out, uint64_t value) noexcept nogil:
    cdef uint8_t octets[10]
    cdef int n = 0
    while value >= 0x80:
        octets[n] = <uint8_t>(value | 0x80)
        value >>= 7
        n += 1
    octets[n] = <uint8_t>value
    output_add(out, octets, <uint64_t>n + 1)


cdef void put_number(Output *out, int field, uint64_t value) noexcept nogil:
    put_varint(out, <uint64_t>field << 3)
    put_varint(out, value)


cdef void put_text(Output *out, int field, const char *data, uint64_t length) noexcept nogil:
    put_varint(out, (<uint64_t>field << 3) | 2)
    put_varint(out, length)
    output_add(out, data, length)


cdef void put_span(Output *out, int field, Span span) noexcept nogil:
    if span.length:
        put_text(out, field, span.data, span.length)


cdef uint64_t open_message(Output *out, int field) noexcept nogil:
    """Begins a message whose length is not known yet; returns what close_message wants."""
    put_varint(out, (<uint64_t>field << 3) | 2)
    put_varint(out, 0)              # for a length of one octet, as most are
    return out.length


cdef void close_message(Output *out, uint64_t start) noexcept nogil:
    """Puts the length in front."""
    cdef uint64_t length = out.length - start
    cdef int more = 0, i
    while length >> (7 * (more + 1)):
        more += 1
    if more >= LENGTH_SIZE:
        out.failed = 1
    for i in range(more):
        put_varint(out, 0)
    if out.failed:
        return
    if more:
        memmove(out.data + start + more, out.data + start, length)
    for i in range(more + 1):
        out.data[start - 1 + i] = <uint8_t>((length >> (7 * i)) & 0x7f) | (0x80 if i < more else 0)


cdef void put_label(Output *out, const char *key, uint64_t key_length, Span value) noexcept nogil:
    cdef uint64_t start = open_message(out, 11)
    put_text(out, 1, key, key_length)
    put_span(out, 2, value)
    close_message(out, start)


cdef uint64_t open_meta(Output *out, const Object *object) noexcept nogil:
    """ObjectMeta, left open for labels."""
    cdef uint64_t start = open_message(out, 1)
    cdef uint64_t version = object.version
    cdef char digits[20]
    cdef int n = 20
    put_span(out, 1, object.name)
    put_span(out, 3, object.namespace)
    while version:
        n -= 1
        digits[n] = <char>(48 + version % 10)
        version //= 10
    if n < 20:
        put_text(out, 6, digits + n, <uint64_t>(20 - n))
    return start


cdef void put_ports(Output *out, int field, const Port *ports, unsigned int count) noexcept nogil:
    cdef unsigned int i
    cdef uint64_t start
    if count == 1 and ports[0].number == -1 and ports[0].name.length == 0 and ports[0].protocol.length == 0:
        return                      # the sentinel
    for i in range(count):
        start = open_message(out, field)
        put_span(out, 1, ports[i].name)
        put_span(out, 2, ports[i].protocol)
        if ports[i].number != -1:
            put_number(out, 3, <uint64_t>ports[i].number)
        close_message(out, start)


cdef void encode_service(Output *out, const Service *service) noexcept nogil:
    cdef uint64_t start
    cdef unsigned int i
    close_message(out, open_meta(out, &service.object))
    start = open_message(out, 2)
    put_ports(out, 1, service.ports, service.port_count)
    if service.external:
        put_text(out, 4, "ExternalName", 12)
    for i in range(service.external_ip_count):
        put_span(out, 5, service.external_ips[i].text)
    put_span(out, 10, service.external_name)
    if service.headless:
        put_text(out, 18, "None", 4)
    for i in range(service.cluster_ip_count):
        put_span(out, 18, service.cluster_ips[i].text)
    close_message(out, start)


cdef void encode_endpoint(Output *out, const Endpoint *endpoint) noexcept nogil:
    cdef uint64_t start = open_message(out, 2), inner
    put_span(out, 1, endpoint.address.text)
    put_span(out, 3, endpoint.hostname)
    if endpoint.pod.length:
        inner = open_message(out, 4)
        put_span(out, 3, endpoint.pod)
        close_message(out, inner)
    put_span(out, 6, endpoint.node)
    put_span(out, 7, endpoint.zone)
    put_span(out, 8, endpoint.hints)
    close_message(out, start)


cdef void encode_slice(Output *out, const Slice *slice, bint imported) noexcept nogil:
    cdef uint64_t start = open_meta(out, &slice.object)
    cdef unsigned int i
    if imported:
        put_label(out, "multicluster.kubernetes.io/service-name", 39, slice.service)
    else:
        put_label(out, "kubernetes.io/service-name", 26, slice.service)
    if slice.cluster.length:
        put_label(out, "multicluster.kubernetes.io/source-cluster", 41, slice.cluster)
    close_message(out, start)
    for i in range(slice.endpoint_count):
        encode_endpoint(out, &slice.endpoints[i])
    put_ports(out, 3, slice.ports, slice.port_count)


cdef void encode_pod(Output *out, const Pod *pod) noexcept nogil:
    cdef uint64_t start = open_meta(out, &pod.object)
    cdef const Label *label
    cdef unsigned int i
    if pod.terminating:
        put_text(out, 9, "", 0)
    for i in range(pod.label_count):
        label = &pod.labels[i]
        put_label(out, label.key.data, label.key.length, label.value)
    if pod.label_count == 0 and pod.zone.length:
        put_label(out, "topology.kubernetes.io/zone", 27, pod.zone)
    close_message(out, start)
    if pod.host_network or pod.node.length:
        start = open_message(out, 2)
        put_span(out, 10, pod.node)
        if pod.host_network:
            put_number(out, 11, 1)
        close_message(out, start)
    start = open_message(out, 3)
    put_span(out, 6, pod.ip.text)
    close_message(out, start)


cdef void encode_import(Output *out, const Import *imported) noexcept nogil:
    cdef unsigned int i
    close_message(out, open_meta(out, &imported.object))
    put_ports(out, 2, imported.ports, imported.port_count)
    if imported.headless:
        put_text(out, 3, "Headless", 8)
    for i in range(imported.ip_count):
        put_span(out, 4, imported.ips[i].text)


cdef int encode_object(Output *out, Kind kind, const Object *object) noexcept nogil:
    if kind == KIND_SERVICE:
        encode_service(out, <const Service *>object)
    elif kind == KIND_SLICE or kind == KIND_IMPORT_SLICE:
        encode_slice(out, <const Slice *>object, kind == KIND_IMPORT_SLICE)
    elif kind == KIND_POD:
        encode_pod(out, <const Pod *>object)
    elif kind == KIND_IMPORT:
        encode_import(out, <const Import *>object)
    else:
        close_message(out, open_meta(out, object))
    return -1 if out.failed else 0
