"""Writing the store: endpoint slices, pods, and the nodes that both name; see _slices.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.plugins.kubernetes.store.addresses cimport (addresses_begin, pod_address_put, pod_address_remove, slice_addresses_put,
                                                         slice_addresses_room)
from fastdns.plugins.kubernetes.store.build cimport build_key, build_label, build_pod, build_slice
from fastdns.plugins.kubernetes.store.find cimport Probe, find_node, node_hash, probe_begin, probe_next
from fastdns.plugins.kubernetes.store.memory cimport (Table, memory_alloc, memory_free, memory_retire, store_pointer, table_insert, table_next,
                                                      table_remove, table_replace)
from fastdns.plugins.kubernetes.store.namespaces cimport (ADDED, CHANGED, NO_MEMORY, REMOVED, UNCHANGED, is_late, keyed_service_node, namespace_node,
                                                          namespace_release, service_release)
from fastdns.plugins.kubernetes.decode.objects cimport KIND_IMPORT_SLICE, KIND_POD, KIND_SLICE, Span
from fastdns.plugins.kubernetes.store.records cimport (LOCAL, EndpointPlace, EndpointRecord, NamespaceNode, NodeRecord, NodeZone, PodRecord, ServiceNode,
                                                       SliceRecord, endpoint_hostname, endpoint_place, pod_address_length, pod_labels, pod_node,
                                                       slice_endpoints, slice_text, tell_address_changed, tell_before, tell_changed,
                                                       tell_pod_changed)

cdef PodRecord blank_pod
cdef NodeRecord blank_node
cdef uint32_t POD_HEAD = <uint32_t>(<uint8_t *>&blank_pod.data - <uint8_t *>&blank_pod)
cdef uint32_t NODE_HEAD = <uint32_t>(<uint8_t *>&blank_node.name - <uint8_t *>&blank_node)


# ---- names of slices and pods ----

cdef uint64_t name_hash(const NamespaceNode *namespace, const char *name, uint32_t length) noexcept nogil:
    cdef uint64_t seed[2]
    seed[0] = namespace.hash
    seed[1] = hash_seed[1]
    return hash_octets(<const uint8_t *>name, length, seed)


cdef uint64_t slice_hash(const void *entry) noexcept nogil:
    cdef const SliceRecord *record = <const SliceRecord *>entry
    return name_hash(record.service.namespace, slice_text(record), record.name_length)


cdef const char *pod_name(const PodRecord *pod) noexcept nogil:
    return <const char *>pod.data + pod_address_length(pod)


cdef uint64_t pod_hash(const void *entry) noexcept nogil:
    cdef const PodRecord *pod = <const PodRecord *>entry
    return name_hash(pod.namespace, pod_name(pod), pod.name_length)


cdef uint64_t node_record_hash(const void *entry) noexcept nogil:
    cdef const NodeRecord *node = <const NodeRecord *>entry
    return node_hash(node.name, node.length)


cdef void slices_begin(Cluster *cluster) noexcept nogil:
    cluster.slices[0].hash = slice_hash
    cluster.slices[1].hash = slice_hash
    cluster.pods.hash = pod_hash
    addresses_begin(cluster)
    cluster.nodes.hash = node_record_hash


cdef SliceRecord *find_slice(Cluster *cluster, int world, Span namespace, Span name) noexcept nogil:
    cdef NamespaceNode *owner = namespace_node(cluster, namespace, False)
    cdef SliceRecord *record
    cdef Probe probe
    if owner == NULL or name.length == 0:
        return NULL
    probe_begin(&probe, &cluster.slices[world], name_hash(owner, name.data, name.length))
    while True:
        record = <SliceRecord *>probe_next(&probe)
        if record == NULL or (record.service.namespace == owner and record.name_length == name.length
                              and memcmp(slice_text(record), name.data, name.length) == 0):
            return record


# ---- what observers hear ----

cdef bint same_endpoint(const SliceRecord *a, const EndpointRecord *one, const SliceRecord *b, const EndpointRecord *other) noexcept nogil:
    """Whether both have the address and the names that a PTR record is made of."""
    cdef uint32_t size = 4 if one.family == 4 else 16
    return (one.family == other.family and one.hostname_length == other.hostname_length and one.pod_length == other.pod_length
            and memcmp(one.ip, other.ip, size) == 0
            and memcmp(slice_text(a) + endpoint_hostname(one), slice_text(b) + endpoint_hostname(other),
                       one.hostname_length + one.pod_length) == 0)


cdef void tell_addresses(Cluster *cluster, const SliceRecord *record, uint32_t first, uint32_t end) noexcept nogil:
    cdef const EndpointRecord *endpoint
    cdef uint32_t i
    for i in range(first, end):
        endpoint = &slice_endpoints(record)[i]
        if endpoint.family:
            tell_address_changed(cluster, endpoint.ip, endpoint.family)


cdef void tell_published(Cluster *cluster, int world, const SliceRecord *record, const SliceRecord *old) noexcept nogil:
    """A record came, in the place of an old one of the service if there is one, or went. Endpoints that both begin or end with are as they were."""
    cdef uint32_t first = 0, behind = 0
    if cluster.observers == NULL:
        return
    tell_changed(cluster, record.service)
    if world != LOCAL:
        return
    if old != NULL:
        while first < min(record.endpoint_count, old.endpoint_count) and same_endpoint(
                record, &slice_endpoints(record)[first], old, &slice_endpoints(old)[first]):
            first += 1
        while behind < min(record.endpoint_count, old.endpoint_count) - first and same_endpoint(
                record, &slice_endpoints(record)[record.endpoint_count - 1 - behind], old, &slice_endpoints(old)[old.endpoint_count - 1 - behind]):
            behind += 1
        tell_addresses(cluster, old, first, old.endpoint_count - behind)
    tell_addresses(cluster, record, first, record.endpoint_count - behind)


# ---- nodes ----

cdef uint32_t node_size(uint32_t length) noexcept nogil:
    return NODE_HEAD + length


cdef NodeRecord *hold_node(Cluster *cluster, const char *name, uint32_t length) noexcept nogil:
    """A reference to a node, which is made if it is not there; NULL when memory ran out."""
    cdef NodeRecord *node = find_node(cluster, name, length)
    if node == NULL:
        node = <NodeRecord *>memory_alloc(&cluster.memory, node_size(length))
        if node == NULL:
            return NULL
        memset(node, 0, NODE_HEAD)
        node.length = <uint8_t>length
        memcpy(node.name, name, length)
        if table_insert(&cluster.nodes, &cluster.memory, node_record_hash(node), node) < 0:
            memory_free(&cluster.memory, node, node_size(length))
            return NULL
    node.references += 1
    return node


cdef void release_node(Cluster *cluster, NodeRecord *node) noexcept nogil:
    node.references -= 1
    if node.references == 0:
        table_remove(&cluster.nodes, node_record_hash(node), node)
        memory_retire(&cluster.memory, node, node_size(node.length))


cdef int hold_nodes(Cluster *cluster, const SliceRecord *record) noexcept nogil:
    """A node's zone is what endpoints on it say: so nobody has to watch nodes. -1 when memory ran out."""
    cdef EndpointPlace place
    cdef NodeRecord *node
    cdef uint32_t i
    for i in range(record.endpoint_count if record.placed else 0):
        endpoint_place(record, &slice_endpoints(record)[i], &place)
        if place.node_length == 0 or place.zone_length == 0:
            continue
        node = hold_node(cluster, place.node, place.node_length)
        if node == NULL:
            release_nodes(cluster, record, i)
            return -1
        node.zoned += 1
        set_zone(cluster, node, &place)
    return 0


