"""A skimmer of Kubernetes' protobuf; see _protobuf.pxd."""
from libc.string cimport memcmp, memset

from fastdns.plugins.kubernetes.decode.fields cimport (DECODED, MALFORMED, NO_MEMORY, POD_NAME_MAX, add_cluster_ip, add_endpoint,
                                                       add_external_ip, add_label, add_port, address_set, finish_import, finish_pod,
                                                       finish_service, finish_slice, scratch_begin, span_is, version_parse)
from fastdns.plugins.kubernetes.decode.objects cimport (CUT_ENDPOINTS, KIND_IMPORT, KIND_IMPORT_SLICE, KIND_POD, KIND_SERVICE, KIND_SLICE, Address,
                                                        Endpoint, Label, Port)

cdef struct Meta:                   # what objects need of metav1.ObjectMeta
    Object object
    Span version
    Span service                    # label kubernetes.io/service-name
    Span import_service             # label multicluster.kubernetes.io/service-name
    Span cluster                    # label multicluster.kubernetes.io/source-cluster
    Span zone                       # label topology.kubernetes.io/zone
    Span trigger                    # annotation endpoints.kubernetes.io/last-change-trigger-time
    uint8_t terminating
    uint8_t initial_end


# ---- reading ----

cdef int varint_at(const uint8_t *at, uint64_t available, uint64_t *value) noexcept nogil:
    cdef uint64_t result = 0
    cdef int i
    for i in range(10):
        if <uint64_t>i >= available:
            return 0
        if i == 9 and at[i] > 1:
            return -1
        result |= <uint64_t>(at[i] & 0x7f) << (7 * i)
        if at[i] < 0x80:
            value[0] = result
            return i + 1
    return -1


cdef inline uint64_t varint(Reader *r) noexcept nogil:
    cdef uint64_t value = 0
    cdef int length
    if r.at < r.end and r.at[0] < 0x80:
        value = r.at[0]
        r.at += 1
        return value
    length = varint_at(r.at, <uint64_t>(r.end - r.at), &value)
    if length <= 0:
        r.bad = 1
        r.at = r.end
        return 0
    r.at += length
    return value


cdef inline uint64_t fixed(Reader *r, int length) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    if r.end - r.at < length:
        r.bad = 1
        r.at = r.end
        return 0
    for i in range(length):
        value |= <uint64_t>r.at[i] << (8 * i)
    r.at += length
    return value


cdef bint read_field(Reader *r, Field *field) noexcept nogil:
    cdef uint64_t tag, length
    if r.at >= r.end:
        return False
    tag = varint(r)
    if r.bad or tag > 0xffffffffULL or tag < 8:
        r.bad = 1
        r.at = r.end
        return False
    field.number = <uint32_t>(tag >> 3)
    field.wire = <uint8_t>(tag & 7)
    field.value = 0
    field.span.data = NULL
    field.span.length = 0
    if field.wire == 2:
        length = varint(r)
        if r.bad or length > <uint64_t>(r.end - r.at):
            r.bad = 1
            r.at = r.end
            return False
        field.span.data = <const char *>r.at
        field.span.length = <uint32_t>length
        r.at += length
    elif field.wire == 0:
        field.value = varint(r)
    elif field.wire == 1:
        field.value = fixed(r, 8)
    elif field.wire == 5:
        field.value = fixed(r, 4)
    else:                           # groups do not occur in Kubernetes' messages
        r.bad = 1
        r.at = r.end
    return not r.bad


# ---- envelopes ----

cdef int unwrap(Span wrapped, Span *raw) noexcept nogil:
    cdef Reader r
    cdef Field field
    cdef Span inside
    if wrapped.length < 4 or memcmp(wrapped.data, b"k8s\0", 4) != 0:
        return -1
    inside.data = wrapped.data + 4
    inside.length = wrapped.length - 4
    raw.data = NULL
    raw.length = 0
    r = reader(inside)
    while next_field(&r, &field):
        if field.number == 2 and field.wire == 2:       # Unknown.raw
            raw[0] = field.span
    return -1 if r.bad else 0


cdef int skim_event(Span frame, Event *event) noexcept nogil:
    cdef Reader r = reader(frame)
    cdef Reader extension
    cdef Field field
    cdef Span wrapped
    wrapped.data = NULL
    wrapped.length = 0
    event.type = EVENT_UNKNOWN
    while next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:       # WatchEvent.type
            if span_is(field.span, "ADDED", 5):
                event.type = EVENT_ADDED
            elif span_is(field.span, "MODIFIED", 8):
                event.type = EVENT_MODIFIED
            elif span_is(field.span, "DELETED", 7):
                event.type = EVENT_DELETED
            elif span_is(field.span, "BOOKMARK", 8):
                event.type = EVENT_BOOKMARK
            elif span_is(field.span, "ERROR", 5):
                event.type = EVENT_ERROR
        elif field.number == 2:     # WatchEvent.object, a RawExtension
            extension = reader(field.span)
            while next_field(&extension, &field):
                if field.number == 1 and field.wire == 2:
                    wrapped = field.span
            if extension.bad:
                return -1
    if r.bad or event.type == EVENT_UNKNOWN:
        return -1
    return unwrap(wrapped, &event.object)


