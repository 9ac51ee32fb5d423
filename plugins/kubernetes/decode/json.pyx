"""From msgspec's models to the structs of _objects.pxd; see _json.pxd."""
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memset

from fastdns.plugins.kubernetes.decode.fields cimport (DECODED, MALFORMED, NO_MEMORY, POD_NAME_MAX, add_cluster_ip, add_endpoint,
                                                       add_external_ip, add_label, add_port, address_set, finish_import, finish_pod,
                                                       finish_service, finish_slice, scratch_begin, version_parse)
from fastdns.plugins.kubernetes.decode.objects cimport (KIND_IMPORT, KIND_IMPORT_SLICE, KIND_POD, KIND_SERVICE, KIND_SLICE, Address, Endpoint, Label,
                                                        Port, Span)


cdef enum:
    NO_PORT = -2                    # for a number that is none


cdef Span text(object value) except *:
    """A text of a model, or nothing for None."""
    cdef Span span
    cdef Py_ssize_t length = 0
    span.data = NULL
    span.length = 0
    if value is not None:
        span.data = PyUnicode_AsUTF8AndSize(value, &length)
        span.length = <unsigned int>length
    return span


cdef Span looked_up(object mapping, str key) except *:
    return text(mapping.get(key) if mapping is not None else None)


cdef bytes hints_of(object hints):
    """EndpointHints in protobuf; names that are too long for lengths of one octet are left out."""
    cdef bytes made = b""
    for tag, named in ((b"\n", hints.for_zones), (b"\x12", hints.for_nodes)):
        for hint in named or ():
            name = (hint.name or "").encode()
            if len(name) <= 125:
                made += tag + bytes((len(name) + 2, 10, len(name))) + name
    return made


cdef int fill_meta(object meta, Object *object) except -1:
    object.namespace = text(meta.namespace)
    object.name = text(meta.name)
    object.version = version_parse(text(meta.resource_version))
    return 0


cdef int fill_addresses(object texts, bint external, Scratch *scratch) except -3:
    cdef Address *address
    for value in texts or ():
        address = add_external_ip(scratch) if external else add_cluster_ip(scratch)
        if address == NULL:
            return NO_MEMORY
        address_set(address, text(value))
    return DECODED


cdef int fill_ports(object ports, int missing, Scratch *scratch) except -3:
    cdef Port *port
    for model in ports or ():
        port = add_port(scratch)
        if port == NULL:
            return NO_MEMORY
        port.name = text(model.name)
        port.protocol = text(model.protocol)
        port.number = missing
        if model.port is not None:
            port.number = model.port if -1 <= model.port <= 65535 else NO_PORT
    return DECODED


cdef int fill_service(object model, Scratch *scratch) except -3:
    cdef Span cluster_ip = text(None), type = text(None)
    cdef int status
    memset(&scratch.service, 0, sizeof(scratch.service))
    fill_meta(model.metadata, &scratch.service.object)
    spec = model.spec
    if spec is not None:
        cluster_ip = text(spec.cluster_ip)
        type = text(spec.type)
        scratch.service.external_name = text(spec.external_name)
        status = fill_addresses(spec.cluster_ips, False, scratch)
        if status == DECODED:
            status = fill_addresses(spec.external_ips, True, scratch)
        if status == DECODED:
            status = fill_ports(spec.ports, 0, scratch)
        if status != DECODED:
            return status
    if model.status is not None and model.status.load_balancer is not None:
        texts = [ingress.ip or ingress.hostname for ingress in model.status.load_balancer.ingress or ()]
        status = fill_addresses([value for value in texts if value], True, scratch)
        if status != DECODED:
            return status
    return finish_service(scratch, cluster_ip, type)


