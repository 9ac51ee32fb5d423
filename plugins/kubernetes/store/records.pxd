"""The records of the store: what readers walk without locks.

A record is one block and does not change once it is published, except for the fields marked "writer's", which no reader looks at, and the pointers
marked "atomic". Its variable parts follow the struct, in the order given there; the functions below find them.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from fastdns.api.memory cimport atomic_peek_ns
from fastdns.plugins.kubernetes.store.memory cimport Memory, Table, load_count, load_pointer

cdef enum:                          # worlds: which services a zone shows
    LOCAL = 0                       # Services and their slices
    IMPORTED = 1                    # ServiceImports and the slices of other clusters (multicluster zones)
    WORLDS = 2

cdef struct NamespaceNode:          # of a namespace that exists or that something names
    uint64_t version                # writer's
    uint64_t hash                   # constant: of label
    uint32_t references             # writer's: records that point here
    uint32_t present                # atomic; 1: the Namespace object exists
    uint16_t mark                   # writer's: generation of the list that last showed it
    uint8_t length                  # octets of label, its length octet included
    uint8_t label[64]               # wire form, lower case; the block ends behind the last octet in use

cdef struct PortRecord:
    int32_t number                  # -1: no port
    uint16_t text                   # offset of its name in the record's text; the protocol follows
    uint8_t name_length
    uint8_t protocol_length

cdef struct AddressRecord:          # an external address
    uint8_t ip[16]
    uint16_t text                   # offset in the record's text
    uint8_t text_length
    uint8_t family                  # 4, 6, or 0 for a host name

cdef enum:                          # ServiceRecord.flags
    SERVICE_HEADLESS = 1
    SERVICE_EXTERNAL = 2            # type ExternalName
    SERVICE_ALIAS = 4               # ... and the target is a host name: its wire form is in the record

cdef struct ServiceRecord:          # a Service or a ServiceImport
    uint64_t version                # writer's
    uint32_t size                   # of the block
    uint16_t mark                   # writer's
    uint8_t flags
    uint8_t alias_length            # octets of the target's wire form
    uint16_t address_count          # cluster IPs as the object lists them
    uint16_t ip4_count              # different ones
    uint16_t ip6_count
    uint16_t port_count
    uint16_t external_count
    uint16_t external_name_length   # octets of spec.externalName, first in the text
    # PortRecord[port_count], AddressRecord[external_count], ip4[4 * n], ip6[16 * n], alias, text

cdef struct EndpointRecord:
    uint8_t ip[16]                  # family 0: ip[0] is the length of the host name that leads its text
    uint32_t text                   # offset in the record's text: host name of an FQDN address, hostname, pod, zone
    uint8_t family                  # 4, 6 or 0
    uint8_t hostname_length
    uint8_t pod_length
    uint8_t zone_length

cdef struct SliceRecord:            # an EndpointSlice: one chunk of its service's endpoints
    SliceRecord *next               # atomic; of the same service
    ServiceNode *service
    uint64_t version                # writer's
    uint32_t size                   # of the block
    uint32_t endpoint_count
    uint16_t mark                   # writer's
    uint16_t port_count
    uint8_t name_length             # of the slice's own name, first in the text
    uint8_t cluster_length          # of the cluster's name, behind it
    uint8_t placed                  # node and hints stand behind each endpoint's zone: see endpoint_place
    uint8_t hinted                  # some endpoint has hints
    # PortRecord[port_count], EndpointRecord[endpoint_count], text

cdef struct ServiceNode:            # a (namespace, name) that has a service, slices, or both
    NamespaceNode *namespace
    ServiceRecord *record           # atomic; NULL: only slices so far
    SliceRecord *slices             # atomic; chain of chunks
    uint8_t world
    uint8_t length                  # octets of key
    uint8_t key[128]                # labels of service and namespace in wire form, lower case; the block ends behind the last octet in use

cdef struct PodRecord:
    uint64_t version                # writer's
    NamespaceNode *namespace
    uint16_t mark                   # writer's
    uint8_t family                  # 4, 6, or 0 for no address yet
    uint8_t name_length
    uint16_t labels_length          # octets of its labels; 0 where nobody wants them
    uint8_t host_network            # its address is its node's
    uint8_t placed                  # a pointer to its NodeRecord stands behind the labels; 0 where nobody wants it
    uint8_t zone_length             # of its label, behind that pointer
    uint8_t data[1]                 # in truth address (4 or 16 octets), name, labels (see pod_label_next), pointer, zone

cdef struct NodeZone:
    uint8_t length
    char text[1]                    # in truth as many as that

cdef struct NodeRecord:             # a node that pods or endpoints name
    NodeZone *zone                  # atomic; what endpoints say, NULL: nothing
    uint32_t references             # writer's: pods and endpoints
    uint32_t zoned                  # writer's: endpoints with a zone
    uint8_t length
    char name[1]                    # in truth as many as that

cdef struct Observer:               # of the objects of a store. Functions are called under the store's lock, maybe more than once; NULL: not wanted
    Observer *next
    # Before a record or slice of the service, or whether its namespace is there, changes.
    void (*changes)(Observer *self, const ServiceNode *node) noexcept nogil
    # When readers find it changed.
    void (*changed)(Observer *self, const ServiceNode *node) noexcept nogil
    # When readers find a namespace that was not there, or no longer find it.
    void (*namespace_changed)(Observer *self, const NamespaceNode *namespace) noexcept nogil
    # When a record of a pod has come, or goes.
    void (*pod_changed)(Observer *self, const PodRecord *pod, bint gone) noexcept nogil
    # When readers find other services or endpoints at an address.
    void (*address_changed)(Observer *self, const uint8_t *ip, uint8_t family) noexcept nogil

cdef struct Cluster:                # the store's state; pointers to it are valid as long as the Store lives
    void *lock                      # a pthread mutex: see cluster_lock
    Memory memory
    Table namespaces                # NamespaceNode by label
    Table services[2]               # ServiceNode by key, by world
    Table service_addresses         # ServiceNode by cluster IP; LOCAL only
    Table external_addresses        # ServiceNode by external IP; LOCAL only
    Table endpoint_addresses        # SliceRecord by endpoint address; LOCAL only
    Table pod_addresses             # PodRecord by address
    Table slices[2]                 # SliceRecord by namespace and slice name; writer's
    Table pods                      # PodRecord by namespace and name; writer's
    Table nodes                     # NodeRecord by name
    uint8_t places                  # constant: nodes, zones and hints are kept
    uint32_t serial                 # atomic; Unix time of the last relevant change, by kind of zone
    uint32_t import_serial          # atomic
    uint32_t external_serial        # atomic
    uint32_t synced                 # atomic; bit (1 << Kind) for each kind that had a whole list
    uint32_t stale                  # atomic; the same bits: what is there is from an earlier process's snapshot
    int64_t lost[6]                 # atomic; by Kind. ns, monotonic: since when the API server's changes do not come. 0: they do
    int64_t stale_after             # atomic; ns from then on after which what a replica has is stale. 0: never
    uint8_t stale_fails             # atomic; then queries get SERVFAIL
    uint16_t generation[6]          # writer's; by Kind
    uint8_t listing[6]              # writer's: between begin and commit
    uint8_t source[6]               # writer's: Source of the list under way or last seen
    uint8_t at_once[6]              # writer's: nothing of the kind has been answered yet, and its list is at hand; see addresses.pxd
    uint32_t events                 # writer's
    Observer *observers             # under the lock
    uint32_t count[6]               # objects, by Kind; readable at any time
    uint8_t *scratch                # writer's: where a record is made before it is compared with the standing one
    uint32_t scratch_size


cdef inline void tell_before(const Cluster *cluster, const ServiceNode *node) noexcept nogil:
    cdef Observer *observer = cluster.observers
    while observer != NULL:
        if observer.changes != NULL:
            observer.changes(observer, node)
        observer = observer.next

cdef inline void tell_changed(const Cluster *cluster, const ServiceNode *node) noexcept nogil:
    cdef Observer *observer = cluster.observers
    while observer != NULL:
        if observer.changed != NULL:
            observer.changed(observer, node)
        observer = observer.next

cdef inline void tell_namespace_changed(const Cluster *cluster, const NamespaceNode *namespace) noexcept nogil:
    cdef Observer *observer = cluster.observers
    while observer != NULL:
        if observer.namespace_changed != NULL:
            observer.namespace_changed(observer, namespace)
        observer = observer.next

cdef inline void tell_pod_changed(const Cluster *cluster, const PodRecord *pod, bint gone) noexcept nogil:
    cdef Observer *observer = cluster.observers
    while observer != NULL:
        if observer.pod_changed != NULL:
            observer.pod_changed(observer, pod, gone)
        observer = observer.next

cdef inline void tell_address_changed(const Cluster *cluster, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef Observer *observer = cluster.observers
    while observer != NULL:
        if observer.address_changed != NULL:
            observer.address_changed(observer, ip, family)
        observer = observer.next


cdef inline int64_t cluster_age(const Cluster *cluster, uint32_t kinds, int64_t now) noexcept nogil:
    """ns, monotonic time and age, since when the objects of some kinds (a bit for each) may have changed. As long as can be while one was not listed."""
    cdef int64_t age = 0, lost
    cdef uint32_t kind
    if load_count(&cluster.synced) & kinds != kinds or load_count(&cluster.stale) & kinds:
        return INT64_MAX
    for kind in range(6):
        lost = atomic_peek_ns(&cluster.lost[kind]) if kinds >> kind & 1 else 0
        if lost:
            age = max(age, now - lost)
    return age


cdef inline bint cluster_is_stale(const Cluster *cluster, uint32_t kinds, int64_t now) noexcept nogil:
    """Whether a replica's objects, which are all there, may lack changes that are older than is allowed."""
    cdef int64_t after = atomic_peek_ns(&cluster.stale_after)
    return after > 0 and load_count(&cluster.synced) & kinds == kinds and cluster_age(cluster, kinds, now) > after