cdef void set_zone(Cluster *cluster, NodeRecord *node, const EndpointPlace *place) noexcept nogil:
    """Without memory the zone stays as it is."""
    cdef NodeZone *zone
    cdef NodeZone *old = node.zone
    if old != NULL and old.length == place.zone_length and memcmp(old.text, place.zone, old.length) == 0:
        return
    zone = <NodeZone *>memory_alloc(&cluster.memory, place.zone_length + 1u)
    if zone == NULL:
        return
    zone.length = place.zone_length
    memcpy(zone.text, place.zone, place.zone_length)
    store_pointer(<void **>&node.zone, zone)
    if old != NULL:
        memory_retire(&cluster.memory, old, old.length + 1u)


cdef void release_nodes(Cluster *cluster, const SliceRecord *record, uint32_t endpoints) noexcept nogil:
    """Of the first so many endpoints."""
    cdef EndpointPlace place
    cdef NodeRecord *node
    cdef NodeZone *zone
    cdef uint32_t i
    for i in range(endpoints if record.placed else 0):
        endpoint_place(record, &slice_endpoints(record)[i], &place)
        if place.node_length == 0 or place.zone_length == 0:
            continue
        node = find_node(cluster, place.node, place.node_length)
        node.zoned -= 1
        zone = node.zone
        if node.zoned == 0 and zone != NULL:
            store_pointer(<void **>&node.zone, NULL)
            memory_retire(&cluster.memory, zone, zone.length + 1u)
        release_node(cluster, node)


