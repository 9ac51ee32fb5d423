"""Writing the store: namespaces, services and service imports; see _nodes.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.plugins.kubernetes.store.build cimport build_import, build_key, build_label, build_service, external_alike, service_alike
from fastdns.plugins.kubernetes.store.find cimport address_hash, find_namespace, find_service, service_has_external
from fastdns.plugins.kubernetes.store.memory cimport (Slots, Table, lines, load_count, memory_alloc, memory_free, memory_retire, slots_new, slots_put,
                                                      store_count, store_pointer, table_insert, table_next, table_publish, table_remove, table_room)
from fastdns.plugins.kubernetes.decode.objects cimport KIND_IMPORT, KIND_NAMESPACE, KIND_SERVICE, Import, Namespace, Object, Service, Span
from fastdns.plugins.kubernetes.store.records cimport (IMPORTED, LOCAL, AddressRecord, Cluster, NamespaceNode, Observer, ServiceNode, ServiceRecord,
                                                       SliceRecord, node_slices, service_externals, service_ip4, service_ip6, slice_endpoints,
                                                       slice_next, tell_address_changed, tell_before, tell_changed, tell_namespace_changed)


cdef uint64_t namespace_hash(const void *entry) noexcept nogil:
    return (<const NamespaceNode *>entry).hash


cdef uint64_t service_hash(const void *entry) noexcept nogil:
    cdef const ServiceNode *node = <const ServiceNode *>entry
    return hash_octets(node.key, node.length, hash_seed)


cdef void nodes_begin(Cluster *cluster) noexcept nogil:
    cluster.namespaces.hash = namespace_hash
    cluster.services[LOCAL].hash = service_hash
    cluster.services[IMPORTED].hash = service_hash


# ---- namespaces ----

cdef NamespaceNode blank_namespace
cdef ServiceNode blank_service
cdef uint32_t NAMESPACE_HEAD = <uint32_t>(<uint8_t *>&blank_namespace.label - <uint8_t *>&blank_namespace)
cdef uint32_t SERVICE_HEAD = <uint32_t>(<uint8_t *>&blank_service.key - <uint8_t *>&blank_service)


cdef uint32_t namespace_size(uint32_t length) noexcept nogil:
    return NAMESPACE_HEAD + length


cdef NamespaceNode *namespace_node(Cluster *cluster, Span name, bint make) noexcept nogil:
    cdef uint8_t label[64]
    return labelled_namespace(cluster, label, make) if build_label(name, label) else NULL


cdef NamespaceNode *labelled_namespace(Cluster *cluster, const uint8_t *label, bint make) noexcept nogil:
    cdef NamespaceNode *node = find_namespace(cluster, label)
    cdef uint32_t length = <uint32_t>label[0] + 1
    if node != NULL or not make:
        return node
    node = <NamespaceNode *>memory_alloc(&cluster.memory, namespace_size(length))
    if node == NULL:
        return NULL
    memset(node, 0, NAMESPACE_HEAD)
    node.length = <uint8_t>length
    memcpy(node.label, label, length)
    node.hash = hash_octets(label, length, hash_seed)
    if table_insert(&cluster.namespaces, &cluster.memory, node.hash, node) < 0:
        memory_free(&cluster.memory, node, namespace_size(length))
        return NULL
    return node


cdef void namespace_release(Cluster *cluster, NamespaceNode *node) noexcept nogil:
    if node.references == 0 and not node.present:
        table_remove(&cluster.namespaces, node.hash, node)
        memory_retire(&cluster.memory, node, namespace_size(node.length))


cdef EventResult namespace_upsert(Cluster *cluster, const Namespace *object) noexcept nogil:
    cdef NamespaceNode *node = namespace_node(cluster, object.object.name, True)
    cdef uint8_t label[64]
    if node == NULL:
        return NO_MEMORY if build_label(object.object.name, label) else UNCHANGED
    if node.present and is_late(cluster, KIND_NAMESPACE, object.object.version, node.version):
        return UNCHANGED
    node.version = object.object.version
    node.mark = cluster.generation[<int>KIND_NAMESPACE]
    if node.present:
        return UNCHANGED
    tell_of_services(cluster, node, True)
    store_count(&node.present, 1)
    tell_namespace_changed(cluster, node)
    tell_of_services(cluster, node, False)
    return ADDED


cdef void tell_of_services(const Cluster *cluster, const NamespaceNode *namespace, bint before) noexcept nogil:
    """Services come and go with their namespace."""
    cdef const ServiceNode *node
    cdef uint32_t place
    cdef int world
    if namespace.references == 0 or not is_wanted(cluster, before):
        return
    for world in range(2):
        place = 0
        node = <const ServiceNode *>table_next(&cluster.services[world], &place)
        while node != NULL:
            if node.namespace == namespace and before:
                tell_before(cluster, node)
            elif node.namespace == namespace:
                tell_changed(cluster, node)
                if world == LOCAL:
                    tell_addresses(cluster, node)
            node = <const ServiceNode *>table_next(&cluster.services[world], &place)


cdef bint is_wanted(const Cluster *cluster, bint before) noexcept nogil:
    """Whether an observer hears of services. What came with the first list of namespaces has not been answered from yet."""
    cdef const Observer *observer = cluster.observers
    cdef bint listed = load_count(&cluster.synced) & (1 << <int>KIND_NAMESPACE) != 0
    while observer != NULL:
        if before and observer.changes != NULL or not before and listed and observer.changed != NULL:
            return True
        observer = observer.next
    return False


cdef void tell_addresses(const Cluster *cluster, const ServiceNode *node) noexcept nogil:
    cdef const SliceRecord *slice = node_slices(node)
    cdef const uint8_t *ip
    cdef uint8_t family
    cdef uint32_t i
    cdef int side
    if node.record != NULL:
        for side in range(2):
            for i in range(address_count(node.record, <Side>side)):
                ip = address_at(node.record, <Side>side, i, &family)
                if ip != NULL:
                    tell_address_changed(cluster, ip, family)
    while slice != NULL:
        for i in range(slice.endpoint_count):
            if slice_endpoints(slice)[i].family:
                tell_address_changed(cluster, slice_endpoints(slice)[i].ip, slice_endpoints(slice)[i].family)
        slice = slice_next(slice)


cdef void namespace_drop(Cluster *cluster, NamespaceNode *node) noexcept nogil:
    tell_of_services(cluster, node, True)
    store_count(&node.present, 0)
    tell_namespace_changed(cluster, node)
    tell_of_services(cluster, node, False)
    namespace_release(cluster, node)


cdef EventResult namespace_remove(Cluster *cluster, const Object *object) noexcept nogil:
    cdef NamespaceNode *node = namespace_node(cluster, object.name, False)
    if node == NULL or not node.present or is_late(cluster, KIND_NAMESPACE, object.version, node.version):
        return UNCHANGED
    namespace_drop(cluster, node)
    return REMOVED


cdef uint32_t namespace_sweep(Cluster *cluster) noexcept nogil:
    cdef uint32_t place = 0, gone = 0
    cdef NamespaceNode *node = <NamespaceNode *>table_next(&cluster.namespaces, &place)
    while node != NULL:
        if node.present and node.mark != cluster.generation[<int>KIND_NAMESPACE]:
            namespace_drop(cluster, node)
            gone += 1
        node = <NamespaceNode *>table_next(&cluster.namespaces, &place)
    return gone


# ---- nodes of services ----

cdef uint32_t node_size(uint32_t length) noexcept nogil:
    return lines(SERVICE_HEAD + length)


cdef ServiceNode *service_node(Cluster *cluster, int world, Span namespace, Span name, bint make) noexcept nogil:
    cdef uint8_t key[128]
    cdef uint32_t length = build_key(name, namespace, key)
    return keyed_service_node(cluster, world, key, length, make) if length else NULL


cdef ServiceNode *keyed_service_node(Cluster *cluster, int world, const uint8_t *key, uint32_t length, bint make) noexcept nogil:
    cdef ServiceNode *node = find_service(cluster, world, key, length)
    cdef NamespaceNode *owner
    if node != NULL or not make:
        return node
    owner = labelled_namespace(cluster, key + key[0] + 1, True)
    if owner == NULL:
        return NULL
    node = <ServiceNode *>memory_alloc(&cluster.memory, node_size(length))
    if node != NULL:
        memset(node, 0, SERVICE_HEAD)
        node.namespace = owner
        node.world = <uint8_t>world
        node.length = <uint8_t>length
        memcpy(node.key, key, length)
        if table_insert(&cluster.services[world], &cluster.memory, service_hash(node), node) == 0:
            owner.references += 1
            return node
        memory_free(&cluster.memory, node, node_size(length))
    namespace_release(cluster, owner)
    return NULL


cdef void service_release(Cluster *cluster, ServiceNode *node) noexcept nogil:
    if node.record != NULL or node.slices != NULL:
        return
    table_remove(&cluster.services[node.world], service_hash(node), node)
    node.namespace.references -= 1
    namespace_release(cluster, node.namespace)
    memory_retire(&cluster.memory, node, node_size(node.length))


# ---- addresses of services ----

cdef enum Side:                     # which of a service's addresses
    CLUSTER_IPS
    EXTERNAL_IPS


cdef Table *addresses_of(Cluster *cluster, Side side) noexcept nogil:
    return &cluster.service_addresses if side == CLUSTER_IPS else &cluster.external_addresses


cdef uint32_t address_count(const ServiceRecord *record, Side side) noexcept nogil:
    return <uint32_t>(record.ip4_count + record.ip6_count) if side == CLUSTER_IPS else record.external_count


cdef const uint8_t *address_at(const ServiceRecord *record, Side side, uint32_t i, uint8_t *family) noexcept nogil:
    """NULL for a host name, and for an external address that came before: an address and its service are listed once."""
    cdef const AddressRecord *externals
    cdef uint32_t k
    if side == CLUSTER_IPS:
        family[0] = 4 if i < record.ip4_count else 6
        return service_ip4(record) + 4 * i if i < record.ip4_count else service_ip6(record) + 16 * (i - record.ip4_count)
    externals = service_externals(record)
    family[0] = externals[i].family
    if family[0] == 0:
        return NULL
    for k in range(i):
        if externals[k].family == family[0] and memcmp(externals[k].ip, externals[i].ip, 4 if family[0] == 4 else 16) == 0:
            return NULL
    return externals[i].ip


cdef bint holds(const ServiceRecord *record, Side side, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef uint32_t size = 4 if family == 4 else 16
    cdef const uint8_t *start
    cdef uint32_t i, count
    if record == NULL:
        return False
    if side == EXTERNAL_IPS:
        return service_has_external(record, ip, family)
    start = service_ip4(record) if family == 4 else service_ip6(record)
    count = record.ip4_count if family == 4 else record.ip6_count
    for i in range(count):
        if memcmp(start + i * size, ip, size) == 0:
            return True
    return False


cdef int make_room(Cluster *cluster, Side side, uint32_t entries) noexcept nogil:
    """Free slots for more addresses; -1 when memory ran out."""
    cdef Table *table = addresses_of(cluster, side)
    cdef Table *services = &cluster.services[LOCAL]
    cdef ServiceNode *node
    cdef Slots *slots
    cdef uint32_t place = 0
    if entries == 0 or table_room(table, entries):
        return 0
    slots = slots_new(&cluster.memory, table.used + entries)
    if slots == NULL:
        return -1
    node = <ServiceNode *>table_next(services, &place)
    while node != NULL:
        if node.record != NULL:
            put_addresses(slots, side, node, node.record)
        node = <ServiceNode *>table_next(services, &place)
    table_publish(table, &cluster.memory, slots, table.used)
    return 0


cdef void put_addresses(Slots *slots, Side side, ServiceNode *node, const ServiceRecord *record) noexcept nogil:
    cdef const uint8_t *ip
    cdef uint8_t family
    cdef uint32_t i
    for i in range(address_count(record, side)):
        ip = address_at(record, side, i, &family)
        if ip != NULL:
            slots_put(slots, address_hash(ip, family), node)


cdef void list_side(Cluster *cluster, Side side, ServiceNode *node, const ServiceRecord *record, const ServiceRecord *other, bint remove) noexcept nogil:
    cdef const uint8_t *ip
    cdef uint8_t family
    cdef uint32_t i
    for i in range(address_count(record, side)):
        ip = address_at(record, side, i, &family)
        if ip == NULL or holds(other, side, ip, family):
            continue
        if remove:
            table_remove(addresses_of(cluster, side), address_hash(ip, family), node)
        else:
            table_insert(addresses_of(cluster, side), &cluster.memory, address_hash(ip, family), node)
        tell_address_changed(cluster, ip, family)


cdef void list_addresses(Cluster *cluster, ServiceNode *node, const ServiceRecord *record, const ServiceRecord *other, bint remove) noexcept nogil:
    """Adds (slots are free) or removes the addresses of a record that another record of the node does not have."""
    list_side(cluster, CLUSTER_IPS, node, record, other, remove)
    list_side(cluster, EXTERNAL_IPS, node, record, other, remove)


# ---- services and imports ----

cdef EventResult put(Cluster *cluster, int world, const Object *object, ServiceRecord *made, uint32_t size, int *moves) noexcept nogil:
    """Publishes the record in the scratch area as that of its service."""
    cdef int kind = KIND_SERVICE if world == LOCAL else KIND_IMPORT
    cdef ServiceNode *node = service_node(cluster, world, object.namespace, object.name, True)
    cdef ServiceRecord *old
    cdef ServiceRecord *record
    if node == NULL:
        return NO_MEMORY
    old = node.record
    if old != NULL:
        if is_late(cluster, kind, object.version, old.version):
            return UNCHANGED
        made.version = old.version
        made.mark = old.mark
        if old.size == size and memcmp(old, made, size) == 0:
            old.version = object.version
            old.mark = cluster.generation[<int>kind]
            return UNCHANGED
    record = <ServiceRecord *>memory_alloc(&cluster.memory, lines(size))
    if record == NULL or (world == LOCAL and (make_room(cluster, CLUSTER_IPS, address_count(made, CLUSTER_IPS)) < 0
                                              or make_room(cluster, EXTERNAL_IPS, address_count(made, EXTERNAL_IPS)) < 0)):
        if record != NULL:
            memory_free(&cluster.memory, record, lines(size))
        service_release(cluster, node)
        return NO_MEMORY
    memcpy(record, made, size)
    record.version = object.version
    record.mark = cluster.generation[<int>kind]
    tell_before(cluster, node)
    store_pointer(<void **>&node.record, record)
    if world == LOCAL:
        list_addresses(cluster, node, record, old, False)
    if old != NULL and world == LOCAL:
        list_addresses(cluster, node, old, record, True)
    tell_changed(cluster, node)
    if old == NULL:
        return ADDED
    if world == LOCAL:
        moves[0] = (0 if service_alike(old, record) else MOVES_INTERNAL) | (0 if external_alike(old, record) else MOVES_EXTERNAL)
    memory_retire(&cluster.memory, old, lines(old.size))
    return CHANGED


cdef EventResult service_upsert(Cluster *cluster, const Service *object, int *moves) noexcept nogil:
    cdef uint8_t key[128]
    cdef uint32_t size
    cdef ServiceRecord *made
    moves[0] = 0
    if build_key(object.object.name, object.object.namespace, key) == 0:
        return UNCHANGED
    made = build_service(cluster, object, &size)
    if made == NULL:
        return NO_MEMORY if size else UNCHANGED
    return put(cluster, LOCAL, &object.object, made, size, moves)


cdef EventResult import_upsert(Cluster *cluster, const Import *object) noexcept nogil:
    cdef uint8_t key[128]
    cdef uint32_t size
    cdef int moves = 0
    cdef ServiceRecord *made
    if build_key(object.object.name, object.object.namespace, key) == 0:
        return UNCHANGED
    made = build_import(cluster, object, &size)
    if made == NULL:
        return NO_MEMORY if size else UNCHANGED
    return put(cluster, IMPORTED, &object.object, made, size, &moves)


cdef void drop(Cluster *cluster, ServiceNode *node) noexcept nogil:
    cdef ServiceRecord *old = node.record
    tell_before(cluster, node)
    store_pointer(<void **>&node.record, NULL)
    if node.world == LOCAL:
        list_addresses(cluster, node, old, NULL, True)
    tell_changed(cluster, node)
    service_release(cluster, node)
    memory_retire(&cluster.memory, old, lines(old.size))


cdef EventResult service_remove(Cluster *cluster, int world, const Object *object) noexcept nogil:
    cdef ServiceNode *node = service_node(cluster, world, object.namespace, object.name, False)
    if node == NULL or node.record == NULL:
        return UNCHANGED
    if is_late(cluster, KIND_SERVICE if world == LOCAL else KIND_IMPORT, object.version, node.record.version):
        return UNCHANGED
    drop(cluster, node)
    return REMOVED


cdef uint32_t service_sweep(Cluster *cluster, int world) noexcept nogil:
    cdef Table *table = &cluster.services[world]
    cdef uint16_t mark = cluster.generation[<int>KIND_SERVICE if world == LOCAL else <int>KIND_IMPORT]
    cdef uint32_t place = 0, gone = 0
    cdef ServiceNode *node = <ServiceNode *>table_next(table, &place)
    while node != NULL:
        if node.record != NULL and node.record.mark != mark:
            drop(cluster, node)
            gone += 1
        node = <ServiceNode *>table_next(table, &place)
    return gone


cdef void nodes_end(Cluster *cluster) noexcept nogil:
    cdef ServiceNode *node
    cdef NamespaceNode *namespace
    cdef int world
    cdef uint32_t place
    for world in range(2):
        place = 0
        node = <ServiceNode *>table_next(&cluster.services[world], &place)
        while node != NULL:
            if node.record != NULL:
                memory_free(&cluster.memory, node.record, lines(node.record.size))
            memory_free(&cluster.memory, node, node_size(node.length))
            node = <ServiceNode *>table_next(&cluster.services[world], &place)
    place = 0
    namespace = <NamespaceNode *>table_next(&cluster.namespaces, &place)
    while namespace != NULL:
        memory_free(&cluster.memory, namespace, namespace_size(namespace.length))
        namespace = <NamespaceNode *>table_next(&cluster.namespaces, &place)