# ---- variable parts ----

cdef inline PortRecord *service_ports(const ServiceRecord *record) noexcept nogil:
    return <PortRecord *>(<uint8_t *>record + sizeof(ServiceRecord))

cdef inline AddressRecord *service_externals(const ServiceRecord *record) noexcept nogil:
    return <AddressRecord *>(<uint8_t *>service_ports(record) + record.port_count * sizeof(PortRecord))

cdef inline uint8_t *service_ip4(const ServiceRecord *record) noexcept nogil:
    return <uint8_t *>service_externals(record) + record.external_count * sizeof(AddressRecord)

cdef inline uint8_t *service_ip6(const ServiceRecord *record) noexcept nogil:
    return service_ip4(record) + 4 * record.ip4_count

cdef inline uint8_t *service_alias(const ServiceRecord *record) noexcept nogil:
    return service_ip6(record) + 16 * record.ip6_count

cdef inline char *service_text(const ServiceRecord *record) noexcept nogil:
    return <char *>service_alias(record) + record.alias_length

cdef inline PortRecord *slice_ports(const SliceRecord *record) noexcept nogil:
    return <PortRecord *>(<uint8_t *>record + sizeof(SliceRecord))

cdef inline EndpointRecord *slice_endpoints(const SliceRecord *record) noexcept nogil:
    return <EndpointRecord *>(<uint8_t *>slice_ports(record) + record.port_count * sizeof(PortRecord))