cdef int fill_slice(object model, bint imported, Scratch *scratch) except -3:
    cdef Endpoint *endpoint
    cdef Span hostname, pod, zone, node, hints
    cdef int status
    memset(&scratch.slice, 0, sizeof(scratch.slice))
    meta = model.metadata
    fill_meta(meta, &scratch.slice.object)
    scratch.slice.service = looked_up(meta.labels, "multicluster.kubernetes.io/service-name" if imported else "kubernetes.io/service-name")
    scratch.slice.cluster = looked_up(meta.labels, "multicluster.kubernetes.io/source-cluster")
    for point in model.endpoints or ():
        if point.conditions is not None and point.conditions.ready is False:
            continue
        hostname = text(point.hostname)
        zone = text(point.zone)
        node = text(point.node)
        hints = text(None)
        if point.hints is not None:
            if not isinstance(point.hints, bytes):
                point.hints = hints_of(point.hints)     # it lives as long as the model
            hints.data = <const char *><bytes>point.hints
            hints.length = <unsigned int>len(point.hints)
        pod = text(point.target_ref.name if point.target_ref is not None else None)
        if pod.length >= POD_NAME_MAX:
            pod.length = 0
        for value in point.addresses or ():
            endpoint = add_endpoint(scratch)
            if endpoint == NULL:
                return NO_MEMORY
            address_set(&endpoint.address, text(value))
            endpoint.hostname = hostname
            endpoint.pod = pod
            endpoint.zone = zone
            endpoint.node = node
            endpoint.hints = hints
    status = fill_ports(model.ports, -1, scratch)
    if status != DECODED:
        return status
    return finish_slice(scratch, looked_up(meta.annotations, "endpoints.kubernetes.io/last-change-trigger-time"))


cdef int fill_pod(object model, bint labels, Scratch *scratch) except -3:
    cdef Label *label
    memset(&scratch.pod, 0, sizeof(scratch.pod))
    fill_meta(model.metadata, &scratch.pod.object)
    scratch.pod.terminating = model.metadata.deletion_timestamp is not None
    scratch.pod.host_network = model.spec is not None and model.spec.host_network is True
    scratch.pod.node = text(model.spec.node if model.spec is not None else None)
    scratch.pod.zone = looked_up(model.metadata.labels, "topology.kubernetes.io/zone")
    address_set(&scratch.pod.ip, text(model.status.pod_ip if model.status is not None else None))
    if labels and model.metadata.labels is not None:
        for key, value in model.metadata.labels.items():
            label = add_label(scratch)
            if label == NULL:
                return NO_MEMORY
            label.key = text(key)
            label.value = text(value)
    return finish_pod(scratch)


cdef int fill_import(object model, Scratch *scratch) except -3:
    cdef int status
    memset(&scratch.imported, 0, sizeof(scratch.imported))
    fill_meta(model.metadata, &scratch.imported.object)
    if model.spec is None:
        return finish_import(scratch, text(None))
    status = fill_addresses(model.spec.ips, False, scratch)
    if status == DECODED:
        status = fill_ports(model.spec.ports, 0, scratch)
    if status != DECODED:
        return status
    return finish_import(scratch, text(model.spec.type))


cdef int fill_object(Kind kind, object model, bint labels, Scratch *scratch, const Object **object) except? -3:
    cdef int status = DECODED
    scratch_begin(scratch)
    if kind == KIND_SERVICE:
        status = fill_service(model, scratch)
        object[0] = &scratch.service.object
    elif kind == KIND_SLICE or kind == KIND_IMPORT_SLICE:
        status = fill_slice(model, kind == KIND_IMPORT_SLICE, scratch)
        object[0] = &scratch.slice.object
    elif kind == KIND_POD:
        status = fill_pod(model, labels, scratch)
        object[0] = &scratch.pod.object
    elif kind == KIND_IMPORT:
        status = fill_import(model, scratch)
        object[0] = &scratch.imported.object
    else:
        fill_meta(model.metadata, &scratch.namespace.object)
        object[0] = &scratch.namespace.object
    if status == DECODED and object[0].name.length == 0:
        return MALFORMED
    return status