cdef int skim_status(Span body, Status *status) noexcept nogil:
    cdef Reader r = reader(body)
    cdef Reader details
    cdef Field field
    memset(status, 0, sizeof(Status))
    while next_field(&r, &field):
        if field.number == 3 and field.wire == 2:
            status.message = field.span
        elif field.number == 4 and field.wire == 2:
            status.reason = field.span
        elif field.number == 6 and field.wire == 0:
            status.code = <int32_t>field.value
        elif field.number == 5 and field.wire == 2:
            details = reader(field.span)
            while next_field(&details, &field):
                if field.number == 5 and field.wire == 0:
                    status.retry_after = <int32_t>field.value
            if details.bad:
                return -1
    return -1 if r.bad else 0


cdef int skim_list_meta(Span body, ListMeta *meta) noexcept nogil:
    cdef Reader r = reader(body)
    cdef Field field
    memset(meta, 0, sizeof(ListMeta))
    while next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 2:
            meta.version = field.span
        elif field.number == 3:
            meta.following = field.span
    return -1 if r.bad else 0


cdef int skim_bookmark(Span body, Bookmark *bookmark) noexcept nogil:
    cdef Reader r = reader(body)
    cdef Field field
    cdef Meta meta
    memset(&meta, 0, sizeof(Meta))
    while next_field(&r, &field):
        if field.number == 1 and field.wire == 2 and skim_meta(field.span, &meta, NULL) != DECODED:
            return -1
    bookmark.version = meta.version
    bookmark.initial_end = meta.initial_end
    return -1 if r.bad else 0


# ---- metadata ----

cdef bint entry(Span span, Span *key, Span *value) noexcept nogil:
    """One entry of a map of texts."""
    cdef Reader r = reader(span)
    cdef Field field
    key.data = value.data = NULL
    key.length = value.length = 0
    while next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:
            key[0] = field.span
        elif field.number == 2:
            value[0] = field.span
    return not r.bad


cdef int skim_meta(Span body, Meta *meta, Scratch *labels) noexcept nogil:
    """ObjectMeta. Labels are gathered where `labels` is not NULL."""
    cdef Reader r = reader(body)
    cdef Field field
    cdef Span key, value
    cdef Label *label
    while next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:
            meta.object.name = field.span
        elif field.number == 3:
            meta.object.namespace = field.span
        elif field.number == 6:
            meta.version = field.span
            meta.object.version = version_parse(field.span)
        elif field.number == 9:     # deletionTimestamp
            meta.terminating = 1
        elif field.number == 11:
            if not entry(field.span, &key, &value):
                return MALFORMED
            if labels != NULL:
                label = add_label(labels)
                if label == NULL:
                    return NO_MEMORY
                label.key = key
                label.value = value
            if span_is(key, "kubernetes.io/service-name", 26):
                meta.service = value
            elif span_is(key, "multicluster.kubernetes.io/service-name", 39):
                meta.import_service = value
            elif span_is(key, "multicluster.kubernetes.io/source-cluster", 41):
                meta.cluster = value
            elif span_is(key, "topology.kubernetes.io/zone", 27):
                meta.zone = value
        elif field.number == 12:
            if not entry(field.span, &key, &value):
                return MALFORMED
            if span_is(key, "endpoints.kubernetes.io/last-change-trigger-time", 48):
                meta.trigger = value
            elif span_is(key, "k8s.io/initial-events-end", 25):
                meta.initial_end = span_is(value, "true", 4)
    return MALFORMED if r.bad else DECODED


# ---- objects ----

cdef int gather_address(Scratch *scratch, bint external, Span text) noexcept nogil:
    cdef Address *address = add_external_ip(scratch) if external else add_cluster_ip(scratch)
    if address == NULL:
        return NO_MEMORY
    address_set(address, text)
    return DECODED


cdef int skim_port(Span body, int32_t missing, Scratch *scratch) noexcept nogil:
    """ServicePort and EndpointPort agree in the fields used; `missing` is the number of a port without one."""
    cdef Reader r = reader(body)
    cdef Field field
    cdef Port *port = add_port(scratch)
    if port == NULL:
        return NO_MEMORY
    port.number = missing
    while next_field(&r, &field):
        if field.number == 1 and field.wire == 2:
            port.name = field.span
        elif field.number == 2 and field.wire == 2:
            port.protocol = field.span
        elif field.number == 3 and field.wire == 0:
            port.number = <int32_t>field.value
    return MALFORMED if r.bad else DECODED


