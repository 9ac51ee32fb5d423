"""How one server block sees a store; see _view.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from fastdns.api.wire cimport octets_equal
from fastdns.plugins.kubernetes.store.find cimport (Probe, address_hash, find_namespace, find_service_hashed, next_pod, probe_begin,
                                                    probe_next, service_key_hash)
from fastdns.plugins.kubernetes.store.memory cimport load_count, load_pointer
from fastdns.plugins.kubernetes.answer.name cimport (EVERYWHERE, FORM_APEX, FORM_EMPTY, FORM_NAMESPACE, FORM_POD, FORM_SERVERS, FORM_SERVICE, NEAR, PIN,
                                                     Label, label_is, name_address, name_is_reverse, name_pod, name_port)
from fastdns.plugins.kubernetes.store.records cimport (HINT_NODE, HINT_ZONE, IMPORTED, LOCAL, EndpointPlace, NodeRecord, NodeZone, PodRecord, PortRecord,
                                                       SERVICE_ALIAS, SERVICE_EXTERNAL, SERVICE_HEADLESS, endpoint_hostname, endpoint_place,
                                                       node_service, node_slices, pod_node, pod_zone, service_ports, service_text, slice_cluster,
                                                       slice_endpoints, slice_next, slice_ports, slice_text)


cdef bint view_exposes(const View *view, const NamespaceNode *node) noexcept nogil:
    return node != NULL and load_count(&node.present) and view_names(view, node)


cdef bint view_names(const View *view, const NamespaceNode *node) noexcept nogil:
    cdef uint32_t i
    if view.namespace_count == 0:
        return True
    for i in range(view.namespace_count):
        if memcmp(view.namespaces + 64 * i, node.label, node.length) == 0:
            return True
    return False


# ---- names to objects ----

cdef void view_resolve(const View *view, int zone_flags, const Name *name, const Wanted *wanted, uint64_t key_hash, Result *result) noexcept nogil:
    result.found = FOUND_NOTHING
    result.entries = 0
    result.anywhere = 0
    result.pinned = 0
    if wanted.form == FORM_SERVICE:
        if not (zone_flags & (ZONE_REVERSE | ZONE_OBJECTS) and (zone_flags & ZONE_OBJECTS or name_is_reverse(name))):
            resolve_service(view, IMPORTED if zone_flags & ZONE_IMPORTED else LOCAL, wanted, key_hash, result)
    elif wanted.form == FORM_APEX or wanted.form == FORM_EMPTY:
        result.found = FOUND_EMPTY
    elif wanted.form == FORM_SERVERS:
        result.found = FOUND_SERVERS
    elif zone_flags & ZONE_OBJECTS or (zone_flags & ZONE_REVERSE and name_is_reverse(name)):
        return
    elif wanted.form == FORM_NAMESPACE:
        if view_exposes(view, find_namespace(view.cluster, wanted.namespace)) and not (wanted.pods and view.pods == PODS_DISABLED):
            result.found = FOUND_EMPTY
    elif wanted.form == FORM_POD:
        resolve_pod(view, wanted, result)


cdef void resolve_service(const View *view, int world, const Wanted *wanted, uint64_t key_hash, Result *result) noexcept nogil:
    cdef uint64_t hash = key_hash if key_hash else service_key_hash(wanted.service, wanted.key_length)
    cdef ServiceNode *node = find_service_hashed(view.cluster, world, wanted.service, wanted.key_length, hash)
    cdef ServiceRecord *record = node_service(node) if node != NULL else NULL
    if record == NULL or not view_exposes(view, node.namespace):
        return
    result.node = node
    result.record = record
    if wanted.direction != EVERYWHERE:
        if record.flags & SERVICE_HEADLESS and not view.no_endpoints:
            result.found = FOUND_ENDPOINTS
            if wanted.direction == PIN:
                result.pinned = 1
            elif walk_count(view, wanted, result, 1, True) == 0:
                result.anywhere = 1
        return
    if view.ignore_empty and record.flags & (SERVICE_HEADLESS | SERVICE_EXTERNAL) == 0 and not has_endpoints(view, node):
        return
    if record.flags & SERVICE_EXTERNAL:
        if record.flags & SERVICE_ALIAS and not wanted.by_endpoint and wanted.port.length == 0 and wanted.protocol.length == 0:
            result.found = FOUND_ALIAS
    elif record.flags & SERVICE_HEADLESS or wanted.by_endpoint:
        if not view.no_endpoints:
            result.found = FOUND_ENDPOINTS
    else:
        resolve_ports(wanted, result)


cdef void resolve_ports(const Wanted *wanted, Result *result) noexcept nogil:
    cdef const ServiceRecord *record = result.record
    cdef uint32_t i, ports = record.port_count
    if wanted.by_port:
        ports = 0
        for i in range(record.port_count):
            ports += port_matches(wanted, &service_ports(record)[i], service_text(record))
    if ports:
        result.found = FOUND_CLUSTER_IP
        result.entries = ports * record.address_count


cdef bint port_matches(const Wanted *wanted, const PortRecord *port, const char *text) noexcept nogil:
    return name_port(wanted, text + port.text, port.name_length, port.protocol_length)


cdef bint has_endpoints(const View *view, const ServiceNode *node) noexcept nogil:
    cdef const SliceRecord *slice = NULL if view.no_endpoints else node_slices(node)
    while slice != NULL:
        if slice.endpoint_count:
            return True
        slice = slice_next(slice)
    return False


cdef void resolve_pod(const View *view, const Wanted *wanted, Result *result) noexcept nogil:
    cdef Probe probe
    cdef PodRecord *pod
    cdef bint exact = False
    cdef uint32_t size
    if view.pods == PODS_DISABLED or not view_exposes(view, find_namespace(view.cluster, wanted.namespace)):
        return
    result.family = name_pod(wanted.service + 1, wanted.service[0], result.ip, &exact)
    if result.family == 0:
        return
    if view.pods == PODS_INSECURE:
        result.entries = 1
        result.found = FOUND_POD
        return
    if not exact:                   # CoreDNS compares texts
        return
    size = 4 if result.family == 4 else 16
    probe_begin(&probe, &view.cluster.pod_addresses, address_hash(result.ip, result.family))
    while True:
        pod = <PodRecord *>probe_next(&probe)
        if pod == NULL:
            return
        if pod.family == result.family and memcmp(pod.data, result.ip, size) == 0 and (
                memcmp(pod.namespace.label, wanted.namespace, wanted.namespace[0] + 1) == 0):
            result.entries += 1
            result.found = FOUND_POD


# ---- endpoints ----

cdef void walk_begin(Walk *walk, const View *view, const Wanted *wanted, const Result *result) noexcept nogil:
    walk.view = view
    walk.wanted = wanted
    walk.result = result
    walk.slice = node_slices(result.node)
    walk.next = 0
    walk.ports = 0


cdef void match_ports(Walk *walk) noexcept nogil:
    """Finds the ports of the slice that match: none where the slice is of another cluster."""
    cdef const SliceRecord *slice = walk.slice
    cdef uint32_t i
    walk.ports = walk.first = walk.end = 0
    if walk.wanted.by_endpoint and cluster_differs(walk.wanted, slice):
        return
    if not walk.wanted.by_port:
        walk.ports = walk.end = slice.port_count
        return
    for i in range(slice.port_count):
        if port_matches(walk.wanted, &slice_ports(slice)[i], slice_text(slice)):
            walk.first = walk.first if walk.ports else i
            walk.end = i + 1
            walk.ports += 1


cdef bint cluster_differs(const Wanted *wanted, const SliceRecord *slice) noexcept nogil:
    """Only imported services have endpoints of several clusters."""
    return slice.service.world == IMPORTED and not label_is(&wanted.cluster, slice_cluster(slice), slice.cluster_length)


cdef bint walk_next(Walk *walk) noexcept nogil:
    cdef const EndpointRecord *endpoint
    while walk.slice != NULL:
        if walk.next == 0:
            match_ports(walk)
            walk.text = slice_text(walk.slice)
        while walk.ports and walk.next < walk.slice.endpoint_count:
            endpoint = &slice_endpoints(walk.slice)[walk.next]
            walk.next += 1
            if endpoint_matches(walk, endpoint):
                walk.endpoint = endpoint
                return True
        walk.slice = slice_next(walk.slice)
        walk.next = 0
    return False


cdef bint endpoint_matches(const Walk *walk, const EndpointRecord *endpoint) noexcept nogil:
    cdef const Wanted *wanted = walk.wanted
    cdef const char *text
    cdef Label label
    if wanted.by_endpoint:
        text = walk.text + endpoint_hostname(endpoint)
        if endpoint.hostname_length:
            return label_is(&wanted.endpoint, text, endpoint.hostname_length)
        if walk.view.pod_names and endpoint.pod_length:
            return label_is(&wanted.endpoint, text, endpoint.pod_length)
        if endpoint.family:
            return wanted.endpoint_family == endpoint.family and memcmp(wanted.endpoint_ip, endpoint.ip, 4 if endpoint.family == 4 else 16) == 0
        return False
    if wanted.direction == NEAR:
        return is_near(walk, wanted.near, endpoint)
    if wanted.direction != EVERYWHERE and not walk.result.anywhere:
        text = walk.text + endpoint_hostname(endpoint) + endpoint.hostname_length + endpoint.pod_length
        label.text = <const uint8_t *>wanted.topology
        label.length = wanted.topology_length
        return endpoint.zone_length > 0 and label_is(&label, text, endpoint.zone_length)
    return True


cdef uint32_t walk_count(const View *view, const Wanted *wanted, const Result *result, uint32_t limit, bint hosts) noexcept nogil:
    cdef Walk walk
    cdef uint32_t count = 0
    walk_begin(&walk, view, wanted, result)
    while count < limit and walk_next(&walk):
        if hosts or walk.endpoint.family:
            count += walk.ports
    return count


cdef uint32_t endpoint_label(const View *view, const SliceRecord *slice, const EndpointRecord *endpoint, char *out) noexcept nogil:
    cdef const char *text = slice_text(slice) + endpoint_hostname(endpoint)
    cdef uint32_t length = endpoint.hostname_length
    if length == 0 and view.pod_names:
        length = endpoint.pod_length
    if length:
        memcpy(out, text, length)
        return length
    if endpoint.family:
        return name_address(endpoint.ip, endpoint.family, out)
    length = min(<uint32_t>endpoint.ip[0], <uint32_t>63)        # an FQDN: its dots become dashes like those of an address
    memcpy(out, text - endpoint.ip[0], length)
    dash(out, length)
    return length


cdef void dash(char *text, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(length):
        if text[i] == c'.':
            text[i] = c'-'


# ---- endpoints near a client ----

cdef void near_begin(const View *view, const Address *client, Wanted *wanted, Near *near) noexcept nogil:
    near.outcome = NEAR_UNKNOWN
    if not locate(view, client, near):
        return
    near.by_node = view.near & NEAR_NODE
    if near.by_node or near.zone_length:
        near.outcome = NEAR_ON_NODE if near.by_node else NEAR_IN_ZONE
        wanted.near = near
        wanted.direction = NEAR


cdef bint near_widen(const View *view, Wanted *wanted, Result *result, Near *near) noexcept nogil:
    if wanted.direction != NEAR:
        return False
    if near.by_node and view.near & NEAR_ZONE and near.zone_length:
        near.by_node = 0
        near.outcome = NEAR_IN_ZONE
        return True
    wanted.direction = EVERYWHERE
    near.outcome = NEAR_UNKNOWN if view.near & NEAR_ZONE and near.zone_length == 0 else NEAR_ELSEWHERE
    if near.outcome == NEAR_ELSEWHERE and view.near & NEAR_ONLY and walk_count(view, wanted, result, 1, True):
        near.outcome = NEAR_NOWHERE
        result.pinned = 1
        return False
    return True


cdef bint locate(const View *view, const Address *client, Near *near) noexcept nogil:
    """The node of all pods that have the client's address: two nodes' while an address goes from one to another, and then nobody knows."""
    cdef const PodRecord *pod
    cdef const PodRecord *other
    cdef const NodeRecord *node
    cdef const NodeZone *zone
    cdef Probe probe
    probe_begin(&probe, &view.cluster.pod_addresses, address_hash(client.octets, client.family))
    pod = next_pod(&probe, client.octets, client.family)
    if pod == NULL or not pod.placed:
        return False
    node = pod_node(pod)
    while True:
        other = next_pod(&probe, client.octets, client.family)
        if other == NULL:
            break
        if not other.placed or pod_node(other) != node:
            return False
    near.node = node
    near.zone_length = pod.zone_length
    if pod.zone_length:
        near.zone = pod_zone(pod)
        return True
    zone = <const NodeZone *>load_pointer(<void **>&node.zone)
    if zone != NULL:
        near.zone = zone.text
        near.zone_length = zone.length
    return True


cdef bint is_near(const Walk *walk, const Near *near, const EndpointRecord *endpoint) noexcept nogil:
    """By its hints, where it has some of the kind (they are for whom it is), else by where it is."""
    if walk.slice.hinted or near.by_node:
        return walk.slice.placed and is_placed(near, walk.slice, endpoint)
    return endpoint.zone_length == near.zone_length and octets_equal(
        <const uint8_t *>walk.text + endpoint_hostname(endpoint) + endpoint.hostname_length + endpoint.pod_length, <const uint8_t *>near.zone, near.zone_length)


cdef bint is_placed(const Near *near, const SliceRecord *slice, const EndpointRecord *endpoint) noexcept nogil:
    cdef const uint8_t *wanted = <const uint8_t *>near.node.name if near.by_node else <const uint8_t *>near.zone
    cdef uint32_t length = near.node.length if near.by_node else near.zone_length
    cdef uint8_t tag = HINT_NODE if near.by_node else HINT_ZONE
    cdef const uint8_t *hint
    cdef EndpointPlace place
    cdef bint hinted = False
    endpoint_place(slice, endpoint, &place)
    hint = place.hints
    while hint < place.hints + place.hints_length:
        if hint[0] == tag:
            hinted = True
            if hint[3] == length and octets_equal(hint + 4, wanted, length):
                return True
        hint += hint[1] + 2
    if hinted:
        return False
    if near.by_node:
        return place.node_length == length and octets_equal(<const uint8_t *>place.node, wanted, length)
    return place.zone_length == length and octets_equal(<const uint8_t *>place.zone, wanted, length)