# ---- the chain of a service ----

cdef SliceRecord **link_of(ServiceNode *node, const SliceRecord *record) noexcept nogil:
    """The pointer that points to a record of the chain."""
    cdef SliceRecord **link = &node.slices
    while link[0] != record:
        link = &link[0].next
    return link


cdef void unlink(Cluster *cluster, int world, SliceRecord *record) noexcept nogil:
    """Takes a record out of its chain and its addresses out of the reverse table; it stays in the table of slices."""
    tell_before(cluster, record.service)
    store_pointer(<void **>link_of(record.service, record), record.next)
    if world == LOCAL:
        slice_addresses_put(cluster, record, True)
        release_nodes(cluster, record, record.endpoint_count)
    tell_published(cluster, world, record, NULL)
    service_release(cluster, record.service)
    memory_retire(&cluster.memory, record, record.size)


cdef EventResult slice_upsert(Cluster *cluster, int world, const Slice *object) noexcept nogil:
    cdef int kind = KIND_SLICE if world == LOCAL else KIND_IMPORT_SLICE
    cdef SliceRecord *old = find_slice(cluster, world, object.object.namespace, object.object.name)
    cdef SliceRecord *made
    cdef ServiceNode *node
    cdef uint8_t key[128]
    cdef uint32_t size, length
    if old != NULL and is_late(cluster, kind, object.object.version, old.version):
        return UNCHANGED
    length = build_key(object.service, object.object.namespace, key)
    made = build_slice(cluster, object, &size) if length else NULL
    if length and made == NULL and size:
        return NO_MEMORY
    if made == NULL:                # of no service (any more)
        if old == NULL:
            return UNCHANGED
        table_remove(&cluster.slices[world], slice_hash(old), old)
        unlink(cluster, world, old)
        return REMOVED
    node = keyed_service_node(cluster, world, key, length, True)
    if node == NULL:
        return NO_MEMORY
    if old != NULL and old.service == node and old.size == size:
        made.next = old.next
        made.service = node
        made.version = old.version
        made.mark = old.mark
        if memcmp(old, made, size) == 0:
            old.version = object.object.version
            old.mark = cluster.generation[<int>kind]
            return UNCHANGED
    return put(cluster, world, kind, object.object.version, node, old, made, size)