cdef int skim_ingress(Span balancer, Scratch *scratch) noexcept nogil:
    """LoadBalancerStatus: of each ingress its IP, or its host name when it has no IP."""
    cdef Reader r = reader(balancer)
    cdef Reader ingress
    cdef Field field
    cdef Span ip, hostname
    cdef int status
    while next_field(&r, &field):
        if field.number != 1 or field.wire != 2:
            continue
        ip.length = hostname.length = 0
        ip.data = hostname.data = NULL
        ingress = reader(field.span)
        while next_field(&ingress, &field):
            if field.number == 1 and field.wire == 2:
                ip = field.span
            elif field.number == 2 and field.wire == 2:
                hostname = field.span
        if ingress.bad:
            return MALFORMED
        if ip.length or hostname.length:
            status = gather_address(scratch, True, ip if ip.length else hostname)
            if status != DECODED:
                return status
    return MALFORMED if r.bad else DECODED


cdef int skim_service_spec(Span body, Scratch *scratch, Span *cluster_ip, Span *type) noexcept nogil:
    cdef Reader r = reader(body)
    cdef Field field
    cdef int status = DECODED
    while status == DECODED and next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:
            status = skim_port(field.span, 0, scratch)
        elif field.number == 3:
            cluster_ip[0] = field.span
        elif field.number == 4:
            type[0] = field.span
        elif field.number == 5:
            status = gather_address(scratch, True, field.span)
        elif field.number == 10:
            scratch.service.external_name = field.span
        elif field.number == 18:
            status = gather_address(scratch, False, field.span)
    return MALFORMED if r.bad else status


cdef int skim_service(Span body, Meta *meta, Scratch *scratch) noexcept nogil:
    cdef Reader r = reader(body)
    cdef Reader inner
    cdef Field field
    cdef Span cluster_ip, type, balancers
    cdef int status = DECODED
    cluster_ip.length = type.length = balancers.length = 0
    cluster_ip.data = type.data = balancers.data = NULL
    memset(&scratch.service, 0, sizeof(scratch.service))
    while status == DECODED and next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:
            status = skim_meta(field.span, meta, NULL)
        elif field.number == 2:
            status = skim_service_spec(field.span, scratch, &cluster_ip, &type)
        elif field.number == 3:
            balancers = field.span
    if status == DECODED and not r.bad:     # behind spec.externalIPs, whatever the order of the fields was
        inner = reader(balancers)
        while status == DECODED and next_field(&inner, &field):
            if field.number == 1 and field.wire == 2:
                status = skim_ingress(field.span, scratch)
        r.bad |= inner.bad
    if status != DECODED or r.bad:
        return MALFORMED if r.bad else status
    scratch.service.object = meta.object
    return finish_service(scratch, cluster_ip, type)


cdef int skim_endpoint(Span body, Scratch *scratch) noexcept nogil:
    """Endpoint: adds one element for each address, or none when it is not ready."""
    cdef Reader r = reader(body)
    cdef Reader inner
    cdef Field field
    cdef Endpoint *endpoint
    cdef Endpoint shared
    cdef uint32_t first = scratch.endpoints.count, cut = scratch.cut[<int>CUT_ENDPOINTS], i
    cdef bint ready = True
    memset(&shared, 0, sizeof(Endpoint))
    while next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:
            endpoint = add_endpoint(scratch)
            if endpoint == NULL:
                return NO_MEMORY
            address_set(&endpoint.address, field.span)
        elif field.number == 2:     # conditions
            inner = reader(field.span)
            while next_field(&inner, &field):
                if field.number == 1 and field.wire == 0:
                    ready = field.value != 0
            r.bad |= inner.bad
        elif field.number == 3:
            shared.hostname = field.span
        elif field.number == 4:     # targetRef
            inner = reader(field.span)
            while next_field(&inner, &field):
                if field.number == 3 and field.wire == 2 and field.span.length < POD_NAME_MAX:
                    shared.pod = field.span
            r.bad |= inner.bad
        elif field.number == 6:
            shared.node = field.span
        elif field.number == 7:
            shared.zone = field.span
        elif field.number == 8:
            shared.hints = field.span
    if r.bad:
        return MALFORMED
    if not ready:
        scratch.endpoints.count = first
        scratch.cut[<int>CUT_ENDPOINTS] = cut
        return DECODED
    for i in range(first, scratch.endpoints.count):
        endpoint = <Endpoint *>scratch.endpoints.data + i
        endpoint.hostname = shared.hostname
        endpoint.pod = shared.pod
        endpoint.zone = shared.zone
        endpoint.node = shared.node
        endpoint.hints = shared.hints
    return DECODED