cdef inline char *slice_text(const SliceRecord *record) noexcept nogil:
    return <char *>slice_endpoints(record) + record.endpoint_count * sizeof(EndpointRecord)

cdef inline char *slice_cluster(const SliceRecord *record) noexcept nogil:
    return slice_text(record) + record.name_length

cdef inline uint32_t endpoint_hostname(const EndpointRecord *endpoint) noexcept nogil:
    """Offset of the hostname in the slice's text; pod and zone follow."""
    return endpoint.text + (endpoint.ip[0] if endpoint.family == 0 else 0)

cdef inline ServiceRecord *node_service(const ServiceNode *node) noexcept nogil:
    return <ServiceRecord *>load_pointer(<void **>&node.record)

cdef inline SliceRecord *node_slices(const ServiceNode *node) noexcept nogil:
    return <SliceRecord *>load_pointer(<void **>&node.slices)

cdef inline SliceRecord *slice_next(const SliceRecord *record) noexcept nogil:
    return <SliceRecord *>load_pointer(<void **>&record.next)

cdef inline uint32_t pod_address_length(const PodRecord *pod) noexcept nogil:
    return 4 if pod.family == 4 else 16 if pod.family == 6 else 0

cdef struct PodLabel:               # one label of a pod; borrowed from its record
    const uint8_t *key
    const uint8_t *value
    uint16_t key_length
    uint8_t value_length

cdef inline uint8_t *pod_labels(const PodRecord *pod) noexcept nogil:
    return <uint8_t *>pod.data + pod_address_length(pod) + pod.name_length

cdef inline bint pod_label_next(const PodRecord *pod, uint32_t *place, PodLabel *label) noexcept nogil:
    """The label at place (0 at first), which moves behind it; False at the end. Two octets of the key's length, one of the value's, key, value."""
    cdef const uint8_t *at = pod_labels(pod) + place[0]
    if place[0] + 3 > pod.labels_length:
        return False
    label.key_length = <uint16_t>(at[0] << 8 | at[1])
    label.value_length = at[2]
    label.key = at + 3
    label.value = label.key + label.key_length
    place[0] += 3u + label.key_length + label.value_length
    return place[0] <= pod.labels_length

# ---- places ----

cdef enum:                          # tags of EndpointHints
    HINT_ZONE = 0x0A
    HINT_NODE = 0x12
    HINT_MAX = 125                  # octets of a name: lengths are varints of one octet

cdef struct EndpointPlace:          # borrowed from the record
    const char *zone
    const char *node
    const uint8_t *hints            # EndpointHints: for each one a tag, an octet of length, 0x0A, the length of a name and the name
    uint8_t zone_length
    uint8_t node_length
    uint32_t hints_length

cdef inline void endpoint_place(const SliceRecord *slice, const EndpointRecord *endpoint, EndpointPlace *place) noexcept nogil:
    """Where an endpoint of a `placed` slice is, and for whom."""
    cdef const uint8_t *at = <const uint8_t *>slice_text(slice) + endpoint_hostname(endpoint) + endpoint.hostname_length + endpoint.pod_length
    place.zone = <const char *>at
    place.zone_length = endpoint.zone_length
    at += endpoint.zone_length
    place.node_length = at[0]
    place.node = <const char *>at + 1
    at += at[0] + 1
    place.hints_length = at[0] << 8 | at[1]
    place.hints = at + 2

cdef inline NodeRecord *pod_node(const PodRecord *pod) noexcept nogil:
    """Of a `placed` pod."""
    cdef NodeRecord *node
    memcpy(&node, pod_labels(pod) + pod.labels_length, sizeof(node))
    return node

cdef inline const char *pod_zone(const PodRecord *pod) noexcept nogil:
    return <const char *>pod_labels(pod) + pod.labels_length + sizeof(NodeRecord *)