cdef EventResult put(Cluster *cluster, int world, int kind, uint64_t version, ServiceNode *node, SliceRecord *old, const SliceRecord *made,
                     uint32_t size) noexcept nogil:
    """Publishes the record in the scratch area in the place of an old one, if there is one."""
    cdef SliceRecord *record = <SliceRecord *>memory_alloc(&cluster.memory, size)
    cdef uint64_t hash
    if record == NULL:
        service_release(cluster, node)
        return NO_MEMORY
    memcpy(record, made, size)
    record.service = node
    record.version = version
    record.mark = cluster.generation[<int>kind]
    record.next = NULL
    hash = slice_hash(record)
    if world == LOCAL and hold_nodes(cluster, record) < 0:
        memory_free(&cluster.memory, record, size)
        service_release(cluster, node)
        return NO_MEMORY
    if (world == LOCAL and slice_addresses_room(cluster, record) < 0) or (
            old == NULL and table_insert(&cluster.slices[world], &cluster.memory, hash, record) < 0):
        if world == LOCAL:
            release_nodes(cluster, record, record.endpoint_count)
        memory_free(&cluster.memory, record, size)
        service_release(cluster, node)
        return NO_MEMORY
    tell_before(cluster, node)
    # New addresses first, so that an address in both records is never missing from the reverse table.
    if world == LOCAL:
        slice_addresses_put(cluster, record, False)
    if old != NULL and old.service == node:
        record.next = old.next
        store_pointer(<void **>link_of(node, old), record)
    else:
        record.next = node.slices
        store_pointer(<void **>&node.slices, record)
    if old == NULL:
        tell_published(cluster, world, record, NULL)
        return ADDED
    table_replace(&cluster.slices[world], hash, old, record)
    if old.service != node:
        tell_published(cluster, world, record, NULL)
        unlink(cluster, world, old)
        return CHANGED
    if world == LOCAL:
        slice_addresses_put(cluster, old, True)
        release_nodes(cluster, old, old.endpoint_count)
    tell_published(cluster, world, record, old)
    memory_retire(&cluster.memory, old, old.size)
    return CHANGED


cdef EventResult slice_remove(Cluster *cluster, int world, const Object *object) noexcept nogil:
    cdef SliceRecord *old = find_slice(cluster, world, object.namespace, object.name)
    if old == NULL or is_late(cluster, KIND_SLICE if world == LOCAL else KIND_IMPORT_SLICE, object.version, old.version):
        return UNCHANGED
    table_remove(&cluster.slices[world], slice_hash(old), old)
    unlink(cluster, world, old)
    return REMOVED


cdef uint32_t slice_sweep(Cluster *cluster, int world) noexcept nogil:
    cdef Table *table = &cluster.slices[world]
    cdef uint16_t mark = cluster.generation[<int>KIND_SLICE if world == LOCAL else <int>KIND_IMPORT_SLICE]
    cdef uint32_t place = 0, gone = 0
    cdef SliceRecord *record = <SliceRecord *>table_next(table, &place)
    while record != NULL:
        if record.mark != mark:
            table_remove(table, slice_hash(record), record)
            unlink(cluster, world, record)
            gone += 1
        record = <SliceRecord *>table_next(table, &place)
    return gone


# ---- pods ----

cdef uint32_t pod_size(const PodRecord *pod) noexcept nogil:
    return POD_HEAD + pod_address_length(pod) + pod.name_length + pod.labels_length + pod.placed * <uint32_t>sizeof(NodeRecord *) + pod.zone_length


cdef PodRecord *find_named_pod(Cluster *cluster, Span namespace, Span name) noexcept nogil:
    cdef NamespaceNode *owner = namespace_node(cluster, namespace, False)
    cdef PodRecord *pod
    cdef Probe probe
    if owner == NULL or name.length == 0:
        return NULL
    probe_begin(&probe, &cluster.pods, name_hash(owner, name.data, name.length))
    while True:
        pod = <PodRecord *>probe_next(&probe)
        if pod == NULL or (pod.namespace == owner and pod.name_length == name.length
                           and memcmp(pod_name(pod), name.data, name.length) == 0):
            return pod