cdef int skim_slice(Span body, Meta *meta, bint imported, Scratch *scratch) noexcept nogil:
    cdef Reader r = reader(body)
    cdef Field field
    cdef int status = DECODED
    memset(&scratch.slice, 0, sizeof(scratch.slice))
    while status == DECODED and next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:
            status = skim_meta(field.span, meta, NULL)
        elif field.number == 2:
            status = skim_endpoint(field.span, scratch)
        elif field.number == 3:
            status = skim_port(field.span, -1, scratch)
    if r.bad or status != DECODED:
        return MALFORMED if r.bad else status
    scratch.slice.object = meta.object
    scratch.slice.service = meta.import_service if imported else meta.service
    scratch.slice.cluster = meta.cluster
    return finish_slice(scratch, meta.trigger)


cdef int skim_pod(Span body, Meta *meta, bint labels, Scratch *scratch) noexcept nogil:
    cdef Reader r = reader(body)
    cdef Reader inner
    cdef Field field
    cdef int status = DECODED
    memset(&scratch.pod, 0, sizeof(scratch.pod))
    while status == DECODED and next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:
            status = skim_meta(field.span, meta, scratch if labels else NULL)
        elif field.number == 2:     # spec
            inner = reader(field.span)
            while next_field(&inner, &field):
                if field.number == 10 and field.wire == 2:
                    scratch.pod.node = field.span
                elif field.number == 11 and field.wire == 0:
                    scratch.pod.host_network = field.value != 0
            r.bad |= inner.bad
        elif field.number == 3:     # status
            inner = reader(field.span)
            while next_field(&inner, &field):
                if field.number == 6 and field.wire == 2:
                    address_set(&scratch.pod.ip, field.span)
            r.bad |= inner.bad
    if r.bad or status != DECODED:
        return MALFORMED if r.bad else status
    scratch.pod.object = meta.object
    scratch.pod.zone = meta.zone
    scratch.pod.terminating = meta.terminating
    return finish_pod(scratch)


cdef int skim_import(Span body, Meta *meta, Scratch *scratch) noexcept nogil:
    """A ServiceImport in the snapshot's form: metadata 1, ports 2, type 3, ips 4."""
    cdef Reader r = reader(body)
    cdef Field field
    cdef Span type
    cdef int status = DECODED
    type.data = NULL
    type.length = 0
    memset(&scratch.imported, 0, sizeof(scratch.imported))
    while status == DECODED and next_field(&r, &field):
        if field.wire != 2:
            continue
        if field.number == 1:
            status = skim_meta(field.span, meta, NULL)
        elif field.number == 2:
            status = skim_port(field.span, 0, scratch)
        elif field.number == 3:
            type = field.span
        elif field.number == 4:
            status = gather_address(scratch, False, field.span)
    if r.bad or status != DECODED:
        return MALFORMED if r.bad else status
    scratch.imported.object = meta.object
    return finish_import(scratch, type)


cdef int skim_object(Kind kind, Span body, bint labels, Scratch *scratch, const Object **object, Span *version) noexcept nogil:
    cdef Meta meta
    cdef Reader r
    cdef Field field
    cdef int status = DECODED
    memset(&meta, 0, sizeof(Meta))
    scratch_begin(scratch)
    if kind == KIND_POD:
        status = skim_pod(body, &meta, labels, scratch)
        object[0] = &scratch.pod.object
    elif kind == KIND_SLICE or kind == KIND_IMPORT_SLICE:
        status = skim_slice(body, &meta, kind == KIND_IMPORT_SLICE, scratch)
        object[0] = &scratch.slice.object
    elif kind == KIND_SERVICE:
        status = skim_service(body, &meta, scratch)
        object[0] = &scratch.service.object
    elif kind == KIND_IMPORT:
        status = skim_import(body, &meta, scratch)
        object[0] = &scratch.imported.object
    else:                           # KIND_NAMESPACE
        r = reader(body)
        while status == DECODED and next_field(&r, &field):
            if field.number == 1 and field.wire == 2:
                status = skim_meta(field.span, &meta, NULL)
        if r.bad:
            status = MALFORMED
        scratch.namespace.object = meta.object
        object[0] = &scratch.namespace.object
    version[0] = meta.version
    if status == MALFORMED:
        (<Object *>object[0])[0] = meta.object
    if status == DECODED and meta.object.name.length == 0:
        return MALFORMED            # every object has a name
    return status
