"""Reading the store: what workers call between two announcements of theirs (fastdns.system.epoch). Results are valid until the batch ends."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp
from fastdns.api.wire cimport octets_equal
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.plugins.kubernetes.store.memory cimport Slots, Table, load_word, slot_agrees, slot_entry, table_slots
from fastdns.plugins.kubernetes.store.records cimport Cluster, NamespaceNode, NodeRecord, PodRecord, ServiceNode, ServiceRecord, SliceRecord

cdef struct Probe:                  # walks the entries of a table whose hash may be the wanted one
    const Slots *slots
    uint64_t hash
    uint32_t i

cdef inline void probe_begin(Probe *probe, const Table *table, uint64_t hash) noexcept nogil:
    probe.slots = table_slots(table)
    probe.hash = hash
    probe.i = <uint32_t>hash

cdef inline void *probe_next(Probe *probe) noexcept nogil:
    """The next entry that may be meant: compare it. NULL at the end."""
    cdef uint64_t word
    if probe.slots == NULL:
        return NULL
    while True:
        word = load_word(&probe.slots.slot[probe.i & probe.slots.mask])
        if word == 0:
            return NULL
        probe.i += 1
        if slot_agrees(word, probe.hash):
            return slot_entry(word)

cdef inline uint64_t service_key_hash(const uint8_t *key, uint32_t length) noexcept nogil:
    """Of a service's key: the labels of service and namespace in wire form, lower case."""
    return hash_octets(key, length, hash_seed)

cdef inline ServiceNode *find_service_hashed(const Cluster *cluster, int world, const uint8_t *key, uint32_t length, uint64_t hash) noexcept nogil:
    """The node of a service; hash is that of its key."""
    cdef Probe probe
    cdef ServiceNode *node
    probe_begin(&probe, &cluster.services[world], hash)
    while True:
        node = <ServiceNode *>probe_next(&probe)
        if node == NULL or (node.length == length and octets_equal(node.key, key, length)):
            return node

cdef inline ServiceNode *find_service(const Cluster *cluster, int world, const uint8_t *key, uint32_t length) noexcept nogil:
    return find_service_hashed(cluster, world, key, length, service_key_hash(key, length))

cdef inline NamespaceNode *find_namespace(const Cluster *cluster, const uint8_t *label) noexcept nogil:
    """The node of a namespace; label in wire form, lower case."""
    cdef Probe probe
    cdef NamespaceNode *node
    cdef uint32_t length = <uint32_t>label[0] + 1
    probe_begin(&probe, &cluster.namespaces, hash_octets(label, length, hash_seed))
    while True:
        node = <NamespaceNode *>probe_next(&probe)
        if node == NULL or (node.length == length and octets_equal(node.label, label, length)):
            return node

cdef inline uint64_t address_hash(const uint8_t *ip, uint8_t family) noexcept nogil:
    return hash_octets(ip, 4 if family == 4 else 16, hash_seed)

# The next pod that has the address of a probe begun on cluster.pod_addresses, or NULL.
cdef inline PodRecord *next_pod(Probe *probe, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef PodRecord *pod
    while True:
        pod = <PodRecord *>probe_next(probe)
        if pod == NULL:
            return NULL
        if pod.family == family:
            if family == 4:         # compared at once: the size is known
                if memcmp(pod.data, ip, 4) == 0:
                    return pod
            elif memcmp(pod.data, ip, 16) == 0:
                return pod

# The first one.
cdef PodRecord *find_pod(const Cluster *cluster, const uint8_t *ip, uint8_t family) noexcept nogil
cdef inline uint64_t node_hash(const char *name, uint32_t length) noexcept nogil:
    return hash_octets(<const uint8_t *>name, length, hash_seed)

# NULL: no pod and no endpoint with a zone is on it.
cdef NodeRecord *find_node(const Cluster *cluster, const char *name, uint32_t length) noexcept nogil
# The first service with this cluster IP that `accept` takes (NULL: any).
ctypedef bint (*accept_func)(const void *context, const NamespaceNode *namespace) noexcept nogil
cdef ServiceNode *find_service_by_address(const Cluster *cluster, const uint8_t *ip, uint8_t family, accept_func accept,
                                          const void *context) noexcept nogil
# Next node that may have the address of a probe begun on cluster.external_addresses; the caller asks service_has_external of its record.
cdef inline ServiceNode *next_node(Probe *probe) noexcept nogil:
    return <ServiceNode *>probe_next(probe)

cdef bint service_has_external(const ServiceRecord *record, const uint8_t *ip, uint8_t family) noexcept nogil
# Next slice that may hold the address of a probe begun on cluster.endpoint_addresses; the caller looks for the address in it.
cdef inline SliceRecord *next_slice(Probe *probe) noexcept nogil:
    return <SliceRecord *>probe_next(probe)

# Text of an address as Go prints it (RFC 5952), without a final zero. out has 40 octets; returns the length.
cdef uint32_t address_text(const uint8_t *ip, uint8_t family, char *out) noexcept nogil