cdef EventResult pod_upsert(Cluster *cluster, const Pod *object) noexcept nogil:
    cdef PodRecord *old = find_named_pod(cluster, object.object.namespace, object.object.name)
    cdef PodRecord *made
    cdef PodRecord *pod
    cdef NamespaceNode *owner
    cdef NodeRecord *node = NULL
    cdef uint8_t label[64]
    cdef uint32_t size
    if old != NULL and is_late(cluster, KIND_POD, object.object.version, old.version):
        return UNCHANGED
    if object.terminating or build_label(object.object.namespace, label) == 0:
        if old != NULL:
            old.mark = cluster.generation[<int>KIND_POD]
        return UNCHANGED
    made = build_pod(cluster, object, &size)
    if made == NULL:
        return NO_MEMORY if size else pod_remove(cluster, &object.object)
    if made.placed:
        node = hold_node(cluster, object.node.data, object.node.length)
        if node == NULL:
            return NO_MEMORY
        memcpy(pod_labels(made) + made.labels_length, &node, sizeof(node))
    if (old != NULL and old.family == made.family and old.labels_length == made.labels_length and old.host_network == made.host_network
            and old.placed == made.placed and old.zone_length == made.zone_length
            and memcmp(old.data, made.data, pod_size(made) - POD_HEAD) == 0):
        if made.placed:
            release_node(cluster, node)
        old.version = object.object.version
        old.mark = cluster.generation[<int>KIND_POD]
        return UNCHANGED
    owner = namespace_node(cluster, object.object.namespace, True)
    pod = <PodRecord *>memory_alloc(&cluster.memory, size) if owner != NULL else NULL
    if pod == NULL:
        if owner != NULL:
            namespace_release(cluster, owner)
        if made.placed:
            release_node(cluster, node)
        return NO_MEMORY
    memcpy(pod, made, size)
    pod.namespace = owner
    pod.version = object.object.version
    pod.mark = cluster.generation[<int>KIND_POD]
    if pod_address_put(cluster, pod) < 0 or old == NULL and table_insert(&cluster.pods, &cluster.memory, pod_hash(pod), pod) < 0:
        if pod_address_remove(cluster, pod):
            memory_retire(&cluster.memory, pod, size)
        else:
            memory_free(&cluster.memory, pod, size)
        namespace_release(cluster, owner)
        if made.placed:
            release_node(cluster, node)
        return NO_MEMORY
    owner.references += 1
    if old != NULL:
        table_replace(&cluster.pods, pod_hash(pod), old, pod)
        forget(cluster, old)
    tell_pod_changed(cluster, pod, False)
    return ADDED if old == NULL else CHANGED


cdef void forget(Cluster *cluster, PodRecord *pod) noexcept nogil:
    """A pod that is no longer in the table of pods."""
    tell_pod_changed(cluster, pod, True)
    pod_address_remove(cluster, pod)
    pod.namespace.references -= 1
    namespace_release(cluster, pod.namespace)
    if pod.placed:
        release_node(cluster, pod_node(pod))
    memory_retire(&cluster.memory, pod, pod_size(pod))


cdef EventResult pod_remove(Cluster *cluster, const Object *object) noexcept nogil:
    cdef PodRecord *old = find_named_pod(cluster, object.namespace, object.name)
    if old == NULL or is_late(cluster, KIND_POD, object.version, old.version):
        return UNCHANGED
    table_remove(&cluster.pods, pod_hash(old), old)
    forget(cluster, old)
    return REMOVED


cdef uint32_t pod_sweep(Cluster *cluster) noexcept nogil:
    cdef uint32_t place = 0, gone = 0
    cdef PodRecord *pod = <PodRecord *>table_next(&cluster.pods, &place)
    while pod != NULL:
        if pod.mark != cluster.generation[<int>KIND_POD]:
            table_remove(&cluster.pods, pod_hash(pod), pod)
            forget(cluster, pod)
            gone += 1
        pod = <PodRecord *>table_next(&cluster.pods, &place)
    return gone


cdef void slices_end(Cluster *cluster) noexcept nogil:
    cdef SliceRecord *record
    cdef PodRecord *pod
    cdef NodeRecord *node
    cdef int world
    cdef uint32_t place
    for world in range(2):
        place = 0
        record = <SliceRecord *>table_next(&cluster.slices[world], &place)
        while record != NULL:
            memory_free(&cluster.memory, record, record.size)
            record = <SliceRecord *>table_next(&cluster.slices[world], &place)
    place = 0
    pod = <PodRecord *>table_next(&cluster.pods, &place)
    while pod != NULL:
        memory_free(&cluster.memory, pod, pod_size(pod))
        pod = <PodRecord *>table_next(&cluster.pods, &place)
    place = 0
    node = <NodeRecord *>table_next(&cluster.nodes, &place)
    while node != NULL:
        if node.zone != NULL:
            memory_free(&cluster.memory, node.zone, node.zone.length + 1u)
        memory_free(&cluster.memory, node, node_size(node.length))
        node = <NodeRecord *>table_next(&cluster.nodes, &place)
