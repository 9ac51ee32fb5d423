"""Writing the store: namespaces, services and service imports; see _nodes.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.plugins.kubernetes.decode.address_set cimport AddressSet, address_set_add, address_set_begin, address_set_end, address_set_has
from fastdns.plugins.kubernetes.store.build cimport build_import, build_key, build_label, build_service, external_alike, service_alike
from fastdns.plugins.kubernetes.store.find cimport address_hash, find_namespace, find_service
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
    """NULL for a host name."""
    cdef const AddressRecord *external
    if side == CLUSTER_IPS:
        family[0] = 4 if i < record.ip4_count else 6
        return service_ip4(record) + 4 * i if i < record.ip4_count else service_ip6(record) + 16 * (i - record.ip4_count)
    external = &service_externals(record)[i]
    family[0] = external.family
    return external.ip if external.family else NULL


cdef int addresses_set(AddressSet *addresses, const ServiceRecord *record, Side side) noexcept nogil:
    """The addresses of a record, which may be NULL. -1 when memory ran out."""
    cdef const uint8_t *ip
    cdef uint8_t family
    cdef uint32_t i, count = address_count(record, side) if record != NULL else 0
    if address_set_begin(addresses, count) < 0:
        return -1
    for i in range(count):
        ip = address_at(record, side, i, &family)
        if ip != NULL:
            address_set_add(addresses, ip, family)
    return 0


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


cdef void list_side(Cluster *cluster, Side side, ServiceNode *node, const ServiceRecord *record, const AddressSet *other, bint remove) noexcept nogil:
    """Adds (slots are free) or removes the addresses of a record that are not in `other`."""
    cdef const uint8_t *ip
    cdef uint8_t family
    cdef uint32_t i
    for i in range(address_count(record, side)):
        ip = address_at(record, side, i, &family)
        if ip == NULL or address_set_has(other, ip, family):
            continue
        if remove:
            table_remove(addresses_of(cluster, side), address_hash(ip, family), node)
        else:
            table_insert(addresses_of(cluster, side), &cluster.memory, address_hash(ip, family), node)
        tell_address_changed(cluster, ip, family)


cdef struct Listed:                 # the addresses of two records of a service, by Side
    AddressSet before[2]
    AddressSet after[2]


cdef int listed_begin(Listed *listed, const ServiceRecord *before, const ServiceRecord *after) noexcept nogil:
    """-1 when memory ran out."""
    cdef int side
    memset(listed, 0, sizeof(Listed))
    for side in range(2):
        if addresses_set(&listed.before[side], before, <Side>side) < 0 or addresses_set(&listed.after[side], after, <Side>side) < 0:
            listed_end(listed)
            return -1
    return 0


cdef void listed_end(Listed *listed) noexcept nogil:
    cdef int side
    for side in range(2):
        address_set_end(&listed.before[side])
        address_set_end(&listed.after[side])


cdef void list_addresses(Cluster *cluster, ServiceNode *node, const ServiceRecord *before, const ServiceRecord *after, const Listed *listed) noexcept nogil:
    """New addresses first, so that an address in both records is never missing."""
    cdef int side
    for side in range(2):
        list_side(cluster, <Side>side, node, after, &listed.before[side], False)
    for side in range(2 if before != NULL else 0):
        list_side(cluster, <Side>side, node, before, &listed.after[side], True)


# ---- services and imports ----

cdef EventResult put(Cluster *cluster, int world, const Object *object, ServiceRecord *made, uint32_t size, int *moves) noexcept nogil:
    """Publishes the record in the scratch area as that of its service."""
    cdef int kind = KIND_SERVICE if world == LOCAL else KIND_IMPORT
    cdef ServiceNode *node = service_node(cluster, world, object.namespace, object.name, True)
    cdef ServiceRecord *old
    cdef ServiceRecord *record
    cdef Listed listed
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
                                              or make_room(cluster, EXTERNAL_IPS, address_count(made, EXTERNAL_IPS)) < 0
                                              or listed_begin(&listed, old, made) < 0)):
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
        list_addresses(cluster, node, old, record, &listed)
        listed_end(&listed)
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
        return NO_MEMORY if size else service_remove(cluster, LOCAL, &object.object)
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
        return NO_MEMORY if size else service_remove(cluster, IMPORTED, &object.object)
    return put(cluster, IMPORTED, &object.object, made, size, &moves)


cdef void drop(Cluster *cluster, ServiceNode *node) noexcept nogil:
    cdef ServiceRecord *old = node.record
    cdef AddressSet none
    cdef int side
    memset(&none, 0, sizeof(none))
    tell_before(cluster, node)
    store_pointer(<void **>&node.record, NULL)
    for side in range(2 if node.world == LOCAL else 0):
        list_side(cluster, <Side>side, node, old, &none, True)
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
